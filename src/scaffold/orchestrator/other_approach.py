"""The briefing of an attempt that is to take another approach: what was tried, and failed in the same way."""

from collections.abc import Sequence

from scaffold.core.ids import Commit
from scaffold.core.model import Action, Attempt
from scaffold.core.printable_text import count_of, join_limited
from scaffold.git import commits, refs
from scaffold.run.context import RunContext
from scaffold.run.failures.ladder import counted_failures
from scaffold.store.database import Store

MAX_PATHS = 12
TRIED_CHARS = 500
"""Limit for what the agent of an earlier attempt said it had done."""


def takes_other_approach(store: Store, action: Action) -> bool:
    """Return whether the next attempt at the action is to take another approach, as its last failure recurred."""
    failed = counted_failures(store, action)
    return bool(failed) and failed[-1].escalation == "alternative"


async def other_approach_briefing(context: RunContext, action: Action) -> str:
    """Return what the attempts changed that failed as the last one did, and that this is not to be done again."""
    failed = counted_failures(context.store, action)
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
    """Return which files an attempt changed, and by how much."""
    if head is None or head == attempt.base_sha:
        return "changed nothing"
    if await refs.resolve(context.git, head) is None:
        return "left changes that the repository no longer has"
    paths: Sequence[str] = await commits.changed_paths(context.git, attempt.base_sha, head)
    lines = await commits.changed_line_count(context.git, attempt.base_sha, head)
    return f"changed {join_limited(paths, MAX_PATHS)} ({count_of(lines, 'line')})"
