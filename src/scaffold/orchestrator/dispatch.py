"""Queue an attempt: its briefing about earlier attempts and its row in the store."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import ActionId, AttemptId, Commit, GoalId
from scaffold.core.model import Attempt, Goal, Run, Usage
from scaffold.core.plan import WorkKind
from scaffold.core.printable_text import join_limited, truncate_text
from scaffold.core.states import COUNTED_FAILURES, WORKER_PHASES, Active, AttemptOutcome, Pending, Running
from scaffold.git import commits, refs
from scaffold.git.trees.merge import Conflicted, merge_commits, on_base
from scaffold.host.random_ids import new_id
from scaffold.landing.facts.landing_record import session_tip
from scaffold.orchestrator.forecasts import forecast_conflicts
from scaffold.orchestrator.other_approach import other_approach_briefing, takes_other_approach
from scaffold.plan import slot_shares
from scaffold.plan.collisions.rules import HeldBack
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.collision_board import RunBoard, StartPicker
from scaffold.run.context import RunContext
from scaffold.run.failures.ladder import failure_kind, most_telling
from scaffold.run.failures.refused_work import FAILURES_CHARS, summarize_failures
from scaffold.run.failures.worker_losses import is_about_deaths
from scaffold.store.database import Store
from scaffold.verify.contract.review_verdict import work_kind

DIFF_BYTES = 4_500
"""Limit for each diff in a briefing; two of them and the reasons fit into a worker's prompt."""
MAX_PATHS = 20
REASON_CHARS = FAILURES_CHARS + 1_000
"""Limit for why the last attempt ended."""
EARLIER_CHARS = 2_000
MAX_REJECTIONS = 5
"""So many earlier rejections by a human are told, the latest ones."""
"""Limit for an ending that says little of the work, and for an earlier one that says more."""
OUTCOMES: Mapping[AttemptOutcome, str] = {
    "landed": "it landed",
    "recorded": "it was recorded",
    "contract_failed": "it did not pass its checks",
    "gate_failed": "it broke what worked before",
    "conflict": "it did not fit what landed meanwhile",
    "executor_failed": "an error stopped it",
    "timeout": "it ran out of time",
    "budget": "the budget was used up",
    "cancelled": "it was cancelled",
    "lost": "it was interrupted",
    "unavailable": "its model could not be reached",
    "no_access": "its model accepted no requests",
    "waiting": "it waited for a human",
    "restarted": "it asked to begin again",
    "rejected": "a human read its change and rejected it",
}
"""How an attempt ended, for the agent of the next one."""


class SharedSlots(Struct, frozen=True):
    """The free slots of a run, shared among its goals."""

    by_goal: Mapping[GoalId, int]
    """How many attempts of each goal may start now; goals that may start none are omitted."""
    picker: StartPicker | None
    """What picked the actions that may start; None if no slot is free, or the user turned the rules off."""


def free_slots(store: Store, run: Run, goal: Goal) -> int:
    """Return how many attempts of the goal may start now: its share of the run's free slots.

    An attempt takes a slot from the time it is queued until its candidate is submitted, except while it waits for a
    human.
    """
    return slots_for(store, run, goal).by_goal.get(goal.id, 0)


def slots_for(store: Store, run: Run, goal: Goal) -> SharedSlots:
    """Return the shares of all goals, as they are when this goal asks."""
    # An agent need not start what is ready, so in its runs a slot goes to the first goal that asks for one.
    by_agent = run.settings.planning.planner and run.settings.planning.supervision == "agent"
    return share_slots(store, run, (goal.id,) if by_agent else None)


def slots_by_goal(store: Store, run: Run, among: Collection[GoalId] | None = None) -> Mapping[GoalId, int]:
    """Return how many attempts of each goal may start now; goals that may start none are omitted.

    `among`: the goals that share the free slots; None for all.
    """
    return share_slots(store, run, among).by_goal


def share_slots(store: Store, run: Run, among: Collection[GoalId] | None = None) -> SharedSlots:
    """Share the free slots among the goals that have ready work which is not held back."""
    free = free_slots_of_run(store, run)
    if not free:
        return SharedSlots({}, None)
    demands = store.attempts.slot_demands(run.id, free)
    shared = [each for each in demands if among is None or each.goal in among]
    picker = StartPicker(store, run) if run.settings.scheduling.collisions else None
    needed = functools.cache(store.goals.unmet)

    def can_start(goal: GoalId) -> bool:
        return bool(needed(goal)) and (picker is None or picker.pick(goal))

    return SharedSlots(slot_shares.share_slots(shared, free, can_start), picker)


def free_slots_of_run(store: Store, run: Run) -> int:
    """Return how many attempts may start in the run, in whatever goals."""
    slots = store.attempts.slots(run.id).values()
    unlanded = sum(use.working for use in slots) + store.attempts.count_waiting_to_land(run.id)
    taken = sum(use.taken for use in slots)
    return slot_shares.free_slots(store.runs.agents(run.id), taken=taken, unlanded=unlanded)


def why_held_back(store: Store, run: Run, action_id: ActionId) -> HeldBack | None:
    """Return why a ready action may not start beside what runs; None if it may, or if the user turned that off."""
    return RunBoard(store, run).why_held_back(action_id) if run.settings.scheduling.collisions else None


async def queue_attempt(context: RunContext, run: Run, goal_id: GoalId, action_id: ActionId) -> Attempt | None:
    """Queue and return the next attempt of a ready action, based on the tip of the session branch.

    None if it may no longer start, because since the decision the goal was paused, the action cancelled or no longer
    ready, its slot taken, its shared worktree in use, or it collides with what runs. All that is checked as it opens.
    """
    store = context.store
    # Git is asked before the transaction, which must stay short: it holds the only write lock.
    tip = await session_tip(context, run)
    briefing, alternative = await _brief_next_attempt(context, action_id, tip)
    placed = await _find_placement(context, action_id, tip)
    await forecast_conflicts(context, run, action_id, tip)
    attempt = Attempt(
        id=AttemptId(new_id()),
        run_id=run.id,
        action_id=action_id,
        kind=placed.kind,
        workspace=placed.workspace,
        start_sha=placed.start,
        number=store.attempts.next_number(action_id),
        fence=run.fence,
        status="queued",
        phase="workspace",
        executor=run.settings.model.executor,
        model=_model_name(store, run, action_id, alternative=alternative),
        base_sha=placed.base,
        briefing=briefing,
        alternative=alternative,
        usage=Usage(),
        queued_at=context.clock.now(),
    )
    # Only here are the caps certain: another supervisor may have taken the last slot since the decision.
    with owner_transaction(store, run):
        goal, action = store.goals.get(goal_id), store.actions.get(action_id)
        if goal is None or not isinstance(goal.state, Active) or action is None:
            return None
        slots = slots_for(store, run, goal)
        if not slots.by_goal.get(goal_id) or not isinstance(action.state, Pending) or action.unmet:
            return None
        # The order of steps keeps them apart; a second one at once would reset the worktree of the first.
        if store.attempts.is_in_use(attempt.workspace):
            return None
        if slots.picker is not None and not _starts_beside(store, slots.picker.of_run, action_id):
            return None
        store.goals.record_slot(goal_id)
        store.attempts.open(attempt)
        # In the same transaction: an action that is pending with an open attempt would be dispatched again.
        store.actions.move(action_id, Running())
    return attempt


def _model_name(store: Store, run: Run, action_id: ActionId, *, alternative: bool) -> str:
    action = store.actions.get(action_id)
    if action is None:
        return run.settings.model.name
    return run.settings.worker_model(action.role, action.type, alternative=alternative).name


def _starts_beside(store: Store, running: RunBoard, action_id: ActionId) -> bool:
    """Return whether an action may start beside what runs; if so, count that it overtakes those held back.

    Asked of the action itself: an agent may start another one than those that were picked.
    """
    if running.why_held_back(action_id) is not None:
        return False
    store.scheduling.start(action_id, overtakes=tuple(running.overtaken_by(action_id)))
    return True


async def _brief_next_attempt(context: RunContext, action_id: ActionId, tip: Commit) -> tuple[str, bool]:
    """Return what the next attempt should know, and whether it is to take another approach."""
    store, action = context.store, context.store.actions.get(action_id)
    briefing = await attempt_briefing(context, store.attempts.of_action(action_id), tip)
    if action is None or not takes_other_approach(store, action):
        return briefing, False
    return f"{await other_approach_briefing(context, action)}\n\n{briefing}", True


class _Placement(Struct, frozen=True):
    """Where an attempt works, and what it hands in."""

    kind: WorkKind
    base: Commit
    workspace: str = ""
    start: Commit | None = None


async def _find_placement(context: RunContext, action_id: ActionId, tip: Commit) -> _Placement:
    """Return where an attempt works: at the branch's tip, or where the last step in its parent's worktree ended."""
    store = context.store
    action = store.actions.get(action_id)
    parent = store.actions.get(action.parent_id) if action and action.parent_id else None
    if action is None:
        return _Placement("change", tip)
    kind = work_kind(action, parent)
    if action.workspace == "own" or parent is None:
        return _Placement(kind, tip)
    recorded = store.attempts.recorded_in_workspace(parent.id)
    last = recorded[-1] if recorded else None
    if last is None or last.head_sha is None:
        return _Placement(kind, tip, parent.id)
    # A step may have taken up what landed meanwhile. If the run was carried over to another base, they have an older
    # commit in common, or none: then all that the steps made is still a change of the commit that it was one of.
    base = await commits.merge_base(context.git, last.head_sha, tip)
    if base != last.base_sha and (base is None or await commits.is_contained(context.git, base, last.base_sha)):
        base = last.base_sha
    return _Placement(kind, base, parent.id, last.head_sha)


async def attempt_briefing(context: RunContext, earlier: tuple[Attempt, ...], tip: Commit) -> str:
    """Return what the next attempt should know: why the last one ended, its diff, and what has landed since.

    Of conflicting work, only the paths that conflict are shown, so that both sides of them fit. Empty if there was no
    earlier attempt.
    """
    if not earlier:
        return ""
    last = earlier[-1]
    moves = context.store.branch_moves.done_of_run(last.run_id)
    if any(move.purpose == "revert" and move.head == last.head_sha for move in moves):
        return (
            f"Attempt {last.number} landed as {last.head_sha}, and the user has undone that commit since: they did not "
            "want it as it was. `git show` shows it."
        )
    if last.outcome in {"landed", "recorded"}:
        return (
            f"Attempt {last.number} was {last.outcome} at {last.head_sha or last.base_sha}. Its result is no longer "
            "valid, because files it depends on have changed since. Check the current state."
        )
    parts = [*_ending_lines(earlier), *_rejection_lines(earlier)]
    parts += [f"A human was asked about that, and said: {said}" for said in _answers_about_deaths(context.store, last)]
    # An owner that was killed between the pin and the end of the attempt left the ref, but no commit in the row.
    head = last.head_sha or await refs.resolve(context.git, refs.rescue_ref(last.id))
    submitted = last.phase not in WORKER_PHASES and last.base_sha != tip
    paths = await _conflicting_paths(context, last, tip, head) if submitted and last.outcome == "conflict" else ()
    only = f" in {join_limited(paths, MAX_PATHS)}" if paths else ""
    if head is not None and await refs.resolve(context.git, head) is None:
        parts.append("Its changes are lost: the repository no longer has them.")
    elif head is not None and head != last.base_sha:
        work = await commits.diff_text(context.git, last.base_sha, head, limit_bytes=DIFF_BYTES, paths=paths)
        parts.append(f"Its changes{only}, which did not land:\n{work}")
    # A candidate failed against what landed meanwhile, so its successor has to see both sides.
    if submitted:
        landed = await commits.diff_text(context.git, last.base_sha, tip, limit_bytes=DIFF_BYTES, paths=paths)
        parts.append(f"Changes{only} that landed meanwhile and are in your base now:\n{landed}")
    if paths:
        parts.append("Make the change again on top of what landed, so that both hold in these files.")
    return "\n\n".join(parts)


def _ending_text(attempt: Attempt, limit: int) -> str:
    how = OUTCOMES[attempt.outcome] if attempt.outcome else "it has no outcome"
    why = f": {truncate_text(attempt.error, limit)}" if attempt.error else ""
    return f"Attempt {attempt.number} ended: {how}{why}"


def _answers_about_deaths(store: Store, attempt: Attempt) -> Iterator[str]:
    """Yield what a human said about workers that died in a row."""
    for item in store.inbox.answered(attempt.id):
        if item.answer and is_about_deaths(item):
            yield truncate_text(item.answer, REASON_CHARS)


def _ending_lines(earlier: tuple[Attempt, ...]) -> Iterator[str]:
    """Yield why the last attempt ended, and if that says little, why work was refused before."""
    last, counted = earlier[-1], [each for each in earlier if each.outcome in COUNTED_FAILURES]
    if last.outcome == "conflict" or failure_kind(last) in {"named", "refused", "unimproved"}:
        yield _ending_text(last, REASON_CHARS)
        return
    yield _ending_text(last, EARLIER_CHARS)
    if last.verification is not None and not last.verification.passed:
        yield f"Its work had been refused before that:\n{summarize_failures(last.verification)}"
    elif counted and (telling := most_telling(counted)) is not last:
        yield _ending_text(telling, EARLIER_CHARS)


def _rejection_lines(earlier: Sequence[Attempt]) -> Iterator[str]:
    """Yield what humans said of changes before that of the last attempt, since the action landed last.

    Whatever became of the attempts after it: their words hold for all that follows.
    """
    landed = [at for at, each in enumerate(earlier) if each.outcome in {"landed", "recorded"}]
    since = earlier[landed[-1] + 1 if landed else 0 : -1]
    for each in [each for each in since if each.outcome == "rejected"][-MAX_REJECTIONS:]:
        yield _ending_text(each, EARLIER_CHARS)


async def _conflicting_paths(context: RunContext, last: Attempt, tip: Commit, head: Commit | None) -> tuple[str, ...]:
    """Return the paths in which the work conflicts with the tip; empty if it does not any more."""
    if head is None:
        return ()
    merged = await merge_commits(context.git, await on_base(context.git, tip, last.base_sha), head)
    return merged.paths if isinstance(merged, Conflicted) else ()
