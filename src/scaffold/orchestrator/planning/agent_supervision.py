"""When an agent that takes every step of a goal is woken, and when its goal fails for lack of progress.

Everything is read from the store, so that the next supervisor can continue after a crash.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from scaffold.core.events import (
    ActionStatusChanged,
    AttemptEnded,
    AttemptQueued,
    Event,
    FactStateChanged,
    PlanExtended,
    PlanningTurnEnded,
    PlanningTurnStarted,
)
from scaffold.core.ids import ActionKey, GoalId
from scaffold.core.model import Action, Goal, PlanningTurn, Run
from scaffold.core.printable_text import count_of
from scaffold.core.states import CUT_OFF, Pending
from scaffold.plan.message_text import quoted_list
from scaffold.run.collision_board import is_all_held_back
from scaffold.store.database import Store

MAX_WASTED_TURNS = 3
"""How many turns in a row may change nothing while nothing is running."""
MAX_FRUITLESS_TURNS = 40
"""How many turns a goal gets without a new fact."""
MAX_EVENTS = 6
"""How many of the latest events a prompt names."""
EVENT_PAGE_SIZE = 500
"""How many events are read at once."""
GOES_ON = CUT_OFF - {"waiting"}
"""Ends of attempts that are not for the agent to react to; what a human has decided is."""
FORGIVEN_TURN_FACTS = -1
"""`facts` of a turn that does not count, because the user has retried the goal since."""


def next_wake_reason(store: Store, run: Run, goal: Goal) -> str | None:
    """Return why the agent should get a turn now; None if nothing new has happened.

    Also None if the goal state holds, or if the goal only waits for running work or a human.
    """
    # The supervisor completes the goal without its agent.
    if not store.goals.unmet(goal.id):
        return None
    turns = _ended_turns(store, run, goal.id)
    if not turns:
        return "the goal has started"
    happened = recent_events(store, run, goal)
    # An interrupted turn is repeated even if nothing new has happened.
    if turns[-1].outcome in {"lost", "failed", "budget"}:
        return "; ".join(filter(None, ("your last turn was interrupted; the steps you took in it are done", happened)))
    if happened:
        return happened
    if _goes_on(store, run, goal):
        return None
    return f"nothing is running; not proven yet: {quoted_list(store.goals.unmet(goal.id))}"


def recent_events(store: Store, run: Run, goal: Goal) -> str:
    """Return what has happened since the agent's last turn began, without its own doing; empty if nothing has."""
    happened = list(dict.fromkeys(_describe_events(store, goal, _since_last_turn(store, run, goal))))
    left = len(happened) - MAX_EVENTS
    return "; ".join((count_of(left, "earlier event"), *happened[-MAX_EVENTS:]) if left > 0 else happened)


def give_up_reason(store: Store, run: Run, goal: Goal) -> str | None:
    """Return why the goal fails for lack of progress; None while its agent has turns left."""
    turns = _ended_turns(store, run, goal.id)
    wasted = list(
        takewhile(
            lambda turn: turn.outcome in {"refused", "failed"} and turn.facts != FORGIVEN_TURN_FACTS, reversed(turns)
        )
    )
    if len(wasted) >= MAX_WASTED_TURNS:
        return f"{MAX_WASTED_TURNS} turns in a row had no effect (last: {wasted[0].error})"
    if store.turns.count_without_progress_of_goal(goal.id, "judge") >= MAX_FRUITLESS_TURNS:
        return f"{MAX_FRUITLESS_TURNS} turns produced no new fact"
    return None


def no_effect_reason(store: Store, run: Run, goal: Goal) -> str | None:
    """Return why the turn that is ending had no effect; None if it changed something or work is running."""
    unmet = store.goals.unmet(goal.id)
    if not unmet or _goes_on(store, run, goal):
        return None
    if any(
        isinstance(event, PlanExtended | AttemptQueued | ActionStatusChanged)
        for event in _since_last_turn(store, run, goal)
    ):
        return None
    return f"nothing was changed although nothing is running; not proven yet: {quoted_list(unmet)}"


def is_cut_off(store: Store, action: Action | None) -> bool:
    """Return whether the action only waits for its next attempt, which continues the last one: nobody has to decide."""
    attempts = store.attempts.for_action(action.id) if action and isinstance(action.state, Pending) else ()
    return bool(attempts) and attempts[-1].outcome in GOES_ON


def _goes_on(store: Store, run: Run, goal: Goal) -> bool:
    """Return whether the goal needs no turn: work runs or goes on, a human is asked, or all ready work is held back."""
    return bool(
        store.actions.running(goal.id)
        or store.actions.waiting(goal.id)
        or any(is_cut_off(store, action) for action in store.actions.for_goal(goal.id))
        or is_all_held_back(store, run, goal.id)
    )


def _ended_turns(store: Store, run: Run, goal_id: GoalId) -> tuple[PlanningTurn, ...]:
    # Oldest first.
    return tuple(
        turn
        for turn in store.turns.for_run(run.id)
        if turn.goal_id == goal_id and turn.event == "judge" and turn.outcome is not None
    )


def _since_last_turn(store: Store, run: Run, goal: Goal) -> Sequence[Event]:
    # The events since the agent's last turn started, oldest first; read page by page from the end.
    last = store.events.last_seq(run.id)
    found: list[Event] = []
    while last > 0:
        begin = max(0, last - EVENT_PAGE_SIZE)
        page = [recorded.event for recorded in store.events.since(run.id, begin, limit=last - begin)]
        starts = [
            at
            for at, event in enumerate(page)
            if isinstance(event, PlanningTurnStarted) and event.event == "judge" and event.goal == goal.name
        ]
        # Since the start of the turn, not its end: events while the agent was busy are news to it, too.
        found[:0] = page[starts[-1] + 1 :] if starts else page
        last = 0 if starts else begin
    return found


def _describe_events(store: Store, goal: Goal, events: Sequence[Event]) -> Iterator[str]:
    """Yield a text for each event of the goal that the agent did not cause itself."""
    turn_ended = False
    for event in events:
        match event:
            case PlanningTurnEnded(event="judge", goal=name) if name == goal.name:
                turn_ended = True
            case AttemptEnded(action=key, number=number, outcome=outcome, error=error):
                if outcome not in GOES_ON and _action_of_goal(store, goal, key):
                    yield f"attempt {number} of `{key}` ended: {outcome}{f' ({error})' if error else ''}"
            case FactStateChanged(goal=name, assertion=assertion, state=state) if name == goal.name:
                yield f"`{assertion}` {state if state == 'holds' else f'is {state}'}"
            # During its turn the agent itself sets actions to pending, e.g. to retry one.
            case ActionStatusChanged(action=key, status="pending"):
                action = _action_of_goal(store, goal, key)
                is_open = action is not None and isinstance(action.state, Pending) and not is_cut_off(store, action)
                if turn_ended and is_open:
                    yield f"`{key}` is pending"
            # A compound starts automatically, but only the agent may dispatch its children.
            case ActionStatusChanged(action=key, status="running"):
                action = _action_of_goal(store, goal, key)
                children = () if action is None else store.actions.children(action.id)
                if any(isinstance(child.state, Pending) and not child.unmet for child in children):
                    yield f"`{key}` is running"


def _action_of_goal(store: Store, goal: Goal, key: ActionKey) -> Action | None:
    action = store.actions.by_key(goal.run_id, key)
    return action if action is not None and action.goal_id == goal.id else None
