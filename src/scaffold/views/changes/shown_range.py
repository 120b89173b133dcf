"""Which two commits show the change of an action or a run: landed, waiting for approval, a candidate, or pinned."""

from msgspec import Struct

from scaffold.core.errors import GitError, UsageError
from scaffold.core.ids import Commit
from scaffold.core.model import Action, Attempt, Run
from scaffold.git.client.command_line import Git
from scaffold.git.refs import resolve, review_ref
from scaffold.store.database import Store
from scaffold.views.name_lookup import action_if_any
from scaffold.views.store_reader import StoreAccess, find_run


class ShownRange(Struct, frozen=True, kw_only=True):
    """Two commits to compare, both None if nothing has changed."""

    run: Run | None = None
    """The run whose change it is; None for an action."""
    action: Action | None = None
    """The action whose change it is; None for a run."""
    attempt: Attempt | None = None
    """The attempt that made the action's change."""
    base: Commit | None = None
    commit: Commit | None = None
    landed: bool = False
    note: str = ""
    """A remark for the user."""


async def find_range(git: Git, access: StoreAccess, run: Run, target: str | None) -> ShownRange:
    """Return the change of what the user named: an action of the run, another run, or by default the run itself.

    Raises UsageError if it is neither.
    """
    if target is None:
        return await run_range(git, run)
    action = action_if_any(access, run, target)
    if action is not None:
        return await action_range(git, access.store, action)
    try:
        return await run_range(git, find_run(access, target))
    except UsageError as problem:
        what = f"`{target}` is neither an action of run {run.id} nor a run"
        raise UsageError(what, "`scaffold tasks` lists the actions, `scaffold status` names the run.") from problem


async def run_range(git: Git, run: Run) -> ShownRange:
    """Return what has landed on the run's session branch."""
    tip = await resolve(git, run.session_ref)
    if tip is None:
        return ShownRange(
            run=run, note=f"{run.session_branch} does not exist: nothing has landed, or the branch was deleted"
        )
    note = f"nothing has landed on {run.session_branch} yet" if tip == run.base_sha else ""
    return ShownRange(run=run, base=run.base_sha, commit=tip, landed=True, note=note)


async def action_range(git: Git, store: Store, action: Action) -> ShownRange:
    """Return the landed change of an action, or else its candidate or the pinned work of its last attempt.

    Raises GitError if the repository no longer has it.
    """
    # The steps of a compound may share a worktree; the last step has the work of all.
    of = store.attempts
    attempts = of.for_workspace(action.id) if action.kind == "compound" else of.for_action(action.id)
    landed = next((each for each in reversed(attempts) if each.outcome == "landed" and each.head_sha), None)
    if landed is not None and landed.head_sha is not None:
        base = await resolve(git, f"{landed.head_sha}^")
        if base is None:
            raise _missing_commit(landed.head_sha)
        return ShownRange(action=action, attempt=landed, base=base, commit=landed.head_sha, landed=True)
    kept = next((each for each in reversed(attempts) if each.head_sha), None)
    if kept is None or kept.head_sha is None:
        children = [child.key for child in store.actions.children(action.id)]
        compound = f"is a compound: see its children {', '.join(children)}"
        return ShownRange(action=action, note=f"`{action.key}` {compound if children else 'has changed nothing yet'}")
    if await resolve(git, kept.head_sha) is None:
        raise _missing_commit(kept.head_sha)
    # A human approves the merge with what has landed, not the attempt's own commit.
    if (shown := await resolve(git, review_ref(kept.id))) and (base := await resolve(git, f"{shown}^")):
        note = f"`{action.key}` has not landed; this is what would land of attempt {kept.number} once you approve it"
        return ShownRange(action=action, attempt=kept, base=base, commit=shown, note=note)
    what = "is a candidate" if kept.phase in {"candidate", "landing"} and kept.status != "ended" else "was pinned"
    note = f"`{action.key}` has not landed; this {what} in attempt {kept.number}"
    return ShownRange(action=action, attempt=kept, base=kept.base_sha, commit=kept.head_sha, note=note)


def _missing_commit(commit: Commit) -> GitError:
    return GitError(
        f"commit {commit[:12]} is no longer in this repository", "It may have been pruned; its changes cannot be shown."
    )
