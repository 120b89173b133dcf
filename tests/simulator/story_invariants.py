"""What must hold for stories at every commit and at the end of a run; one function for each."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scaffold.core.events import AttemptQueued
from scaffold.core.ids import ActionKey, AttemptId
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.states import Completed, Skipped
from scaffold.plan.story.guardrails import MAX_RESTARTS, MAX_STEPS
from scaffold.store.database import Store
from scaffold.views.story_record import story_record
from simulator.plans import file_of

if TYPE_CHECKING:
    from simulator.invariants import FinalState

DISCARDED = frozenset({"restarted", "lost", "executor_failed", "timeout", "cancelled", "budget", "waiting"})
"""Outcomes after which the work of a step is no part of its story."""


def is_step(action: Action | None) -> bool:
    return action is not None and action.workspace == "parent"


def is_about_step(assertion: str) -> bool:
    """Return whether the fact is about a step that lands nothing; it orders the steps, and proves nothing."""
    return "/" in assertion


def own_failures_allowed(run: Run, action: Action) -> int:
    """DR-9: the first failure of a step's agent ends its story; what does not land may be tried again."""
    return (1 if is_step(action) else run.settings.limits.attempts) + action.extra_attempts


def has_used_its_restarts(store: Store, run: Run, key: str) -> bool:
    """DR-4: the fourth restart of a step fails its story, which is found when the step is recorded."""
    action = store.actions.by_key(run.id, ActionKey(key))
    attempts = store.attempts.for_action(action.id) if action is not None and is_step(action) else ()
    return sum(each.outcome == "restarted" for each in attempts) >= MAX_RESTARTS


def steps_begin_in_order(store: Store, run: Run, event: AttemptQueued) -> Iterator[str]:
    """DR-3, DR-10: a step begins once all before it have ended, at the commit at which the last one did."""
    action = store.actions.by_key(run.id, event.action)
    if action is None or not is_step(action) or action.parent_id is None:
        return
    steps = store.actions.children(action.parent_id)
    before = steps[: [each.id for each in steps].index(action.id)]
    open_ones = [each.key for each in before if not isinstance(each.state, Completed | Skipped)]
    if open_ones:
        yield f"{action.key} begins, but {open_ones} before it have not ended"
    later = [each.key for each in steps[len(before) + 1 :] if not isinstance(each.state, Skipped)]
    if (action.role == "final_review") == bool(later):
        yield f"{action.key} is a {action.role}, and {later} follow it"
    attempts = store.attempts.for_workspace(action.parent_id)
    own = attempts[-1]
    recorded = [each for each in attempts[:-1] if each.outcome == "recorded"]
    if recorded and own.start != recorded[-1].head_sha:
        yield f"{action.key} begins at {own.start}, but the last step ended at {recorded[-1].head_sha}"
    if len(steps) > MAX_STEPS:
        yield f"{action.key} is in a story of {len(steps)} steps"


def one_attempt_in_a_workspace(store: Store, run: Run) -> Iterator[str]:
    """DR-10: a shared worktree has one open attempt."""
    counts = Counter(each.workspace for each in store.attempts.open_of_run(run.id) if each.workspace)
    yield from (f"{count} attempts are open in the worktree {name}" for name, count in counts.items() if count > 1)


def only_stories_land(end: "FinalState") -> Iterator[str]:
    """DR-11: what lands of a story is its last step, which is the final review."""
    for attempt in end.attempts:
        action = end.store.actions.get(attempt.action_id)
        if attempt.outcome == "landed" and is_step(action) and action and action.role != "final_review":
            yield f"{action.key} has landed"


def a_story_lands_with_all_its_steps(end: "FinalState") -> Iterator[str]:
    """DR-10, DR-12: with the file of each step that was recorded, and nothing of what was discarded."""
    for landed in end.attempts:
        if landed.outcome != "landed" or not landed.workspace or not landed.head_sha:
            continue
        files = end.objects.files(landed.head_sha)
        earlier = _before(end.store.attempts.for_workspace(landed.workspace), landed)
        recorded = dict[str, str]()
        for attempt in earlier:
            path = _own_file(end, attempt)
            content = end.worktrees.written.get((attempt.id, path))
            if content is not None and attempt.outcome == "recorded":
                recorded[path] = content
            if content is not None and attempt.outcome in DISCARDED and files.get(path) == content:
                yield f"{landed.head_sha} has {content!r}, which was {attempt.outcome}"
        for path, content in recorded.items():
            if files.get(path) not in {content, end.worktrees.written.get((landed.id, path))}:
                yield f"{landed.head_sha} lacks {content!r}, which was recorded"


def is_part_of_a_landing(end: "FinalState", step: Attempt) -> bool:
    """Return whether the work of a step has landed with its story, as one commit of all of them."""
    action = end.store.actions.get(step.action_id)
    landed = [end.store.actions.get(each.action_id) for each in end.attempts if each.outcome == "landed"]
    siblings = {each.parent_id for each in landed if each is not None and is_step(each)}
    had_work = step.outcome != "recorded" and step.head_sha != step.start
    return not had_work and action is not None and is_step(action) and action.parent_id in siblings


def was_replaced(end: "FinalState", attempt_id: str, path: str) -> bool:
    """Return whether a later attempt at the same step, which had it, has written the file again."""
    attempts = {each.id: each for each in end.attempts}
    given = attempts[AttemptId(attempt_id)]
    later = [each for each in end.attempts if each.action_id == given.action_id and each.number > given.number]
    return given.outcome == "recorded" and any((each.id, path) in end.worktrees.written for each in later)


def _before(attempts: Sequence[Attempt], landed: Attempt) -> list[Attempt]:
    ids = [each.id for each in attempts]
    return list(attempts[: ids.index(landed.id)])


def _own_file(end: "FinalState", attempt: Attempt) -> str:
    action = end.store.actions.get(attempt.action_id)
    return file_of(action.key) if action else ""


def edits_are_applied_once(end: "FinalState") -> Iterator[str]:
    """DR-6, DR-12: also if the process that applied them was killed right after."""
    for story in _stories(end):
        counts = Counter(
            (str(entry.details.get("edit_hash")), str(entry.details))
            for entry in end.store.story_histories.for_story(story.id)
            if entry.action == "workflow_edit" and "edit_hash" in entry.details
        )
        yield from (f"{story.key} has {what} {count} times" for (_, what), count in counts.items() if count > 1)


def stories_are_as_their_steps(end: "FinalState") -> Iterator[str]:
    """DR-4, DR-5: the final review is the last, restarts are bounded, and what has failed says so."""
    for story in _stories(end):
        record = story_record(end.store, story)
        if record.steps and record.steps[-1].type != "final_review":
            yield f"{story.key} ends with {record.steps[-1].id}"
        for step in record.steps:
            asked = sum(
                each.outcome == "restarted"
                for action in end.store.actions.children(story.id)
                if action.key.endswith(step.id)
                for each in end.store.attempts.for_action(action.id)
            )
            if asked > MAX_RESTARTS:
                yield f"{step.id} of {story.key} began again {asked} times"
        whole = all(each.status in {"completed", "skipped"} for each in record.steps)
        if record.status == "completed" and not whole and not _is_made_by_another(end, story):
            yield f"{story.key} is completed, but its steps are {[each.status for each in record.steps]}"


def _is_made_by_another(end: "FinalState", story: Action) -> bool:
    # Once a step was cancelled, a new plan may reach the goal by other actions; the story completes by their facts.
    others = [each for each in end.store.actions.for_run(end.run.id) if story.id not in {each.id, each.parent_id}]
    return any(isinstance(each.state, Completed) and set(story.effects) & set(each.effects) for each in others)


def _stories(end: "FinalState") -> list[Action]:
    actions = end.store.actions.for_run(end.run.id)
    return [each for each in actions if each.kind == "compound" and each.method == "story"]


AT_THE_END = (only_stories_land, a_story_lands_with_all_its_steps, edits_are_applied_once, stories_are_as_their_steps)
