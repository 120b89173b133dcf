"""A supervisor's decisions, as a pure function from a view of one goal to commands."""

from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey, Assertion
from scaffold.core.plan import ActionKind
from scaffold.plan.failures.escalation import escalation_of_exhausted
from scaffold.plan.message_text import quoted_list


class ReadyAction(Struct, frozen=True):
    """A pending action whose preconditions hold and whose parent, if any, is running."""

    id: ActionId
    key: ActionKey
    kind: ActionKind
    children: bool
    """True for a compound that already has children."""


class RunningCompound(Struct, frozen=True):
    """A running compound."""

    id: ActionId
    key: ActionKey
    open_children: int
    """How many children have not ended."""
    unmet_effects: tuple[Assertion, ...]
    """Its effects that do not hold, in order."""
    is_story: bool = False
    """Whether its children are steps, which only their own agents change."""


class FailedPrimitive(Struct, frozen=True):
    """A primitive that failed with no attempts left."""

    id: ActionId
    key: ActionKey
    parent: ActionId | None
    too_large: bool = False
    """Whether it used up its attempts: perhaps smaller actions can do it. One that was rejected is not too large."""
    refused: bool = False
    """Whether its work changed what it may not: a human is asked, and no planner."""
    is_step: bool = False
    """Whether it is a step of a story, which fails with its story."""


class GoalView(Struct, frozen=True, kw_only=True):
    """All inputs to a decision about one goal. Its size does not grow with the plan."""

    unmet: tuple[Assertion, ...]
    """Assertions of the goal state that do not hold, or just the first few. Empty: the goal is reached."""
    ready: tuple[ReadyAction, ...]
    """The first ready actions in plan order that are not held back, at least one more than `slots` if there are so
    many; ids are unique."""
    compounds: tuple[RunningCompound, ...]
    """The running compounds."""
    running: int
    """Primitives that are running, verifying or landing, plus facts being re-verified now."""
    waiting: int
    """How many actions wait for a human decision."""
    exhausted: tuple[FailedPrimitive, ...]
    """Primitives that failed with no attempts left since the last replan."""
    slots: int
    """How many more attempts may start now."""
    replans_left: int
    """0 without a planner, or once the replan limit is reached."""
    can_decompose: bool
    """Whether there is a planner or agent to decompose compounds."""
    held_back: tuple[ActionId, ...] = ()
    """The first ready primitives that may not start beside what runs."""
    asks_human: bool = False
    """Whether a human is asked about an action once the planner cannot help any more."""
    planner_busy: bool = False
    """True while a decomposition or replan is in progress; no other is requested meanwhile."""


class CompleteGoal(Struct, frozen=True, tag="complete"):
    """Complete the goal: its state holds and nothing is running."""


class Dispatch(Struct, frozen=True, tag="dispatch"):
    """Queue an attempt of this primitive."""

    action: ActionId


class StartCompound(Struct, frozen=True, tag="start_compound"):
    """Let this compound's children run."""

    compound: ActionId


class CompleteCompound(Struct, frozen=True, tag="complete_compound"):
    """Complete this compound: its children have ended and its effects hold."""

    compound: ActionId


class Decompose(Struct, frozen=True, tag="decompose"):
    """Ask for children that make `gap` true; an empty gap is the first decomposition, for all effects."""

    compound: ActionId
    gap: tuple[Assertion, ...]


class Replan(Struct, frozen=True, tag="replan"):
    """Ask for other actions that make `unmet` true."""

    unmet: tuple[Assertion, ...]
    why: str
    compound: ActionId | None = None
    """The parent of the new actions; None for the goal's top level."""
    smaller: tuple[ActionKey, ...] = ()
    """The actions that are to be broken down into smaller ones."""


class AskHuman(Struct, frozen=True, tag="ask"):
    """Ask a human how to go on with this action, for which neither attempts nor replans are left."""

    action: ActionId


class FailCompound(Struct, frozen=True, tag="fail_compound"):
    """Mark the compound as failed for `reason`."""

    compound: ActionId
    reason: str


class FailGoal(Struct, frozen=True, tag="fail"):
    """Mark the goal as failed for `reason`."""

    reason: str


GoalCommand = (
    CompleteGoal | Dispatch | StartCompound | CompleteCompound | Decompose | Replan | AskHuman | FailCompound | FailGoal
)


def decide(view: GoalView) -> tuple[GoalCommand, ...]:
    """Return the commands to carry out next, in order; empty means wait until something changes.

    After executing the commands, decide again on a new view; sleep only after an empty result. Once the goal state
    holds nothing new starts, even if actions are still pending. The planner handles one request at a time: the caller
    executes only the first Decompose or Replan.
    """
    finished = tuple(
        CompleteCompound(each.id) for each in view.compounds if not each.open_children and not each.unmet_effects
    )
    if not view.unmet:
        # The goal holds: compounds end first, then what still runs, then the goal.
        return finished or (() if view.running else (CompleteGoal(),))
    # First: nothing is planned for a story that has failed, and a plan with it open is not sound.
    if failed := tuple(
        FailCompound(each.id, f"its steps ended without {quoted_list(each.unmet_effects)}")
        for each in view.compounds
        if each.is_story and each.open_children == 0 and each.unmet_effects
    ):
        return failed
    refused = tuple(AskHuman(each.id) for each in view.exhausted if each.refused and not each.is_step)
    if refused and view.asks_human:
        return refused
    if view.exhausted and not view.planner_busy:
        planner = view.asks_human or view.replans_left > 0
        match escalation_of_exhausted(replans_left=view.replans_left, planner=planner):
            case "smaller":
                return (_request_replan(view),)
            # A step fails with its story, so there is nothing to ask about it alone.
            case "human" if asked := tuple(AskHuman(each.id) for each in view.exhausted if not each.is_step):
                return asked
            case _:
                pass
    # More than the free slots may be ready; who waits is decided again on the next view.
    primitives = [action for action in view.ready if action.kind == "primitive"]
    dispatches = tuple(Dispatch(action.id) for action in primitives[: max(view.slots, 0)])
    return finished + _close_gaps(view) + _start_compounds(view) + dispatches or _resolve_standstill(view)


def _request_replan(view: GoalView) -> Replan:
    """Return a Replan within the first failed action's compound if that is still running, else for the goal."""
    smaller = tuple(each.key for each in view.exhausted if each.too_large)
    why = _failures_text(view)
    if smaller:
        why += (
            f". {quoted_list(smaller)} failed too often to be tried again as it is: break it down "
            "into smaller actions, each with a check of its own, that make the same assertions true together"
        )
    parent = view.exhausted[0].parent
    for compound in view.compounds:
        # Within a compound that still runs, so that what it lacks is made where the plan expects it.
        if compound.id == parent and compound.unmet_effects and not compound.is_story:
            return Replan(compound.unmet_effects, why, compound.id, smaller)
    return Replan(view.unmet, why, smaller=smaller)


def _failures_text(view: GoalView) -> str:
    return f"{quoted_list([each.key for each in view.exhausted])} failed permanently"


def _close_gaps(view: GoalView) -> tuple[GoalCommand, ...]:
    """Return requests for children that close the gaps of compounds, or failures if no replans are left."""
    commands: list[GoalCommand] = []
    for compound in view.compounds:
        if compound.open_children or not compound.unmet_effects or view.planner_busy:
            continue
        why = f"its children ended without {quoted_list(compound.unmet_effects)}"
        # Earlier children did not help; without a limit this would repeat for ever.
        if view.can_decompose and not view.replans_left:
            commands.append(FailCompound(compound.id, f"{why}, and replanning did not help"))
        else:
            commands.append(_decompose_or_fail(view, compound.id, compound.unmet_effects, why))
    return tuple(commands)


def _start_compounds(view: GoalView) -> tuple[GoalCommand, ...]:
    return tuple(
        StartCompound(action.id) if action.children else _decompose_or_fail(view, action.id, (), "it has no children")
        for action in view.ready
        if action.kind == "compound" and (action.children or not view.planner_busy)
    )


def _decompose_or_fail(view: GoalView, compound: ActionId, gap: tuple[Assertion, ...], why: str) -> GoalCommand:
    if view.can_decompose:
        return Decompose(compound, gap)
    return FailCompound(compound, f"{why}, and there is no planner to {'add others' if gap else 'break it down'}")


def _resolve_standstill(view: GoalView) -> tuple[GoalCommand, ...]:
    """Decide when nothing can start: wait for running work, the planner, a human or a slot; else replan or fail."""
    # Each of these can still change what is ready, and what is ready waits for a slot, or for what it collides with.
    # Without ready work, slots say nothing: a goal that needs none gets none.
    if view.running or view.planner_busy or view.waiting or view.ready or view.held_back:
        return ()
    if view.replans_left:
        return (Replan(view.unmet, "nothing is ready or running"),)
    reason = f"{quoted_list(view.unmet)} cannot be reached: nothing is ready or running"
    if view.exhausted:
        reason = f"{quoted_list(view.unmet)} cannot be reached: {_failures_text(view)}"
    return (FailGoal(reason),)
