"""What a supervisor does next: a pure function from a view of one goal to commands."""

from msgspec import Struct

from scaffold.core.ids import ActionId, Assertion, Key
from scaffold.core.plan import Kind
from scaffold.plan.wording import listed


class ReadyAction(Struct, frozen=True):
    """A pending action whose preconditions hold and whose parent, if it has one, runs."""

    id: ActionId
    key: Key
    kind: Kind
    children: bool
    """Whether it is a compound that has children already."""


class CompoundView(Struct, frozen=True):
    """A running compound."""

    id: ActionId
    key: Key
    open_children: int
    """How many children have not ended."""
    unmet_effects: tuple[Assertion, ...]
    """Its effects that do not hold, in order."""


class Exhausted(Struct, frozen=True):
    """A primitive that failed for good."""

    key: Key
    parent: ActionId | None


class View(Struct, frozen=True, kw_only=True):
    """All that a decision about one goal may depend on; its size does not grow with the plan."""

    unmet: tuple[Assertion, ...]
    """Assertions of the goal state that do not hold; the first few suffice, empty means the goal state holds."""
    ready: tuple[ReadyAction, ...]
    """The first `slots` ready primitives and all ready compounds, in plan order; ids are unique."""
    compounds: tuple[CompoundView, ...]
    """Compounds that are running."""
    running: int
    """How many primitives run, are verified or wait to land, and how many facts are looked at again just now."""
    pending: int
    """How many actions are pending."""
    waiting: int
    """How many actions go on once a human has decided."""
    exhausted: tuple[Exhausted, ...]
    """Primitives that failed for good since the last replan."""
    slots: int
    """How many more attempts may start now."""
    replans_left: int
    """0 where there is no planner, or its patience is used up."""
    can_decompose: bool
    """Whether somebody can break compounds down."""
    thinking: bool = False
    """Whether somebody breaks down or replans just now: nobody is asked anything else meanwhile."""


class Complete(Struct, frozen=True, tag="complete"):
    """The goal state holds and nothing runs: the goal is complete."""


class Dispatch(Struct, frozen=True, tag="dispatch"):
    """Queue an attempt of this primitive."""

    action: ActionId


class Begin(Struct, frozen=True, tag="begin"):
    """Let the children of this compound run."""

    compound: ActionId


class Finish(Struct, frozen=True, tag="finish"):
    """The compound is complete: its children ended and its effects hold."""

    compound: ActionId


class Decompose(Struct, frozen=True, tag="decompose"):
    """Ask for children that make `gap` true; an empty gap means all effects, for the first time."""

    compound: ActionId
    gap: tuple[Assertion, ...]


class Replan(Struct, frozen=True, tag="replan"):
    """Ask for other actions towards `unmet`."""

    unmet: tuple[Assertion, ...]
    why: str
    compound: ActionId | None = None
    """Whose children they are to be; None for the top of the goal."""


class GiveUp(Struct, frozen=True, tag="give_up"):
    """The compound failed, for `reason`."""

    compound: ActionId
    reason: str


class Fail(Struct, frozen=True, tag="fail"):
    """The goal failed, for `reason`."""

    reason: str


Command = Complete | Dispatch | Begin | Finish | Decompose | Replan | GiveUp | Fail


def decide(view: View) -> tuple[Command, ...]:
    """Return what to do next, in order; empty means wait until something changes.

    After commands were carried out, decide again on a new view: only an empty answer is a reason to sleep.
    A goal whose state holds starts nothing new; what is still pending then is nobody's need any more. Somebody who
    thinks is asked one thing at a time: whoever carries the commands out takes the first Decompose or Replan alone.
    """
    finished = tuple(Finish(compound.id) for compound in view.compounds if _finished(compound))
    if not view.unmet:
        return finished or _complete(view)
    if view.exhausted and view.replans_left and not view.thinking:
        return (_replan(view),)
    return finished + _gaps(view) + _compounds(view) + _dispatches(view) or _stuck(view)


def _finished(compound: CompoundView) -> bool:
    return compound.open_children == 0 and not compound.unmet_effects


def _replan(view: View) -> Replan:
    """Ask for another way, within the compound whose child failed first if that one still runs."""
    why = _failures(view)
    parent = view.exhausted[0].parent
    for compound in view.compounds:
        if compound.id == parent and compound.unmet_effects:
            return Replan(compound.unmet_effects, why, compound.id)
    return Replan(view.unmet, why)


def _failures(view: View) -> str:
    return f"{listed([each.key for each in view.exhausted])} failed for good"


def _complete(view: View) -> tuple[Command, ...]:
    return () if view.running else (Complete(),)


def _gaps(view: View) -> tuple[Command, ...]:
    return tuple(
        _close(view, compound)
        for compound in view.compounds
        if compound.open_children == 0 and compound.unmet_effects and not view.thinking
    )


def _close(view: View, compound: CompoundView) -> Command:
    """Ask for children that close the compound's gap, for as long as replanning may help."""
    why = f"its children ended without {listed(compound.unmet_effects)}"
    if view.can_decompose and not view.replans_left:
        return GiveUp(compound.id, f"{why}, and replanning did not help")
    return _decompose(view, compound.id, compound.unmet_effects, why)


def _compounds(view: View) -> tuple[Command, ...]:
    return tuple(
        Begin(action.id) if action.children else _decompose(view, action.id, (), "it has no children")
        for action in view.ready
        if action.kind == "compound" and (action.children or not view.thinking)
    )


def _decompose(view: View, compound: ActionId, gap: tuple[Assertion, ...], why: str) -> Command:
    if view.can_decompose:
        return Decompose(compound, gap)
    return GiveUp(compound, f"{why}, and there is no planner to break it down")


def _dispatches(view: View) -> tuple[Command, ...]:
    primitives = [action for action in view.ready if action.kind == "primitive"]
    return tuple(Dispatch(action.id) for action in primitives[: max(view.slots, 0)])


def _stuck(view: View) -> tuple[Command, ...]:
    """Nothing can start now: wait for what runs or is thought of, a human, or a slot; else think again or fail."""
    if view.running or view.thinking or view.waiting or (view.pending and view.slots <= 0):
        return ()
    if view.replans_left:
        return (Replan(view.unmet, "nothing is ready and nothing runs"),)
    reason = f"{listed(view.unmet)} cannot be reached: nothing is ready and nothing runs"
    if view.exhausted:
        reason = f"{listed(view.unmet)} cannot be reached: {_failures(view)}"
    return (Fail(reason),)
