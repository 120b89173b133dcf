"""One goal on its way, in memory: what a supervisor would see, and what becomes of it when its commands are done."""

from typing import assert_never

from msgspec.structs import replace

from scaffold.core.ids import ActionId, Key
from scaffold.core.plan import GoalSpec
from scaffold.plan.agenda import Agenda
from scaffold.plan.decide import (
    Begin,
    Command,
    Complete,
    CompoundView,
    Decompose,
    Dispatch,
    Exhausted,
    Fail,
    Finish,
    GiveUp,
    ReadyAction,
    Replan,
    View,
    decide,
)
from scaffold.plan.readiness import Node, stranded
from scaffold.plan.standing import BEGUN, Standing

WORKER_CAP = 3
"""How many agents may work on one goal, as in a run."""


class Rehearsal:
    """A goal without a planner: compounds that have no children are pieces of work like primitives."""

    def __init__(self, goal: GoalSpec, standing: Standing) -> None:
        """Take the goal up where it stands; what was begun and not completed is pending again."""
        self.goal = goal
        self.status = "active"
        self.reason: str | None = None
        self.ended_at = 0
        self._parents = {ActionId(action.parent) for action in goal.actions if action.parent is not None}
        self.agenda = Agenda(map(self._taken_up, standing.nodes(goal)), standing.held(goal.name))
        self._wishes = list(reversed(goal.goal_state))
        self._exhausted = [
            Key(node.id) for node in self.agenda.actions if node.status == "failed" and node.kind == "primitive"
        ]
        self._compounds: dict[ActionId, None] = {}
        self._working = 0
        self._landing = 0
        self._waits_with: int | None = None

    def _taken_up(self, node: Node) -> Node:
        begun = node.status in BEGUN and node.status != "completed"
        compound = node.kind == "compound" and node.id in self._parents
        return replace(node, status="pending" if begun else node.status, kind="compound" if compound else "primitive")

    def decide(self, free: int) -> tuple[Command, ...]:
        """Return what to do now that `free` agents have nothing to do; empty means wait, or that the goal has ended.

        Where nothing changed since the last empty answer, the next is empty, too, and costs nothing.
        """
        slots = max(0, min(free, WORKER_CAP - self._working))
        if self.status != "active" or slots == self._waits_with:
            return ()
        commands = decide(self._view(slots))
        self._waits_with = None if commands else slots
        return commands

    def _view(self, slots: int) -> View:
        while self._wishes and not self.agenda.lacking(self._wishes[-1:]):
            self._wishes.pop()
        return View(
            unmet=tuple(self._wishes[-1:]),
            ready=tuple(map(self._ready, self.agenda.ready(slots + 1))),
            compounds=tuple(map(self._compound, self._compounds)),
            running=self._working + self._landing,
            pending=self.agenda.tally("pending"),
            waiting=0,
            exhausted=tuple(Exhausted(key, None) for key in self._exhausted),
            slots=slots,
            replans_left=0,
            can_decompose=False,
        )

    def _ready(self, action: ActionId) -> ReadyAction:
        kind = self.agenda.action(action).kind
        return ReadyAction(id=action, key=Key(action), kind=kind, children=kind == "compound")

    def _compound(self, compound: ActionId) -> CompoundView:
        return CompoundView(
            id=compound,
            key=Key(compound),
            open_children=self.agenda.open_children(compound),
            unmet_effects=self.agenda.lacking(self.agenda.action(compound).effects),
        )

    def carry_out(self, command: Command, now: int) -> None:
        """Do what was decided at the time `now`; dispatching is for who has the agents."""
        match command:
            case Begin(compound=compound):
                self.agenda.moved(compound, "running")
                self._compounds[compound] = None
            case Finish(compound=compound):
                self._end_compound(compound, "completed")
            case GiveUp(compound=compound):
                self._end_compound(compound, "failed")
                self._block_stranded(compound)
            case Complete():
                self._complete()
                self._end("completed", None, now)
            case Fail(reason=reason):
                self._end("failed", reason, now)
            case Dispatch() | Decompose() | Replan():
                raise AssertionError(f"nobody here can do this: {command}")
            case _:
                assert_never(command)

    def dispatched(self, action: ActionId) -> None:
        """Note that an agent works on the action."""
        self._working += 1
        self.agenda.moved(action, "running")

    def failed(self, action: ActionId, *, final: bool) -> None:
        """Note that an attempt failed; after a `final` one there is no other."""
        self._working -= 1
        self._waits_with = None
        self.agenda.moved(action, "failed" if final else "pending")
        if final:
            self._exhausted.append(Key(action))
            self._block_stranded(action)

    def handed_in(self, action: ActionId) -> None:
        """Note that an attempt succeeded: its agent is free, its work waits to land."""
        self._working -= 1
        self._landing += 1
        self._waits_with = None
        self.agenda.moved(action, "landing")

    def landed(self, action: ActionId) -> None:
        """Note that the work is on the branch: the action's effects hold."""
        self._landing -= 1
        self._waits_with = None
        self.agenda.moved(action, "completed")
        for effect in self.agenda.action(action).effects:
            self.agenda.shown(effect)

    def _block_stranded(self, failed: ActionId) -> None:
        if self.agenda.awaited(failed):
            for action in stranded(self.agenda.actions, self.agenda.facts):
                self.agenda.moved(action, "blocked")

    def _complete(self) -> None:
        """Nobody needs any more what has not begun, nor compounds whose effects do not hold."""
        for compound in tuple(self._compounds):
            done = not self.agenda.lacking(self.agenda.action(compound).effects)
            self._end_compound(compound, "completed" if done else "skipped")
        for node in self.agenda.actions:
            if node.status in {"pending", "blocked"}:
                self.agenda.moved(node.id, "skipped")

    def _end_compound(self, compound: ActionId, status: str) -> None:
        self.agenda.moved(compound, status)
        self._compounds.pop(compound, None)

    def _end(self, status: str, reason: str | None, now: int) -> None:
        self.status, self.reason, self.ended_at = status, reason, now
