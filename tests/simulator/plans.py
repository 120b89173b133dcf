"""Random plans: goals with actions that depend on each other and conflict, some of which cannot be done."""

from random import Random  # noqa: TID251 - seeded

from msgspec import structs

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.core.proof.contract import Contract
from scaffold.plan.collisions.layout import SourceLayout
from simulator.focus import NO_FOCUS

MOST_GOALS = 3
MOST_ACTIONS = 12
SHARED = ("shared/one.txt", "shared/two.txt")
"""Files that actions of all goals change: the second one to land finds a conflict."""


LAYOUT = SourceLayout(packages=("other", "shared"))
"""Where these files are."""


def effect_of(key: str) -> Assertion:
    """Return the effect of the action with that key."""
    return Assertion(f"{key}_done")


def file_of(key: str) -> str:
    """Return the file that only the action with that key writes."""
    return f"{key}.txt"


def primitive(rng: Random, key: str, shared_files: float = NO_FOCUS.shared_files, **fields: object) -> ActionSpec:
    """Return an action that writes its own file, and maybe one that others write, too."""
    shared = (rng.choice(SHARED),) if rng.random() < shared_files else ()
    contract = Contract(must_exist=(file_of(key),)) if rng.random() < 0.7 else None
    given = {"effects": (effect_of(key),), "files": (file_of(key), *shared), "contract": contract} | fields
    return ActionSpec(key=ActionKey(key), description=f"Make {key}", **given)


def plan_at_random(rng: Random, shared_files: float) -> Plan:
    """Return one to three goals of up to twelve actions each, all of which can be reached as the plan is written."""
    return Plan(goals=tuple(_goal(rng, f"g{number}", shared_files) for number in range(rng.randint(1, MOST_GOALS))))


def without_some_files(plan: Plan, rng: Random) -> tuple[Plan, dict[str, tuple[str, ...]]]:
    """Return the plan with primitives that do not say what they change, and the files that these do change."""
    undeclared: dict[str, tuple[str, ...]] = {}
    most = rng.choice((0, 0, 0.3, 1))
    goals = []
    for goal in plan.goals:
        actions = []
        for action in goal.actions:
            if action.files and rng.random() < most:
                undeclared[action.key] = action.files
                actions.append(structs.replace(action, files=()))
            else:
                actions.append(action)
        goals.append(structs.replace(goal, actions=tuple(actions)))
    return Plan(goals=tuple(goals)), undeclared


def _goal(rng: Random, name: str, shared_files: float) -> GoalSpec:
    size = min(rng.randint(1, MOST_ACTIONS), rng.randint(1, MOST_ACTIONS))
    actions: list[ActionSpec] = []
    while len(actions) < size:
        key, needs = f"{name}a{len(actions)}", _needs(rng, actions)
        shape = rng.random()
        if shape < 0.1:
            actions.append(_compound(key, needs, effect_of(key)))
        elif shape < 0.25 and len(actions) + 2 <= size:
            actions += _family(rng, key, needs, shared_files)
        else:
            actions.append(primitive(rng, key, shared_files, preconditions=needs))
    effects = [effect for action in actions for effect in action.effects]
    wanted = effects if rng.random() < 0.7 else rng.sample(effects, rng.randint(1, len(effects)))
    return GoalSpec(
        name=name, description=f"Have {name}", goal_state=tuple(dict.fromkeys(wanted)), actions=tuple(actions)
    )


def _needs(rng: Random, earlier: list[ActionSpec]) -> tuple[Assertion, ...]:
    known = [effect for action in earlier for effect in action.effects]
    return tuple(dict.fromkeys(rng.sample(known, min(len(known), rng.choice((0, 0, 1, 1, 2))))))


def _compound(key: str, needs: tuple[Assertion, ...], *effects: Assertion) -> ActionSpec:
    return ActionSpec(
        key=ActionKey(key), description=f"Have {key}", kind="compound", preconditions=needs, effects=effects
    )


def _family(rng: Random, key: str, needs: tuple[Assertion, ...], shared_files: float) -> list[ActionSpec]:
    """Return a compound with children that are part of the plan."""
    children = [
        primitive(rng, f"{key}c{number}", shared_files, parent=ActionKey(key)) for number in range(rng.randint(1, 3))
    ]
    return [_compound(key, needs, effect_of(children[-1].key)), *children]
