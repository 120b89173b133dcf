"""Notes on actions: why one has its status, what it waits for, which attempt it is in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scaffold.core.ids import ActionId, Assertion
from scaffold.core.landing.queue_place import PlaceState, QueuePlace
from scaffold.core.model import Action, Attempt, Goal
from scaffold.core.printable_text import count_of, join_limited, printable
from scaffold.core.states import (
    INTERRUPTED,
    WAITS_FOR_PREFIX,
    Cancelled,
    Failed,
    Paused,
    awaited_inbox_id,
    reason_of,
    status_of,
)
from scaffold.plan.failures.recurrence import first_same
from scaffold.views.run_view import RunView
from scaffold.views.state_labels import where_landed
from scaffold.views.text_format import format_duration

MAX_PATHS = 5
PROOF_STEPS: Mapping[PlaceState, str] = {
    "proving": "its checks run",
    "proven": "its checks have passed",
    "gates": "the gates run for all that land together",
}
DEPENDENCY_FAILED = "dependency_failed:"
ActionsById = Mapping[ActionId, Action]


def step_name(action: Action) -> str:
    """Return the title of a story, or the type of a step of it; empty for other actions."""
    if action.method != "story":
        return ""
    return action.title if action.kind == "compound" else action.role


def action_note(view: RunView, action: Action, holding: frozenset[Assertion], actions: ActionsById) -> str:
    """Return a short reason for an action's status; `holding` and `actions` are its goal's."""
    match status_of(action.state):
        case "pending":
            return _waits_for(view, action, holding, actions)
        case "completed" if action.method == "story" and action.kind == "compound":
            steps = [each for each in actions.values() if each.parent_id == action.id]
            return _landed_note(view.attempts_of(steps[-1])) if steps else ""
        case "running" | "verifying" | "landing" | "completed" if action.kind == "compound":
            return _compound_progress(view, action)
        case "running" | "verifying" | "landing":
            return f"{attempt_label(view, action)}, {_running_note(view, action)}"
        case "completed":
            return _landed_note(view.attempts_of(action))
        case _:
            return _end_note(view, action, actions)


def _landed_note(attempts: Sequence[Attempt]) -> str:
    if not attempts:
        return ""
    tries = f" in attempt {attempts[-1].number}" if len(attempts) > 1 else ""
    return f"{where_landed(attempts[-1])}{tries}"


def _end_note(view: RunView, action: Action, actions: ActionsById) -> str:
    attempts = len(view.attempts_of(action))
    if status_of(action.state) == "failed" and attempts:
        last = view.attempts_of(action)[-1]
        same = first_same(view.attempts_of(action), last)
        again = f", the last with the same failure as attempt {same.number}" if same else ""
        return f"after {count_of(attempts, 'attempt')}{again}"
    # The run notices an expired item as soon as it is resumed.
    item = awaited_inbox_id(action.state)
    if item is not None and all(item != each.id for each in view.summary.inbox):
        return "its inbox item expired: resume it"
    return status_reason(action, actions)


def attempt_label(view: RunView, action: Action, *, upcoming: bool = False) -> str:
    """Return e.g. `attempt 2 of 3`, counting failures only; followed by the attempt's number where that differs."""
    most = view.attempts_allowed(action)
    counted = view.failures.get(action.id, 0) + 1
    number = len(view.attempts_of(action)) + upcoming
    named = f"attempt {min(counted, most)} of {most}" + (f" (#{number})" if number != counted else "")
    return f"{named}{_approach_note(view.attempts_of(action), upcoming=upcoming)}"


def _approach_note(attempts: Sequence[Attempt], *, upcoming: bool) -> str:
    """Return a note if the attempt takes another approach, with the reason; else an empty text."""
    if not attempts:
        return ""
    *earlier, last = attempts
    if not upcoming:
        return ", another approach" if last.alternative else ""
    same = first_same(earlier, last)
    if same is None:
        return ""
    return f", after the same failure as in attempt {same.number}"


def _waits_for(view: RunView, action: Action, holding: frozenset[Assertion], actions: ActionsById) -> str:
    lacking = [name for name in action.preconditions if name not in holding]
    if lacking:
        return f"waits for {', '.join(lacking)}"
    parent = actions[action.parent_id] if action.parent_id else None
    if parent is not None and status_of(parent.state) != "running":
        return f"waits for {parent.key} to start"
    again = f", {attempt_label(view, action, upcoming=True)}" if view.attempts_of(action) else ""
    if not view.summary.is_live or action.kind == "compound":
        return f"ready{again}"
    if (why := view.held_back.get(action.id)) is not None:
        return f"ready{again}, but held back: {why.text}"
    goal = next(goal for goal in view.goals if goal.id == action.goal_id)
    return f"ready{again}{', but its goal is paused' if isinstance(goal.state, Paused) else _slot_blocker(view, goal)}"


def _slot_blocker(view: RunView, goal: Goal) -> str:
    """Return why no slot is free for a ready action of the goal; empty if one is."""
    taken, slots = sum(view.slots_taken.values()), view.run.agents
    if taken >= slots:
        return f": waits for a slot, {taken} of {slots} are in use"
    if (of_goal := view.slots_taken.get(goal.id, 0)) >= goal.worker_cap:
        return f": waits for a slot, {of_goal} of its goal's {goal.worker_cap} are in use"
    if view.landing_backlog:
        return ": waits until candidates have landed"
    return ""


def _compound_progress(view: RunView, compound: Action) -> str:
    """Return what the agent of its supervisor is doing, else the number of completed children."""
    if (turn := next((turn for turn in view.summary.turns if turn.action_id == compound.id), None)) is not None:
        return f"{turn.event} for {format_duration(view.summary.at - turn.started_at)}"
    progress = view.progress.get(compound.id)
    return f"{progress.done}/{progress.children} done" if progress else ""


def _running_note(view: RunView, action: Action) -> str:
    attempts = view.attempts_of(action)
    if not attempts:
        return "has no attempt"
    last = attempts[-1]
    if (place := view.places.get(last.id)) is not None and place.state == "approval":
        return f"waits for your approval {place.detail}"
    again = f" again ({last.iteration + 1})" if last.iteration and last.phase == "executing" else ""
    if view.status == INTERRUPTED:
        return f"was {last.phase}{again}"
    return f"{last.phase}{again}, {format_duration(view.summary.at - (last.started_at or last.queued_at))}"


def status_reason(action: Action, actions: ActionsById) -> str:
    """Return the reason for an action's state, with other actions by their keys; empty if there is none."""
    reason = reason_of(action.state) or ""
    if isinstance(action.state, Failed) and (step := failed_step(action, actions.values())) is not None:
        return (
            f"its step {step.key} {status_of(step.state)}"
            if isinstance(step.state, Failed)
            else f"its step {step.key} was stopped"
        )
    if (item := awaited_inbox_id(action.state)) is not None:
        return f"waits for you: {item} in the inbox"
    if reason.startswith(DEPENDENCY_FAILED):
        root = ActionId(reason.removeprefix(DEPENDENCY_FAILED))
        return f"needs {actions[root].key if root in actions else root}, which failed"
    return reason.replace(WAITS_FOR_PREFIX, "waits for ")


def failed_step(story: Action, actions: Iterable[Action]) -> Action | None:
    """Return the step that failed a story, or that the user stopped; None if none did, and for other actions."""
    if story.method != "story" or story.kind != "compound":
        return None
    steps = (each for each in actions if each.parent_id == story.id)
    return next((each for each in steps if isinstance(each.state, Failed | Cancelled)), None)


def failed_actions(view: RunView) -> Sequence[Action]:
    """Return the actions that failed; a step stands for its story."""
    failed = [action for action in view.actions if isinstance(action.state, Failed)]
    by_step = {action.parent_id for action in failed if action.method == "story"}
    return [action for action in failed if action.id not in by_step]


def place_note(place: QueuePlace) -> str:
    """Return the step that a candidate is in, and what it waits for."""
    names = join_limited(place.waits_for, MAX_PATHS)
    if place.state == "held":
        return f"conflicts with what has landed; waits for {names}, so that it is done again only once"
    if place.state == "merging":
        return f"conflicts with what has landed; {place.detail}, others land meanwhile"
    if place.state == "approval":
        return f"waits for your approval {place.detail}; others land meanwhile"
    if place.lane is None:
        have = "has" if len(place.waits_for) == 1 else "have"
        return f"waits until {names} {have} landed" if names else "waits"
    return f"lane {place.lane}: {PROOF_STEPS[place.state]}"


def conflict_notes(place: QueuePlace) -> Iterator[str]:
    """Yield a line for each action that a candidate conflicts with."""
    for key, paths in place.conflicts.items():
        yield f"will conflict with {key} in {join_limited([printable(path) for path in paths], MAX_PATHS)}"
