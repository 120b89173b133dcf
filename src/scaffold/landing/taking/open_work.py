"""Work of a run that has not landed, and whether it fits another base."""

from typing import Literal

from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey, Commit
from scaffold.core.model import Attempt, Run
from scaffold.core.states import Cancelled, Completed, Skipped
from scaffold.git import refs
from scaffold.git.trees.merge import Conflicted, merge_commits, on_base
from scaffold.run.context import RunContext

OpenKind = Literal["candidate", "continued", "pinned", "step"]
"""Waits to land | waited for a human, and its turn continues | ended otherwise, and the next prompt reports it |
a finished step, from whose commit the next step of its compound continues."""


class OpenWork(Struct, frozen=True, kw_only=True):
    """The unlanded work of an action's last attempt."""

    action: ActionKey
    attempt: int
    """The attempt's number."""
    kind: OpenKind
    base: Commit
    """The commit on which it was made."""
    commit: Commit
    conflicts: tuple[str, ...] = ()
    """The paths in which it does not fit the tip, as plain git merges them."""


async def open_work(context: RunContext, run: Run, tip: Commit) -> tuple[OpenWork, ...]:
    """Return the work that has not landed, in plan order, with its conflicts with `tip`."""
    found: list[OpenWork] = []
    for action in context.store.actions.for_run(run.id):
        attempts = context.store.attempts.for_action(action.id)
        if not attempts or isinstance(action.state, Cancelled | Skipped):
            continue
        last = attempts[-1]
        head = await _work_of(context, last, whole=action.parent_id)
        if head is not None:
            found.append(
                OpenWork(
                    action=action.key,
                    attempt=last.number,
                    kind=_work_kind(context, last),
                    base=last.base_sha,
                    commit=head,
                    conflicts=await conflicting_paths(context, last, head, tip),
                )
            )
    return tuple(found)


def _is_last_step(context: RunContext, attempt: Attempt, whole: ActionId) -> bool:
    compound = context.store.actions.get(whole)
    if compound is None or isinstance(compound.state, Completed):
        return False
    recorded = context.store.attempts.recorded_in_workspace(attempt.workspace)
    return [each.id for each in recorded[-1:]] == [attempt.id]


def _work_kind(context: RunContext, attempt: Attempt) -> OpenKind:
    if attempt.kind == "step" and attempt.outcome == "recorded":
        return "step"
    if attempt.status != "ended":
        return "candidate"
    return "continued" if context.store.kept_turns.is_kept(attempt.id) else "pinned"


async def _work_of(context: RunContext, attempt: Attempt, *, whole: ActionId | None) -> Commit | None:
    """Return the commit of its work; None if it changed nothing, has landed, or git has deleted it since."""
    # Of the steps of the compound `whole`, only the last counts: its commit contains those of the others.
    if attempt.outcome == "landed" or (attempt.outcome == "recorded" and attempt.kind != "step"):
        return None
    if attempt.outcome == "recorded" and not (whole and _is_last_step(context, attempt, whole)):
        return None
    # An owner killed between pinning the work and ending the attempt leaves the ref, but no commit in the row.
    head = attempt.head_sha or await refs.resolve(context.git, refs.rescue_ref(attempt.id))
    there = head is not None and head != attempt.base_sha and await refs.resolve(context.git, head) is not None
    return head if there else None


async def conflicting_paths(context: RunContext, attempt: Attempt, head: Commit, tip: Commit) -> tuple[str, ...]:
    """Return the paths in which the attempt's commit conflicts with `tip`, as plain git merges them."""
    merged = await merge_commits(context.git, await on_base(context.git, tip, attempt.base_sha), head)
    return merged.paths if isinstance(merged, Conflicted) else ()
