"""The briefing of an attempt about earlier ones: why they ended, what they changed, what humans said of them."""

from collections.abc import Iterator, Mapping, Sequence

from scaffold.core.ids import ActionId, Commit
from scaffold.core.model import Attempt
from scaffold.core.printable_text import count_of, join_limited, truncate_text
from scaffold.core.states import COUNTED_FAILURES, CUT_OFF, WORKER_PHASES, AttemptOutcome
from scaffold.git import commits, refs
from scaffold.git.added_lines import changed_line_count
from scaffold.landing.taking.open_work import conflicting_paths
from scaffold.run.context import RunContext
from scaffold.run.failures.ladder import counted_failures, failure_kind, most_telling
from scaffold.run.failures.refused_work import FAILURES_CHARS, summarize_failures
from scaffold.run.failures.worker_losses import is_about_deaths
from scaffold.store.database import Store

DIFF_BYTES = 4_500
"""Limit for each diff; two of them and the reasons fit into a worker's prompt."""
MAX_PATHS = 20
REASON_CHARS = FAILURES_CHARS + 1_000
"""Limit for why the last attempt ended."""
EARLIER_CHARS = 2_000
"""Limit for an ending that says little of the work, and for an earlier one that says more."""
MAX_REJECTIONS = 5
"""How many earlier rejections by a human are told: the latest."""
MAX_TRIED_PATHS = 12
TRIED_CHARS = 500
"""Limit for what the agent of an earlier attempt said it had done."""
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
"""{outcome: how the attempt ended, for the agent of the next one}."""


async def brief_next_attempt(context: RunContext, action_id: ActionId, tip: Commit) -> tuple[str, bool]:
    """Return what the next attempt should know, and whether it is to take another approach."""
    store, action = context.store, context.store.actions.get(action_id)
    briefing = await attempt_briefing(context, store.attempts.for_action(action_id), tip)
    failed = () if action is None else counted_failures(store, action)
    if not failed or failed[-1].escalation != "alternative":
        return briefing, False
    return f"{await _brief_other_approach(context, failed)}\n\n{briefing}", True


async def attempt_briefing(context: RunContext, earlier: tuple[Attempt, ...], tip: Commit) -> str:
    """Return what the next attempt should know: why the last one ended, its diff, and what has landed since.

    Of conflicting work only the conflicting paths are shown, so that both sides fit. Empty without an earlier attempt.
    """
    while earlier and _shows_nothing(context.store, earlier[-1]):
        earlier = earlier[:-1]
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
    # An owner killed between pinning the work and ending the attempt leaves the ref, but no commit in the row.
    head = last.head_sha or await refs.resolve(context.git, refs.rescue_ref(last.id))
    submitted = last.phase not in WORKER_PHASES and last.base_sha != tip
    paths: tuple[str, ...] = ()
    if head is not None and submitted and last.outcome == "conflict":
        paths = await conflicting_paths(context, last, head, tip)
    only = f" in {join_limited(paths, MAX_PATHS)}" if paths else ""
    if head is not None and await refs.resolve(context.git, head) is None:
        parts.append("Its changes are lost: the repository no longer has them.")
    elif head is not None and head != last.base_sha:
        work = await commits.diff_text(context.git, last.base_sha, head, limit_bytes=DIFF_BYTES, paths=paths)
        parts.append(f"Its changes{only}, which did not land:\n{work}")
    # A candidate failed against work that landed meanwhile, so its successor must see both sides.
    if submitted:
        landed = await commits.diff_text(context.git, last.base_sha, tip, limit_bytes=DIFF_BYTES, paths=paths)
        parts.append(f"Changes{only} that landed meanwhile and are in your base now:\n{landed}")
    if paths:
        parts.append("Make the change again on top of what landed, so that both hold in these files.")
    return "\n\n".join(parts)


def _shows_nothing(store: Store, attempt: Attempt) -> bool:
    # It was cut off before its agent began: the next one is told what it was told, and asks the same.
    began = attempt.phase != "workspace" or attempt.outcome not in CUT_OFF
    return not began and not any(_answers_about_deaths(store, attempt))


def _ending_text(attempt: Attempt, limit: int) -> str:
    how = OUTCOMES[attempt.outcome] if attempt.outcome else "it has no outcome"
    why = f": {truncate_text(attempt.error, limit)}" if attempt.error else ""
    return f"Attempt {attempt.number} ended: {how}{why}"


def _answers_about_deaths(store: Store, attempt: Attempt) -> Iterator[str]:
    for item in store.inbox.answered(attempt.id):
        if item.answer and is_about_deaths(item):
            yield truncate_text(item.answer, REASON_CHARS)


def _ending_lines(earlier: tuple[Attempt, ...]) -> Iterator[str]:
    """Yield why the last attempt ended, and if that says little about the work, why it was refused before."""
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
    # What humans said about earlier changes holds for all later attempts until the action lands.
    landed = [at for at, each in enumerate(earlier) if each.outcome in {"landed", "recorded"}]
    since = earlier[landed[-1] + 1 if landed else 0 : -1]
    for each in [each for each in since if each.outcome == "rejected"][-MAX_REJECTIONS:]:
        yield _ending_text(each, EARLIER_CHARS)


async def _brief_other_approach(context: RunContext, failed: Sequence[Attempt]) -> str:
    # The last failure has occurred before.
    same = [each for each in failed if each.fingerprint == failed[-1].fingerprint]
    numbers = join_limited([str(each.number) for each in same], len(same))
    tried = [await _describe_attempt(context, each) for each in same]
    asked = (
        f"Take a different approach. Attempts {numbers} failed in the same way: what they did does not work, and doing "
        "it once more will not either. Find out why first; then choose another design, another place in the code or "
        "other means, and say in your last message what you do differently."
    )
    return "\n".join([asked, "What was tried:", *tried])


async def _describe_attempt(context: RunContext, attempt: Attempt) -> str:
    head = attempt.head_sha or await refs.resolve(context.git, refs.rescue_ref(attempt.id))
    said = " ".join((attempt.result or "").split())[:TRIED_CHARS]
    words = f' Its agent said: "{said}"' if said else ""
    return f"- attempt {attempt.number} {await _describe_change(context, attempt, head)}.{words}"


async def _describe_change(context: RunContext, attempt: Attempt, head: Commit | None) -> str:
    if head is None or head == attempt.base_sha:
        return "changed nothing"
    if await refs.resolve(context.git, head) is None:
        return "left changes that the repository no longer has"
    paths: Sequence[str] = await commits.changed_paths(context.git, attempt.base_sha, head)
    lines = await changed_line_count(context.git, attempt.base_sha, head)
    return f"changed {join_limited(paths, MAX_TRIED_PATHS)} ({count_of(lines, 'line')})"
