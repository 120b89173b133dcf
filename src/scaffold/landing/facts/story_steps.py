"""Record the steps of a compound, which move no branch, and apply the edits of a story's steps that agents ask for."""

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import ActionKey
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.plan import ActionSpec
from scaffold.core.states import Blocked, Completed, Failed, Pending, Skipped
from scaffold.git import commits, refs
from scaffold.landing.facts.effect_evidence import evidence_of
from scaffold.plan.story.actions import step_actions, step_key
from scaffold.plan.story.apply_edit import EditsApplied, EditsKnown, EditsRejected, RestartsExhausted, with_rebase_step
from scaffold.plan.story.record import StoryRecord
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, block_unreachable_actions, record_attempt_end
from scaffold.run.failures.rescue_diff import write_rescue_diff
from scaffold.run.new_actions import new_actions
from scaffold.run.notices import warn
from scaffold.run.shared_notes import UnusableNotes, add_notes, keep_unused_edits, notes_of_story
from scaffold.store.database import Store
from scaffold.store.run.story_records import RejectedEdits
from scaffold.views.story_record import JudgedEdits, judge_edits, story_record


class _Edited(Struct, frozen=True, kw_only=True):
    """A story, and the judgement on the edits that one of its steps asks for."""

    story: Action
    judged: JudgedEdits


async def record_step(context: RunContext, run: Run, attempt: Attempt, action: Action) -> None:
    """Record that a step has ended at its commit, which stays pinned, and apply the edits that it asked for.

    Its effects only order the steps of one compound, so no landing makes them stale. A step that asked to begin again
    is pending, its changes pinned; a last step that added others before it is pending, its changes part of the work.
    Another last step still waits to land, without its edits.
    """
    store = context.store
    with owner_transaction(store, run, durable=True):
        # A user may have stopped it meanwhile. Judged in the transaction, because others change the plan, too.
        store.attempts.check(attempt.id, fence=attempt.fence)
        edited = _judge_step_edits(context, attempt, action)
        outcome = edited.judged.outcome if edited else EditsKnown()
        if edited and isinstance(outcome, EditsApplied):
            _write_story(context, edited.story, edited.judged.before, outcome.story)
        match outcome:
            case RestartsExhausted(error=error):
                end = AttemptEnd("executor_failed", error, permanent=True)
                record_attempt_end(store, run, attempt.id, end, head=attempt.head_sha)
            case EditsApplied(resets_worktree=True):
                end = AttemptEnd("restarted", "its agent asked for it")
                record_attempt_end(store, run, attempt.id, end, head=attempt.head_sha)
            case _:
                again = edited is not None and edited.judged.repeats_step
                if attempt.kind == "step" or again:
                    _record_end(context, run, attempt, action, again=again)
                else:
                    store.attempts.forget_edits(attempt.id)
        if isinstance(outcome, EditsRejected | RestartsExhausted):
            store.refused_edits.add(attempt.id, RejectedEdits(why=outcome.feedback, edits=attempt.edits or ""))
    # The run may end with this step, which cancels its owner's tasks: nobody would do the rest later.
    finishing = asyncio.create_task(_finish_step(context, run, attempt))
    try:
        await asyncio.shield(finishing)
    finally:
        await finishing


async def _finish_step(context: RunContext, run: Run, attempt: Attempt) -> None:
    await note_refused_edits(context, run)
    # The changes of a step that failed or begins again are kept as a patch.
    ended = context.store.attempts.get(attempt.id)
    if ended is not None and ended.outcome not in {None, "recorded", "landed"}:
        await write_rescue_diff(context, attempt.id)
    await unpin_contained(context, attempt, landed=False)


async def note_refused_edits(context: RunContext, run: Run) -> None:
    """Note in each story which edits were rejected and why, also those that a killed owner did not note."""
    store = context.store
    for each in store.refused_edits.for_run(run.id):
        keep_unused_edits(context, each.attempt, each.story, each.refusal.edits)
        written = await add_notes(context, notes_of_story(each.story), each.refusal.why)
        text = f"{each.step} asked for changes of its story's steps that were rejected."
        more = f" Its notes do not say why: {written.why}." if isinstance(written, UnusableNotes) else ""
        warn(context, run.id, f"{text}{more}")
        with owner_transaction(store, run):
            store.refused_edits.settle(each.attempt)


def add_rebase_step(context: RunContext, attempt: Attempt, why: str) -> bool:
    """Insert a step that resolves conflicts before a story's last step; the caller owns the transaction.

    A story with too many steps fails instead. False unless a story's step waits to be tried again.
    """
    store = context.store
    action = store.actions.get(attempt.action_id)
    story = store.actions.get(action.parent_id) if action and action.parent_id else None
    if action is None or story is None or story.method != "story" or not isinstance(action.state, Pending | Blocked):
        return False
    before = story_record(store, story)
    after = with_rebase_step(before, conflict=why.partition("\n")[0], at=context.clock.now())
    if after is None:
        store.actions.move(action.id, Failed(why))
        block_unreachable_actions(store, action.goal_id)
    else:
        _write_story(context, story, before, after)
    return True


def chain_again(store: Store, step: Action) -> None:
    """Restore the order of the steps of a story that starts over; `step` is one of them."""
    # Edits may have changed the order in which the steps were executed, which their preconditions record.
    story = store.actions.get(step.parent_id) if step.parent_id else None
    if story is None or story.method != "story":
        return
    specs = {spec.key: spec for spec in step_actions(story_record(store, story))}
    for each in store.actions.children(story.id):
        if each.key in specs and isinstance(each.state, Pending):
            store.actions.arrange(structs.replace(each, preconditions=specs[each.key].preconditions))


async def unpin_contained(context: RunContext, attempt: Attempt, *, landed: bool) -> None:
    """Delete the pins of earlier attempts in the attempt's worktree whose commits a later one contains.

    The later one is that of the last recorded step, or the attempt's own if it has `landed`.
    """
    if not attempt.workspace:
        return
    store = context.store.attempts
    recorded = store.recorded_in_workspace(attempt.workspace)
    last = attempt.head_sha if landed or not recorded else recorded[-1].head_sha
    keeper = attempt.id if landed or not recorded else recorded[-1].id
    pins = await refs.list_refs(context.git, refs.REF_PREFIX)
    for earlier in store.for_workspace(attempt.workspace):
        for ref in (refs.work_ref(earlier.id), refs.rescue_ref(earlier.id)):  # `cleanup` moves the pin to a rescue ref
            pin = pins.get(ref)
            # A last step whose edits were rejected still waits to land.
            if pin is None or last is None or earlier.id == keeper or earlier.status != "ended":
                continue
            recorded_here = landed and earlier.outcome == "recorded" and pin == earlier.head_sha
            if recorded_here or pin == last or await commits.is_ancestor(context.git, pin, last):
                await refs.delete(context.git, ref, old=pin)


def _judge_step_edits(context: RunContext, attempt: Attempt, action: Action) -> _Edited | None:
    store = context.store
    story = store.actions.get(action.parent_id) if action.parent_id else None
    if attempt.edits is None or story is None or story.method != "story":
        return None
    judged = judge_edits(store, story, action, attempt, attempt.edits, context.clock.now())
    return _Edited(story=story, judged=judged)


def _record_end(context: RunContext, run: Run, attempt: Attempt, action: Action, *, again: bool) -> None:
    # With `again`, the step is executed once more on top of its commit.
    store, verification, head = context.store, attempt.verification, attempt.head_sha
    if verification is None or head is None:
        raise LookupError(attempt.id)
    store.runs.check(run.id, fence=run.fence)
    store.attempts.advance(attempt.id, fence=attempt.fence, phase="recorded")
    store.attempts.end(attempt.id, outcome="recorded")
    if again:
        store.actions.move(action.id, Pending())
        return
    store.actions.move(action.id, Completed(), result=attempt.result or "")
    store.facts.record_all(
        action.goal_id,
        action.effects,
        commit=head,
        paths=(),
        evidence=evidence_of(verification, attempt.id, head, context.clock.now()),
    )


def _write_story(context: RunContext, story: Action, before: StoryRecord, after: StoryRecord) -> None:
    store = context.store
    stored = {each.key: each for each in store.actions.children(story.id)}
    specs = {spec.key: spec for spec in step_actions(after)}
    keys = [step_key(after.story_id, step.id) for step in after.steps]
    for replaced in [stored.pop(key) for key in [*stored] if key not in keys]:
        if not isinstance(replaced.state, Pending):
            continue  # replaced by an earlier edit, and skipped
        if store.attempts.for_action(replaced.id):
            store.actions.move(replaced.id, Skipped("replaced by other steps"))
        else:
            store.actions.remove(replaced)
    for step in after.steps:
        action = stored.get(step_key(after.story_id, step.id))
        if action is not None and step.status == "skipped" and isinstance(action.state, Pending):
            store.actions.move(action.id, Skipped(step.skip_reason or "skipped"))
    _arrange_steps(context, story, keys, specs, stored)
    entries = after.history[len(before.history) :]
    store.story_histories.add(story.id, entries)
    operations = ", ".join(str(entry.details.get("operation", entry.action)) for entry in entries)
    store.events.append(story.run_id, NoticeRaised("info", f"The steps of {story.key} were changed: {operations}."))


def _arrange_steps(
    context: RunContext,
    story: Action,
    keys: Sequence[ActionKey],
    specs: Mapping[ActionKey, ActionSpec],
    stored: Mapping[ActionKey, Action],
) -> None:
    store, goal = context.store, context.store.goals.get(story.goal_id)
    if goal is None:
        raise LookupError(story.goal_id)
    last = max((each.position for each in stored.values()), default=story.position)
    new = [specs[key] for key in keys if key not in stored]
    store.actions.make_room(story.run_id, after=last, count=len(new))
    now = context.clock.now()
    added = new_actions(new, goal, position=last + 1, now=now, parents=lambda _: story.id, method="story")
    store.actions.add(added)
    known = {**stored, **{each.key: each for each in added}}
    positions = sorted(known[key].position for key in keys)
    for position, key in zip(positions, keys, strict=True):
        action, spec = structs.replace(known[key], position=position), specs.get(key)
        if spec is not None and not isinstance(action.state, Completed):
            description, needs = spec.stored_description, spec.preconditions
            action = structs.replace(action, description=description, preconditions=needs)
        store.actions.arrange(action)
