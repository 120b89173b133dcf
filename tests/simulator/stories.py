"""Stories in a simulated run: their plans, and what the agents of their steps do and ask for."""

import json
from collections.abc import Sequence
from random import Random  # noqa: TID251 - seeded

from msgspec import structs

from scaffold.core.ids import ActionKey
from scaffold.core.model import Action
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.core.proof.contract import Contract
from scaffold.plan.source.dag import done_assertion
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.actions import step_actions, story_action
from scaffold.plan.story.record import StepId, StepRecord, StoryRecord
from scaffold.plan.story.step_type import MANDATORY, STEP_TYPES, StepType, step_type
from scaffold.store.database import Store
from scaffold.views.story_record import step_id, story_record
from simulator import worker
from simulator.faults import FaultInjector
from simulator.plans import SHARED, file_of

MOST_STORIES = 3
EDITS = (0, 0, 1, 3, 8, 20)
"""How many edits the agents of all stories may ask for."""
KINDS: tuple[StepType, ...] = ("context_gathering", "planning", "coding", "linting", "review", "coding")
BEHAVIOURS: tuple[tuple[worker.Behaviour, float], ...] = (
    ("good", 80),
    ("slow", 4),
    ("twice", 4),
    ("fails", 1),
    ("idles", 5),
    ("finds", 3),
    ("breaks", 1),
    ("dies", 6),
    ("early", 3),
    ("mute", 0.4),
    ("asks", 4),
)
"""As of other workers; fewer fail, as the first failure of a step ends its story."""


class Stories:
    """Whether a run has stories, and all that is drawn for them: apart, so that other runs stay as they are."""

    def __init__(self, seed: int, *, more: float = 0.4) -> None:
        self._rng = Random(f"worked stories {seed}")
        self._present = self._rng.random() < more
        self._edits_left = self._rng.choice(EDITS)
        self._fails = {f"US-{number}" for number in range(MOST_STORIES) if self._rng.random() < 0.07}

    def added_to(self, plan: Plan) -> Plan:
        """Return the plan, with a goal of stories if the run has any."""
        if not self._present:
            return plan
        others = plan.goals[: self._rng.choice((0, 1, 1, 3))]
        return Plan(goals=(*others, self._goal()))

    def _goal(self) -> GoalSpec:
        tasks: list[SourceTask] = []
        actions: list[ActionSpec] = []
        for number in range(self._rng.randint(1, MOST_STORIES)):
            needs = [each.id for each in tasks if self._rng.random() < 0.25]
            tasks.append(SourceTask(id=ActionKey(f"US-{number}"), title="S", depends_on=tuple(needs)))
            actions += self._actions(tasks[-1])
        goal_state = tuple(done_assertion(each.id) for each in tasks)
        return GoalSpec(name="stories", description="Have the stories", goal_state=goal_state, actions=tuple(actions))

    def _actions(self, task: SourceTask) -> list[ActionSpec]:
        kinds = [each for each in KINDS if self._rng.random() < 0.5]
        steps = tuple(
            StepRecord(id=StepId(f"step-{number:03d}"), type=kind, description=f"Do {kind}")
            for number, kind in enumerate((*kinds, "final_review"), 1)
        )
        record = StoryRecord(story_id=task.id, title=task.title, depends_on=task.depends_on, steps=steps)
        *before, last = step_actions(record)
        if self._rng.random() < 0.6:
            last = _with_contract(last)
        return [story_action(task), *before, last]

    def behaviour(self, action: Action, faults: FaultInjector, *, under_faults: bool) -> worker.Behaviour:
        """Return what the agent of a step does."""
        if action.key.partition("/")[0] in self._fails and self._rng.random() < 0.3:
            return "fails"
        return faults.draw(BEHAVIOURS) if under_faults else "good"

    def files_of(self, action: Action) -> tuple[str, ...]:
        """Return what a step writes: a file of its own, and with code maybe one that other work changes, too."""
        shared = self._rng.choice(SHARED) if action.role == "coding" and self._rng.random() < 0.4 else None
        return (file_of(action.key), *([shared] if shared else []))

    def edits(self, store: Store, action: Action) -> str | None:
        """Return what the agent of a step asks to change in its story; mostly nothing."""
        story = store.actions.get(action.parent_id) if action.parent_id else None
        if story is None or self._edits_left == 0 or self._rng.random() < 0.5:
            return None
        if not STEP_TYPES[step_type(action.role)].may_edit and self._rng.random() < 0.9:
            return None
        self._edits_left -= 1
        if self._rng.random() < 0.1:
            return self._rng.choice(
                ("[{", "[]", '[{"operation": "skip", "target_step_id": "step-999", "reason": "r"}]')
            )
        record, own = story_record(store, story), step_id(action)
        count = self._rng.choice((1, 1, 1, 2))
        asked = [{"reason": "r", **self._edit(record, own)} for _ in range(count)]
        return json.dumps([each for place, each in enumerate(asked) if each not in asked[:place]])

    def _edit(self, record: StoryRecord, own: StepId) -> dict[str, object]:
        """Return an operation, which mostly keeps the rules."""
        pending = [each for each in record.steps if each.status == "pending"]
        free = [each.id for each in pending if each.type not in MANDATORY] or [own]
        others = [each.id for each in record.steps if each.type != "final_review"] or [own]
        match self._rng.choice(("add", "add anywhere", "add late", "split", "skip", "reorder", "restart", "describe")):
            case "add":
                return {"operation": "add_after", "target_step_id": own, "new_steps": self._new_steps()}
            case "add anywhere":
                return {
                    "operation": "add_after",
                    "target_step_id": self._rng.choice(others),
                    "new_steps": self._new_steps(),
                }
            case "add late":
                return {"operation": "add_after", "target_step_id": others[-1], "new_steps": self._new_steps()}
            case "split":
                return {
                    "operation": "split",
                    "target_step_id": self._rng.choice(free),
                    "replacement_steps": self._new_steps(),
                }
            case "skip":
                return {"operation": "skip", "target_step_id": self._rng.choice(free)}
            case "reorder":
                order = [each.id for each in pending]
                *first, last = order or [own]
                self._rng.shuffle(first)
                return {"operation": "reorder", "new_order": [*first, last]}
            case "restart":
                return {"operation": "restart", "target_step_id": own, "new_description": "Do it again"}
            case _:
                return {
                    "operation": "edit_description",
                    "target_step_id": self._rng.choice(free),
                    "new_description": "Do it well",
                }

    def _new_steps(self) -> Sequence[dict[str, str]]:
        kinds = [
            self._rng.choice(("coding", "planning", "linting", "review")) for _ in range(self._rng.choice((1, 1, 2)))
        ]
        return [{"type": each, "description": f"More {each}"} for each in kinds]


def _with_contract(last: ActionSpec) -> ActionSpec:
    return structs.replace(last, contract=Contract(must_exist=(file_of(last.key),)))
