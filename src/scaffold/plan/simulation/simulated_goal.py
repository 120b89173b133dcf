"""One simulated goal: provides the supervisor's view and executes its commands in memory."""

from collections.abc import Mapping
from typing import assert_never

from msgspec.structs import replace

from scaffold.core.ids import ActionId, ActionKey
from scaffold.core.plan import ActionSpec, GoalSpec, is_review_role
from scaffold.plan.collisions.rules import Board, CollisionLimits, WorkUnit
from scaffold.plan.decide import (
    AskHuman,
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
"""How many agents may work on one goal, as in a real run without a setting."""


class RunningActions:
    """Unlanded work of all goals: others that may change the same files are held back."""

    def __init__(self) -> None:
        self.board = Board(CollisionLimits())
        self.ended = 0
        """How often something has landed or failed."""


class GoalSimulator:
    """A goal without a planner: compounds without children run like primitives."""

    def __init__(
        self, goal: GoalSpec, progress: PlanProgress, running: RunningActions | None = None, cap: int = WORKER_CAP
    ) -> None:
        """Start from the current `progress`; actions in progress are pending again.

        `running` has the actions in progress of all goals; None for only this goal's. At most `cap` agents work on it.
        """
        self.goal = goal
        self.status = "active"
        self.reason: str | None = None
        self.ended_at = 0
        self._parents = {ActionId(action.parent) for action in goal.actions if action.parent is not None}
        self.queue = ReadyQueue(map(self._restart_node, progress.nodes(goal)), progress.held(goal.name))
        # Reversed, so that met assertions are removed from the end at constant cost. No fact is lost in a simulation.
        self._unmet = list(reversed(goal.goal_state))
        self._exhausted = [
            ActionKey(node.id) for node in self.queue.actions if node.status == "failed" and node.kind == "primitive"
        ]
        self._compounds: dict[ActionId, None] = {}
        self._working = 0
        self._landing = 0
        self._running = running or RunningActions()
        self._cap = cap
        specs = {action.key: action for action in goal.actions}
        self._units = {ActionId(action.key): _work_unit(action, specs) for action in goal.actions}
        self._groups = {key: unit.files or (key,) for key, unit in self._units.items()}
        """Primitives of one group may start at the same times, as they may change the same files."""
        for action in goal.actions:
            if action.kind == "compound" or is_review_role(action.role):
                self._groups[ActionId(action.key)] = (action.key, "")
        self._refused: set[tuple[str, ...]] = set()
        """Groups without an action that may start before something lands."""
        self._refused_at = 0
        self._waits_at: tuple[int, int | None] | None = None

    def _restart_node(self, node: ActionNode) -> ActionNode:
        # Nothing of an attempt in progress is left in a simulation.
        in_progress = node.status in STARTED_STATUSES and node.status != "completed"
        compound = node.kind == "compound" and node.id in self._parents
        return replace(
            node, status="pending" if in_progress else node.status, kind="compound" if compound else "primitive"
        )

    def decide(self, free: int) -> tuple[GoalCommand, ...]:
        """Return the commands to execute, given `free` idle agents; empty means wait, or that the goal has ended.

        Returns empty without deciding again if nothing changed since the last empty result.
        """
        # No more than the cap, even if more agents are idle.
        slots = max(0, min(free, self._cap - self._working))
        if self.status != "active" or self._waits_at in {(slots, None), (slots, self._running.ended)}:
            return ()
        while self._unmet and not self.queue.lacking(self._unmet[-1:]):
            self._unmet.pop()
        ready, held_back = self._startable_actions(slots)
        view = GoalView(
            # The first is enough to know that the goal is not reached.
            unmet=tuple(self._unmet[-1:]),
            ready=ready,
            held_back=held_back,
            compounds=tuple(map(self._running_compound, self._compounds)),
            running=self._working + self._landing,
            waiting=0,
            exhausted=tuple(FailedPrimitive(ActionId(key), key, None) for key in self._exhausted),
            slots=slots,
            replans_left=0,
            can_decompose=False,
        )
        commands = decide(view)
        # Only what is held back may start because something of another goal has landed.
        self._waits_at = None if commands else (slots, self._running.ended if view.held_back else None)
        return commands

    def _startable_actions(self, slots: int) -> tuple[tuple[ReadyAction, ...], tuple[ActionId, ...]]:
        """Return the first ready actions, one more than `slots`, without those held back; and the first of these."""
        if not slots:
            return tuple(map(self._ready_action, self.queue.ready(1))), ()
        ready, picked = list[ReadyAction](), list[WorkUnit]()
        held_back: tuple[ActionId, ...] = ()
        if self._refused_at != self._running.ended:
            self._refused, self._refused_at = set(), self._running.ended
        refused = {*self._refused}
        for action in self.queue.iterate_ready():
            # Looked up first: thousands may wait for the same files.
            if self._groups[action] in refused:
                held_back = held_back or (action,)
                continue
            if self.queue.action(action).kind == "primitive":
                unit = self._units[action]
                if not self._running.board.may_start(unit):
                    held_back = held_back or (action,)
                    # More than `slots` are looked at, so that `decide` sees that others are ready.
                    refused.add(self._groups[action])
                    if not picked:  # what is picked here may not start after all
                        self._refused.add(self._groups[action])
                    continue
                # So that those after it in the plan see it at work.
                self._running.board.occupy(unit)
                picked.append(unit)
            ready.append(self._ready_action(action))
            if len(ready) > slots:
                break
        for unit in picked:
            self._running.board.vacate(unit)
        return tuple(ready), held_back

    def _ready_action(self, action: ActionId) -> ReadyAction:
        kind = self.queue.action(action).kind
        return ReadyAction(id=action, key=ActionKey(action), kind=kind, children=kind == "compound")

    def _running_compound(self, compound: ActionId) -> RunningCompound:
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
                # The goal needs neither actions that have not started, nor compounds whose effects do not hold.
                for each in tuple(self._compounds):
                    done = not self.queue.lacking(self.queue.action(each).effects)
                    self._end_compound(each, "completed" if done else "skipped")
                for node in self.queue.actions:
                    if node.status in {"pending", "blocked"}:
                        self.queue.set_status(node.id, "skipped")
                self._end_goal("completed", None, now)
            case FailGoal(reason=reason):
                self._end_goal("failed", reason, now)
            case Dispatch() | Decompose() | Replan() | AskHuman():
                raise AssertionError(f"the simulation never requests or dispatches work here: {command}")
            case _:
                assert_never(command)

    def dispatched(self, action: ActionId) -> None:
        """Record that an agent started working on the action."""
        self._working += 1
        self._running.board.occupy(self._units[action])
        self.queue.set_status(action, "running")

    def failed(self, action: ActionId, *, final: bool) -> None:
        """Record a failed attempt; a `final` one is not retried."""
        # The agent is free again, and others may change the same files.
        self._working -= 1
        self._leave_board(action)
        self.queue.set_status(action, "failed" if final else "pending")
        if final:
            self._exhausted.append(ActionKey(action))
            self._block_stranded(action)

    def handed_in(self, action: ActionId) -> None:
        """Record a successful attempt: its agent is free, its work waits to land."""
        # The agent is free while its work waits to land, as in a real run.
        self._working -= 1
        self._landing += 1
        self._waits_at = None
        self.queue.set_status(action, "landing")

    def landed(self, action: ActionId) -> None:
        """Record that the work landed: the action's effects hold."""
        self._landing -= 1
        self._leave_board(action)
        self.queue.set_status(action, "completed")
        for effect in self.queue.action(action).effects:
            self.queue.add_fact(effect)

    def _leave_board(self, action: ActionId) -> None:
        self._waits_at = None
        self._running.board.vacate(self._units[action])
        self._running.ended += 1

    def _block_stranded(self, failed: ActionId) -> None:
        # Otherwise no action depends on it, and the search over all of them would be for nothing.
        if self.queue.awaited(failed):
            for action in blocked_by_failure(self.queue.actions, self.queue.facts):
                self.queue.set_status(action, "blocked")

    def _end_compound(self, compound: ActionId, status: str) -> None:
        self.queue.set_status(compound, status)
        self._compounds.pop(compound, None)

    def _end_goal(self, status: str, reason: str | None, now: int) -> None:
        self.status, self.reason, self.ended_at = status, reason, now


def _work_unit(action: ActionSpec, actions: Mapping[ActionKey, ActionSpec]) -> WorkUnit:
    """Return an action of a plan as the rules see it; steps in one worktree are one."""
    # Steps share the worktree of their story, and so its place on the board.
    parent = actions.get(action.parent) if action.parent and action.workspace == "parent" else None
    if parent is not None:
        return WorkUnit(id=parent.key, key=parent.key, files=parent.files or action.files)
    return WorkUnit(id=action.key, key=action.key, files=action.files, reads_only=is_review_role(action.role))
