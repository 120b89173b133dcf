"""Lint compared with brute force, and linted plans executed by `decide` to their end."""

from collections.abc import Callable
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from properties.sound_goals import sound_goal
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.plan.analysis.lint import lint
from scaffold.plan.decide import (
    CompleteCompound,
    CompleteGoal,
    Decompose,
    Dispatch,
    FailCompound,
    FailedPrimitive,
    FailGoal,
    GoalView,
    ReadyAction,
    Replan,
    RunningCompound,
    StartCompound,
    decide,
)
from scaffold.plan.graph.dependency_graph import makespan_bound
from scaffold.plan.graph.readiness import ActionNode, blocked_by_failure
from scaffold.plan.graph.ready_queue import ReadyQueue
from support.plans import ready_actions
from support.property_examples import up_to

ASSERTIONS = "abcde"
some = st.lists(st.sampled_from(ASSERTIONS), max_size=2, unique=True).map(tuple)


@st.composite
def any_goal(draw, name="g", prefix="k"):
    """A small goal, sound or not: parents may be missing, primitive or in a cycle, keys may be repeated."""
    keys = [f"{prefix}{i}" for i in range(draw(st.integers(0, 6)))]
    if len(keys) > 1 and draw(st.integers(0, 19)) == 0:
        keys[-1] = keys[0]
    parents = st.none() | st.sampled_from([*keys, "nobody"]) if draw(st.booleans()) else st.none()
    actions = tuple(
        ActionSpec(
            key=key,
            kind=draw(st.sampled_from(["primitive", "compound"])),
            parent=draw(parents),
            preconditions=draw(some),
            effects=draw(some),
        )
        for key in keys
    )
    return GoalSpec(name=name, goal_state=draw(some), actions=actions)


def parent_of(goal: GoalSpec, action: ActionSpec) -> ActionSpec | None:
    named = next((other for other in goal.actions if other.key == action.parent), None)
    return named if named is not None and named.kind == "compound" else None


def children_of(goal: GoalSpec, action: ActionSpec) -> list[ActionSpec]:
    return [other for other in goal.actions if other.parent and parent_of(goal, other) is action]


def simulate(goal: GoalSpec, held: tuple[str, ...] = ()) -> tuple[list[ActionSpec], set[str]]:
    """Run every action that can run until nothing changes; a running compound lets its children run."""
    ran: list[ActionSpec] = []
    facts = set(held)
    while runnable := [
        action
        for action in goal.actions
        if not any(action is other for other in ran)
        and facts.issuperset(action.preconditions)
        and (action.parent is None or any(parent_of(goal, action) is other for other in ran))
    ]:
        ran.append(runnable[0])
        if not children_of(goal, runnable[0]):
            facts.update(runnable[0].effects)
    return ran, facts


def kept(goal: GoalSpec, held: tuple[str, ...] = ()) -> bool:
    """Return whether each compound with children promises only what one of them provides, or what holds."""
    return all(
        not (children := children_of(goal, action))
        or set(action.effects) <= {effect for child in children for effect in child.effects}.union(held)
        for action in goal.actions
    )


@settings(max_examples=up_to(400))
@given(any_goal(), any_goal(name="h", prefix="l"), some)
def test_lint_finds_an_error_exactly_if_brute_force_does(first, second, held):
    """BX-7, SC-3: valid means unique keys, goals reached, every action run, every promise of a compound kept.

    Facts that hold already count, in their own goal alone.
    """
    plan = Plan(goals=(first, second))
    sound = len({action.key for action in plan.actions}) == len(plan.actions)
    for goal in plan.goals:
        mine = held if goal is first else ()
        ran, facts = simulate(goal, mine)
        sound = sound and kept(goal, mine) and facts.issuperset(goal.goal_state) and len(ran) == len(goal.actions)
    assert lint(plan, {"g": held}).valid is sound


@settings(max_examples=up_to(200))
@given(any_goal())
def test_a_goal_is_reported_unreachable_exactly_if_brute_force_never_reaches_it(goal):
    """SC-3."""
    _, facts = simulate(goal)
    missed = [f for f in lint(Plan(goals=(goal,))).findings if f.code == "unreachable-goal" and f.action is None]
    assert len(missed) == len(set(goal.goal_state) - facts)


def mended(goal: GoalSpec) -> GoalSpec:
    """Remove every fault that lint reports from the goal, so that nothing else should block an action."""
    for finding in lint(Plan(goals=(goal,))).findings:
        match finding.code:
            case "unprovided-precondition" | "self-dependency" if "parent" in finding.message:
                goal = changed(goal, finding.action, lambda action: replace(action, parent=None))
            case "unprovided-precondition" | "self-dependency":
                need = finding.message.split("`")[3]
                goal = changed(goal, finding.action, lambda action, need=need: freed(action, {need}))
            case "cycle":
                for key in finding.message.rpartition(": ")[2].split(" -> "):
                    goal = changed(goal, key, lambda action: replace(freed(action, set(ASSERTIONS)), parent=None))
            case "unreachable-goal" if finding.action:
                promise = finding.message.split("`")[3]
                child = ActionSpec(key=f"{finding.action}+{promise}", parent=finding.action, effects=(promise,))
                goal = replace(goal, actions=(*goal.actions, child))
    return goal


def changed(goal: GoalSpec, key: str | None, change: Callable[[ActionSpec], ActionSpec]) -> GoalSpec:
    return replace(goal, actions=tuple(change(action) if action.key == key else action for action in goal.actions))


def freed(action: ActionSpec, needs: set[str]) -> ActionSpec:
    return replace(action, preconditions=tuple(need for need in action.preconditions if need not in needs))


def unique(goal: GoalSpec) -> bool:
    return len({action.key for action in goal.actions}) == len(goal.actions)


@settings(max_examples=up_to(400))
@given(any_goal().filter(unique))
def test_when_every_reported_fault_is_fixed_every_action_runs(goal):
    """BX-7: with the causes gone, and the actions of each cycle free, nothing is left to wait for."""
    better = mended(goal)
    assert len(simulate(better)[0]) == len(better.actions)


@given(any_goal().filter(unique))
def test_the_critical_path_is_a_chain_as_long_as_the_plan_is_deep(goal):
    linted = lint(Plan(goals=(goal,)))
    ran = {action.key: action for action in simulate(goal)[0]}
    assert set(linted.critical_path) <= set(ran)
    leaves = [action for action in ran.values() if not children_of(goal, action)]
    plan = Plan(goals=(goal,))
    assert makespan_bound(plan, len(leaves) or 1, dict.fromkeys(ran, 1.0)) == len(linted.critical_path)
    assert makespan_bound(plan, 1, dict.fromkeys(ran, 1.0)) == len(leaves)
    assert linted.width <= len(leaves) <= linted.width * len(linted.critical_path)


@given(st.lists(some, min_size=1, max_size=6), st.data())
def test_a_stranded_action_never_becomes_ready(effects, data):
    """SC-4: blocked permanently means that no order of successes helps."""
    statuses = st.sampled_from(["pending", "running", "completed", "failed", "blocked", "cancelled", "skipped"])
    nodes = [
        ActionNode(f"n{i}", data.draw(st.none() | st.just(f"n{i - 1}")) if i else None, data.draw(some), gives,
             data.draw(statuses), "compound")
        for i, gives in enumerate(effects)
    ]  # fmt: skip
    lost = blocked_by_failure(nodes, frozenset())
    facts = {effect for node in nodes if node.status in {"running", "completed"} for effect in node.effects}
    alive = [replace(node, status="running") if node.status == "completed" else node for node in nodes]
    while now_ready := ready_actions(alive, frozenset(facts)):
        assert lost.keys().isdisjoint(now_ready)
        alive = [replace(node, status="running") if node.id in now_ready else node for node in alive]
        facts.update(effect for node in alive if node.id in now_ready for effect in node.effects)
    assert all(reason.startswith("dependency_failed:n") for reason in lost.values())


STATUSES = ["pending", "running", "verifying", "landing", "completed", "failed", "blocked", "cancelled", "skipped"]


@settings(max_examples=up_to(300))
@given(st.lists(some, min_size=1, max_size=6), st.data())
def test_counted_readiness_equals_its_definition_after_any_changes(needs, data):
    """SC-4, SC-2: facts are added, actions and parents move, in any order."""
    parents = st.none() | st.sampled_from([*range(len(needs)), 99])
    nodes = [
        ActionNode(
            f"n{i}",
            None if (up := data.draw(parents)) is None else f"n{up}",
            mine,
            (),
            data.draw(st.sampled_from(STATUSES)),
            "compound",
        )
        for i, mine in enumerate(needs)
    ]
    facts = set(data.draw(some))
    queue = ReadyQueue(nodes, facts)
    changes = st.one_of(
        st.tuples(st.just("shown"), st.sampled_from(ASSERTIONS)),
        st.tuples(st.integers(0, len(nodes) - 1), st.sampled_from(STATUSES)),
    )
    for what, which in data.draw(st.lists(changes, max_size=12)):
        if isinstance(what, int):
            nodes[what] = replace(nodes[what], status=which)
            queue.set_status(nodes[what].id, which)
        else:
            facts.add(which)
            queue.add_fact(which)
        assert queue.ready() == ready_actions(nodes, frozenset(facts))
        is_open = [sum(c.parent_id == n.id and c.status in STATUSES[:4] for c in nodes) for n in nodes]
        assert [queue.open_children(node.id) for node in nodes] == is_open
        assert (queue.facts, queue.actions) == (facts, tuple(nodes))


names = st.lists(st.sampled_from(ASSERTIONS), max_size=2, unique=True).map(tuple)


@st.composite
def any_view(draw):
    fresh = count()
    ready_actions = tuple(
        ReadyAction(f"id{next(fresh)}", "key", draw(st.sampled_from(["primitive", "compound"])), draw(st.booleans()))
        for _ in range(draw(st.integers(0, 5)))
    )
    compounds = tuple(
        RunningCompound(f"id{next(fresh)}", "key", draw(st.integers(0, 2)), draw(names))
        for _ in range(draw(st.integers(0, 3)))
    )
    return GoalView(
        unmet=draw(names),
        ready=ready_actions,
        compounds=compounds,
        running=draw(st.integers(0, 3)),
        waiting=draw(st.integers(0, 2)),
        exhausted=tuple(FailedPrimitive(key, key, draw(st.sampled_from([None, "id0"]))) for key in draw(names)),
        slots=draw(st.integers(0, 4)),
        replans_left=draw(st.integers(0, 2)),
        can_decompose=draw(st.booleans()),
        planner_busy=draw(st.booleans()),
    )


@settings(max_examples=up_to(400))
@given(any_view())
def test_decisions_respect_their_bounds_for_any_view(view):
    """OR-3: never above the cap, nothing twice, no end while something runs, no waiting for nothing."""
    commands = decide(view)
    dispatches = [command for command in commands if isinstance(command, Dispatch)]
    assert len(dispatches) <= view.slots
    targets = [getattr(command, "compound", getattr(command, "action", None)) for command in commands]
    assert len(set(targets)) == len(targets)
    assert commands == decide(view)
    if any(isinstance(command, CompleteGoal | FailGoal | Replan) for command in commands):
        assert len(commands) == 1
    if any(isinstance(command, CompleteGoal | FailGoal) for command in commands):
        assert view.running == 0
    if view.waiting:
        assert not any(isinstance(command, FailGoal) for command in commands)
    if not commands:
        assert view.running or view.waiting or view.planner_busy or view.ready
    if view.planner_busy:
        assert not any(isinstance(command, Decompose | Replan | FailGoal) for command in commands)
    if not view.unmet:
        assert all(isinstance(command, CompleteGoal | CompleteCompound) for command in commands)


class Toy:
    """Executes commands in memory; `succeeds` decides how each attempt ends, `pick` which one ends next."""

    def __init__(self, goal: GoalSpec, slots: int, pick: Callable[[int], int], succeeds: Callable[[], bool]) -> None:
        self.goal, self.slots, self.pick, self.succeeds = goal, slots, pick, succeeds
        self.facts: set[str] = set()
        self.dispatched: list[str] = []
        self.nodes = {
            action.key: ActionNode(
                action.key, action.parent, action.preconditions, action.effects, "pending", action.kind
            )
            for action in goal.actions
        }

    def run(self) -> CompleteGoal | FailGoal:
        for _ in range(200):
            commands = decide(self.view())
            for command in commands:
                if isinstance(command, CompleteGoal | FailGoal):
                    return command
                self.carry_out(command)
            if not commands:
                self.end_one()
        raise AssertionError("neither complete nor failed after 200 decisions")

    def move(self, key: str, status: str) -> None:
        self.nodes[key] = replace(self.nodes[key], status=status)

    def children(self, key: str) -> list[ActionNode]:
        return [node for node in self.nodes.values() if node.parent_id == key]

    def with_status(self, status: str, kind: str) -> list[ActionNode]:
        return [node for node in self.nodes.values() if (node.status, node.kind) == (status, kind)]

    def view(self) -> GoalView:
        for key in blocked_by_failure(list(self.nodes.values()), frozenset(self.facts)):
            self.move(key, "blocked")
        running = len(self.with_status("running", "primitive"))
        able = [self.nodes[key] for key in ready_actions(list(self.nodes.values()), frozenset(self.facts))]
        return GoalView(
            unmet=tuple(desired for desired in self.goal.goal_state if desired not in self.facts),
            ready=tuple(ReadyAction(node.id, node.id, node.kind, bool(self.children(node.id))) for node in able),
            compounds=tuple(map(self.compound, self.with_status("running", "compound"))),
            running=running,
            waiting=0,
            exhausted=tuple(
                FailedPrimitive(node.id, node.id, node.parent_id) for node in self.with_status("failed", "primitive")
            ),
            slots=self.slots - running,
            replans_left=0,
            can_decompose=True,
        )

    def compound(self, node: ActionNode) -> RunningCompound:
        is_open = [child.status in {"pending", "running"} for child in self.children(node.id)]
        unmet = tuple(effect for effect in node.effects if effect not in self.facts)
        return RunningCompound(node.id, node.id, sum(is_open), unmet)

    def carry_out(self, command: Any) -> None:
        match command:
            case Dispatch(action=key):
                self.dispatched.append(key)
                self.move(key, "running")
            case StartCompound(compound=key):
                self.move(key, "running")
            case CompleteCompound(compound=key):
                self.move(key, "completed")
            case FailCompound(compound=key):
                self.move(key, "failed")
            case Decompose(compound=key, gap=gap):
                self.move(key, "running")
                for effect in gap or self.nodes[key].effects:
                    child = f"{key}:{len(self.nodes)}"
                    self.nodes[child] = ActionNode(child, key, (), (effect,), "pending", "primitive")

    def end_one(self) -> None:
        running = self.with_status("running", "primitive")
        node = running[self.pick(len(running))]
        succeeded = self.succeeds()
        self.move(node.id, "completed" if succeeded else "failed")
        self.facts.update(node.effects if succeeded else ())


@given(sound_goal(), st.integers(1, 3), st.data())
def test_a_linted_plan_is_always_executed_to_its_end(goal, slots, data):
    """BX-7, OR-3, SC-3, SC-5: if every attempt succeeds, the goal completes and nothing is dispatched twice."""
    assert lint(Plan(goals=(goal,))).valid
    toy = Toy(goal, slots, lambda running: data.draw(st.integers(0, running - 1)), lambda: True)
    assert toy.run() == CompleteGoal()
    assert toy.facts.issuperset(goal.goal_state)
    assert len(set(toy.dispatched)) == len(toy.dispatched)


@given(sound_goal(), st.integers(1, 3), st.data())
def test_a_goal_ends_with_a_reason_whatever_fails(goal, slots, data):
    """OR-3, SC-3: complete exactly if the goal state holds; otherwise failed with a reason, never stuck."""
    failures = iter([False] * data.draw(st.integers(0, 4)))
    toy = Toy(
        goal,
        slots,
        pick=lambda running: data.draw(st.integers(0, running - 1)),
        succeeds=lambda: data.draw(st.booleans()) or next(failures, True),
    )
    end = toy.run()
    assert isinstance(end, CompleteGoal) is toy.facts.issuperset(goal.goal_state)
    assert len(set(toy.dispatched)) == len(toy.dispatched)
