"""When a goal's agent is woken that takes every step itself, and when it has had its chances.

All of it is read from the store: whoever pursues the goal next, after a crash, goes on where this one was.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from scaffold.core.events import (
    ActionMoved,
    AttemptEnded,
    AttemptQueued,
    Event,
    FactShown,
    PlanGrew,
    TurnBegan,
    TurnEnded,
)
from scaffold.core.ids import GoalId, Key
from scaffold.core.model import Action, Goal, Run, Turn
from scaffold.core.states import Pending
from scaffold.plan.wording import listed
from scaffold.store.database import Store

PATIENCE = 3
"""How many turns in a row may change nothing while nothing runs."""
MOST_TURNS = 40
"""How many turns a goal is given without anything new shown in it."""
PAGE = 500
"""How many events are read at once."""
FORGIVEN = -1
"""The number of facts of a turn that does not count any more."""


def next_judgement(store: Store, run: Run, goal: Goal) -> str | None:
    """Return why to ask the agent now; None means that nothing happened that it does not know of.

    A goal whose state holds, or that waits for a human and nothing else, needs nobody to think.
    """
    if not store.goals.unmet(goal.id):
        return None
    turns = _judged(store, run, goal.id)
    if not turns:
        return "the goal has begun"
    if turns[-1].outcome in {"lost", "failed", "budget"}:
        return "your last turn was cut off; what you did in it is done"
    happened = tuple(_told(store, goal, _since_last_turn(store, run, goal)))
    if happened:
        return _joined(happened)
    if store.actions.running(goal.id) or store.actions.waiting(goal.id):
        return None
    return f"nothing runs; still to be shown: {listed(store.goals.unmet(goal.id))}"


def hopeless(store: Store, run: Run, goal: Goal) -> str | None:
    """Return why the goal fails: its agent had its chances; None while it has some left."""
    turns = _judged(store, run, goal.id)
    wasted = list(takewhile(_wasted, reversed(turns)))
    if len(wasted) >= PATIENCE:
        return f"{PATIENCE} turns in a row came to nothing, the last one: {wasted[0].error}"
    if store.turns.fruitless_of_goal(goal.id, "judge") >= MOST_TURNS:
        return f"{MOST_TURNS} turns brought nothing new about"
    return None


def idle(store: Store, run: Run, goal: Goal) -> str | None:
    """Return why nothing will come of a turn that is at its end; None if it changed something, or something runs."""
    unmet = store.goals.unmet(goal.id)
    if not unmet or store.actions.running(goal.id) or store.actions.waiting(goal.id):
        return None
    if any(isinstance(event, PlanGrew | AttemptQueued | ActionMoved) for event in _since_last_turn(store, run, goal)):
        return None
    return f"nothing was changed though nothing runs; still to be shown: {listed(unmet)}"


def _judged(store: Store, run: Run, goal_id: GoalId) -> tuple[Turn, ...]:
    """Return the goal's ended turns of this kind, oldest first."""
    return tuple(
        turn
        for turn in store.turns.of_run(run.id)
        if turn.goal_id == goal_id and turn.event == "judge" and turn.outcome is not None
    )


def _wasted(turn: Turn) -> bool:
    return turn.outcome in {"refused", "failed"} and turn.facts != FORGIVEN


def _since_last_turn(store: Store, run: Run, goal: Goal) -> Sequence[Event]:
    """Return what happened in the run since the agent was last asked, read from the end backwards."""
    last = store.events.last_seq(run.id)
    found: list[Event] = []
    while last > 0:
        begin = max(0, last - PAGE)
        page = [recorded.event for recorded in store.events.since(run.id, begin, limit=last - begin)]
        begun = [at for at, event in enumerate(page) if _begins(event, goal)]
        found[:0] = page[begun[-1] + 1 :] if begun else page
        last = 0 if begun else begin
    return found


def _begins(event: Event, goal: Goal) -> bool:
    return isinstance(event, TurnBegan) and event.event == "judge" and event.goal == goal.name


def _told(store: Store, goal: Goal, events: Sequence[Event]) -> Iterator[str]:
    """Yield what happened to the goal that was not its agent's own doing."""
    over = False
    for event in events:
        match event:
            case TurnEnded(event="judge", goal=name) if name == goal.name:
                over = True
            case AttemptEnded(action=key, number=number, outcome=outcome, error=error):
                if _of_goal(store, goal, key):
                    yield f"attempt {number} of `{key}` ended: {outcome}{f' ({error})' if error else ''}"
            case FactShown(goal=name, assertion=assertion, state=state) if name == goal.name:
                yield f"`{assertion}` {state if state == 'holds' else f'is {state}'}"
            case ActionMoved(action=key, status="pending"):
                if over and _of_goal(store, goal, key):
                    yield f"`{key}` is pending"
            case ActionMoved(action=key, status="running"):
                if _ready_below(store, _of_goal(store, goal, key)):
                    yield f"`{key}` is running"


def _ready_below(store: Store, action: Action | None) -> bool:
    """Tell whether a compound has children that may start."""
    children = () if action is None else store.actions.children(action.id)
    return any(isinstance(child.state, Pending) and not child.unmet for child in children)


def _of_goal(store: Store, goal: Goal, key: Key) -> Action | None:
    action = store.actions.by_key(goal.run_id, key)
    return action if action is not None and action.goal_id == goal.id else None


def _joined(happened: Sequence[str], most: int = 6) -> str:
    """Return what happened, the latest of it if it is much."""
    latest = list(dict.fromkeys(happened))[-most:]
    left = len(dict.fromkeys(happened)) - len(latest)
    return "; ".join((f"{left} things before", *latest) if left else latest)
