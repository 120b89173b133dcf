"""Undo the commit of an action on the session branch, in memory; refute its facts, and mark dependent ones stale."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.errors import GitError, ScaffoldError, UsageError
from scaffold.core.events import ActionReverted
from scaffold.core.ids import ActionKey, Commit
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.model import Action, Run
from scaffold.core.states import Completed, status_of
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.git.commits import is_ancestor, is_contained, tree_of
from scaffold.git.trees.merge import Conflicted
from scaffold.host.random_ids import new_id
from scaffold.landing.facts.landing_record import session_ref, session_tip
from scaffold.landing.facts.stale_facts import ProvenFacts, affected_facts, dependent_facts, mark_stale, undo_action
from scaffold.landing.integration import integration_of
from scaffold.landing.taking.remake import CommitStyle, CommitText, apply_work, read_text, remake
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.learning.landed_memories import doubt_memories
from scaffold.run.task_list import own_changed_paths
from scaffold.store.database import Store
from scaffold.views.changes.session_commits import commits_between, paths_by_commit


class Reverted(Struct, frozen=True, kw_only=True):
    """An action whose commit was undone."""

    action: Action
    undone: Commit
    commit: Commit
    """The commit that undoes it."""
    stale: tuple[ProvenFacts, ...]
    """The facts that will be checked again."""


async def plan_revert(context: RunContext, run: Run, action: Action) -> BranchMove:
    """Return the move of the session branch that undoes the action's commit; makes the commit, but no ref to it.

    Raises UsageError if the action has no landed commit, GitError if the branch is checked out or later commits changed
    the same lines.
    """
    undone = _landed_commit(context.store, run, action)
    tip = await session_tip(context, run)
    if not await is_ancestor(context.git, undone, tip):
        raise GitError(
            f"{run.session_branch} no longer contains {undone[:8]}, which `{action.key}` landed",
            f"Restore it with `git branch --force {run.session_branch} {undone}`, or leave it reverted.",
        )
    await require_not_checked_out(context, run, f"scaffold revert {action.key}")
    parent = Commit(f"{undone}^")
    trees = {name: str(await tree_of(context.git, name)) for name in (tip, undone, parent)}
    merging = integration_of(context, run)
    tree = await apply_work(context, run, old=undone, new=parent, onto=tip, trees=trees, integration=merging)
    if isinstance(tree, Conflicted):
        raise await _conflict_error(context, run, action, undone=undone, tip=tip, paths=tree.paths)
    if tree == trees[tip]:
        raise GitError(
            f"nothing of `{action.key}` is left on {run.session_branch}: its change was undone before",
            f"`scaffold resume {run.id}` checks its facts again.",
        )
    return BranchMove(
        id=new_id(12),
        run_id=run.id,
        purpose="revert",
        branch=run.session_branch,
        head=undone,
        old=tip,
        new=await _undoing_commit(context, run, action, undone=undone, tip=tip, tree=tree),
        action_id=action.id,
        created_at=context.clock.now(),
    )


async def require_not_checked_out(context: RunContext, run: Run, command: str) -> None:
    """Raise GitError if the session branch is checked out in a worktree; `command` is what to repeat."""
    for each in await worktree.worktrees_on_branch(context.repository, run.session_branch):
        if not (each.locked or each.path.exists()):
            continue
        if each.branch != run.session_branch:
            raise GitError(
                f"a rebase or bisect of {run.session_branch} is unfinished in {each.path}",
                f"Finish or abort it, then repeat `{command}`.",
            )
        raise GitError(
            f"{run.session_branch} is checked out in {each.path}, and a branch is never moved under its user",
            f"Switch to another branch there, then repeat `{command}`.",
        )


def _landed_commit(store: Store, run: Run, action: Action) -> Commit:
    landed = [each.head_sha for each in store.attempts.for_action(action.id) if each.outcome == "landed"]
    if action.kind == "compound":
        children = ", ".join(child.key for child in store.actions.children(action.id))
        raise UsageError(f"`{action.key}` is a compound and has no commit", f"Revert its children: {children}.")
    if not landed or not isinstance(action.state, Completed):
        what = f"`{action.key}` is {status_of(action.state)}, so there is no commit of it to revert"
        raise UsageError(what, "`scaffold tasks` shows what has landed.")
    if landed[-1] is None:
        raise UsageError(
            f"`{action.key}` has no commit of its own: its change is in the base {run.base_sha[:8]} already",
            f"Undo it on {run.base_branch} with git. Nothing was changed.",
        )
    return landed[-1]


async def _undoing_commit(
    context: RunContext, run: Run, action: Action, *, undone: Commit, tip: Commit, tree: str
) -> Commit:
    subject = (await read_text(context, undone)).message.partition("\n")[0]
    message = (
        f'Revert "{subject}"\n\nThis reverts commit {undone}.\n\n'
        f"Scaffold-Run: {run.id}\nScaffold-Reverts: {action.key}\n"
    )
    identity = run.settings.identity
    text = CommitText(author=identity.author, authored_at="", committer=identity.committer, message=message)
    return await remake(context, tree, text, parents=[tip], style=CommitStyle())


async def _conflict_error(
    context: RunContext, run: Run, action: Action, *, undone: Commit, tip: Commit, paths: Sequence[str]
) -> ScaffoldError:
    later = await commits_between(context.git, context.store, run, old=undone, new=tip)
    changed = await paths_by_commit(context.git, run, later)
    touching = [each for each in reversed(later) if changed[each.commit] & {*paths}]
    first: list[ActionKey] = [each.action for each in touching if each.action and each.action != action.key]
    named = ", ".join(f"{each.action or each.commit[:8]}" for each in touching) or "later commits"
    commands = ", then ".join(f"`scaffold revert {key}`" for key in dict.fromkeys(first))
    return GitError(
        f"`{action.key}` cannot be reverted alone: {named} changed the same lines of {', '.join(paths)}",
        f"Revert these first: {commands}. Nothing was changed." if commands else "Nothing was changed.",
    )


async def move_session_branch(context: RunContext, run: Run, move: BranchMove) -> None:
    """Store the move, then move the session branch; raises GitError, and changes nothing, if others moved it."""
    with owner_transaction(context.store, run, durable=True):
        context.store.branch_moves.add(move)
    if await refs.move(context.git, session_ref(run), new=move.new, old=move.old, known=move.old):
        return
    with owner_transaction(context.store, run):
        context.store.branch_moves.settle(move.id, done=False)
    raise GitError(f"another process has just moved {run.session_branch}", "Nothing was changed. Try again.")


async def find_interrupted(context: RunContext, run: Run) -> tuple[BranchMove, ...]:
    """Return the reverts and rebases that moved the branch but were not recorded; close those that did not move it."""
    found: list[BranchMove] = []
    for move in context.store.branch_moves.open_of_run(run.id):
        if move.takes_work:
            continue
        tip = await refs.resolve(context.git, session_ref(run))
        if tip is not None and await is_contained(context.git, move.new, tip):
            found.append(move)
        else:
            with owner_transaction(context.store, run):
                context.store.branch_moves.settle(move.id, done=False)
    return tuple(found)


async def changed_by(context: RunContext, run: Run, move: BranchMove) -> tuple[str, ...]:
    """Return the paths that a move changed, except a list of tasks in which only marks changed."""
    return await own_changed_paths(context.git, run.settings.landing.tracked_list, Commit(f"{move.new}^"), move.new)


def record_reverted(store: Store, run: Run, move: BranchMove, changed: Sequence[str]) -> Reverted:
    """Record in the caller's transaction that the branch has the undoing commit: the action is open again.

    Its facts are refuted. Facts that build on them, or depend on a changed path, become stale; they are rechecked once
    those that they build on hold.
    """
    action = store.actions.get(move.action_id) if move.action_id else None
    if action is None:
        raise LookupError(move.id)
    store.branch_moves.settle(move.id, done=True)
    store.events.append(run.id, ActionReverted(action.key, move.new))
    groups = {each.action.id: each for each in affected_facts(store, run, changed, besides=(action.id,))}
    groups |= {each.action.id: each for each in dependent_facts(store, action)}
    undo_action(store, action)
    doubt_memories(store, (each.id for each in store.attempts.for_action(action.id)))
    stale = tuple(each for each in groups.values() if each.recheck != "nothing")
    for group in stale:
        mark_stale(store, group)
    return Reverted(action=action, undone=move.head, commit=move.new, stale=stale)
