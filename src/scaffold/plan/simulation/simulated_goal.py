"""One simulated goal: provides the supervisor's view and executes its commands in memory."""

from typing import assert_never

from msgspec.structs import replace

from scaffold.core.ids import ActionId, ActionKey
from scaffold.core.plan import GoalSpec
from scaffold.plan.decide import (
    CompleteCompound,
    CompleteGoal,
    Decompose,
    Dispatch,
    FailCompound,
    FailedPrimitive,
    FailGoal,
    GoalCommand,
    GoalView,
    ReadyAction,
    Replan,
    RunningCompound,
    StartCompound,
    decide,
)
from scaffold.plan.graph.readiness import ActionNode, blocked_by_failure
from scaffold.plan.graph.ready_queue import ReadyQueue
from scaffold.plan.progress import STARTED_STATUSES, PlanProgress

WORKER_CAP = 3
"""How many agents may work on one goal, as in a real run."""


class GoalSimulator:
    """A goal without a planner: compounds without children run like primitives."""

    def __init__(self, goal: GoalSpec, progress: PlanProgress) -> None:
        """Start from the current `progress`; actions in progress are pending again."""
        self.goal = goal
        self.status = "active"
        self.reason: str | None = None
        self.ended_at = 0
        self._parents = {ActionId(action.parent) for action in goal.actions if action.parent is not None}
        self.queue = ReadyQueue(map(self._restarted, progress.nodes(goal)), progress.held(goal.name))
        # Reversed, so that met assertions are removed from the end at constant cost. No fact is lost in a simulation.
        self._unmet = list(reversed(goal.goal_state))
        self._exhausted = [
            ActionKey(node.id) for node in self.queue.actions if node.status == "failed" and node.kind == "primitive"
        ]
        self._compounds: dict[ActionId, None] = {}
        self._working = 0
        self._landing = 0
        self._waits_with_slots: int | None = None

    def _restarted(self, node: ActionNode) -> ActionNode:
        in_progress = node.status in STARTED_STATUSES and node.status != "completed"
        compound = node.kind == "compound" and node.id in self._parents
        return replace(
            node, status="pending" if in_progress else node.status, kind="compound" if compound else "primitive"
        )

    def decide(self, free: int) -> tuple[GoalCommand, ...]:
        """Return the commands to execute, given `free` idle agents; empty means wait, or that the goal has ended.

        Returns empty without deciding again if nothing changed since the last empty result.
        """
        slots = max(0, min(free, WORKER_CAP - self._working))
        if self.status != "active" or slots == self._waits_with_slots:
            return ()
        commands = decide(self._view(slots))
        self._waits_with_slots = None if commands else slots
        return commands

    def _view(self, slots: int) -> GoalView:
        while self._unmet and not self.queue.lacking(self._unmet[-1:]):
            self._unmet.pop()
        return GoalView(
            # The first is enough to know that the goal is not reached.
            unmet=tuple(self._unmet[-1:]),
            ready=tuple(map(self._ready, self.queue.ready(slots + 1))),
            compounds=tuple(map(self._compound, self._compounds)),
            running=self._working + self._landing,
            waiting=0,
            exhausted=tuple(FailedPrimitive(key, None) for key in self._exhausted),
            slots=slots,
            replans_left=0,
            can_decompose=False,
        )

    def _ready(self, action: ActionId) -> ReadyAction:
        kind = self.queue.action(action).kind
        return ReadyAction(id=action, key=ActionKey(action), kind=kind, children=kind == "compound")

    def _compound(self, compound: ActionId) -> RunningCompound:
        return RunningCompound(
            id=compound,
            key=ActionKey(compound),
            open_children=self.queue.open_children(compound),
            unmet_effects=self.queue.lacking(self.queue.action(compound).effects),
        )

    def execute(self, command: GoalCommand, now: int) -> None:
        """Execute a command at the time `now`; Dispatch is the caller's job, since it has the agents."""
        match command:
            case StartCompound(compound=compound):
                self.queue.set_status(compound, "running")
                self._compounds[compound] = None
            case CompleteCompound(compound=compound):
                self._end_compound(compound, "completed")
            case FailCompound(compound=compound):
                self._end_compound(compound, "failed")
                self._block_stranded(compound)
            case CompleteGoal():
                self._complete()
                self._end("completed", None, now)
            case FailGoal(reason=reason):
                self._end("failed", reason, now)
            case Dispatch() | Decompose() | Replan():
                raise AssertionError(f"the simulation never requests or dispatches work here: {command}")
            case _:
                assert_never(command)

    def dispatched(self, action: ActionId) -> None:
        """Record that an agent started working on the action."""
        self._working += 1
        self.queue.set_status(action, "running")

    def failed(self, action: ActionId, *, final: bool) -> None:
        """Record a failed attempt; a `final` one is not retried."""
        self._working -= 1
        self._waits_with_slots = None
        self.queue.set_status(action, "failed" if final else "pending")
        if final:
            self._exhausted.append(ActionKey(action))
            self._block_stranded(action)

    def handed_in(self, action: ActionId) -> None:
        """Record a successful attempt: its agent is free, its work waits to land."""
        self._working -= 1
        self._landing += 1
        self._waits_with_slots = None
        self.queue.set_status(action, "landing")

    def landed(self, action: ActionId) -> None:
        """Record that the work landed: the action's effects hold."""
        self._landing -= 1
        self._waits_with_slots = None
        self.queue.set_status(action, "completed")
        for effect in self.queue.action(action).effects:
            self.queue.add_fact(effect)

    def _block_stranded(self, failed: ActionId) -> None:
        if self.queue.awaited(failed):
            for action in blocked_by_failure(self.queue.actions, self.queue.facts):
                self.queue.set_status(action, "blocked")

    def _complete(self) -> None:
        """Skip actions that have not started, and compounds whose effects do not hold: the goal needs neither."""
        for compound in tuple(self._compounds):
            done = not self.queue.lacking(self.queue.action(compound).effects)
            self._end_compound(compound, "completed" if done else "skipped")
        for node in self.queue.actions:
            if node.status in {"pending", "blocked"}:
                self.queue.set_status(node.id, "skipped")

    def _end_compound(self, compound: ActionId, status: str) -> None:
        self.queue.set_status(compound, status)
        self._compounds.pop(compound, None)

    def _end(self, status: str, reason: str | None, now: int) -> None:
        self.status, self.reason, self.ended_at = status, reason, now
