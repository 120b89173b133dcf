"""Take the work of a run to its base branch: what would move, the commits made for it, and the move itself.

The proven tree is the tree that is taken: a squashed or signed commit has the tree of the commit that it replaces. Only
a selection of actions, or a base branch with other commits, can lead to a tree on which nothing ran.
"""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.errors import GitError, ScaffoldError, UsageError
from scaffold.core.events import NoticeRaised, WorkTaken
from scaffold.core.ids import Commit
from scaffold.core.landing.branch_move import BranchMove, TakenCommit
from scaffold.core.model import Action, Run
from scaffold.core.printable_text import count_of
from scaffold.core.run_settings import RunIdentity
from scaffold.core.states import Completed
from scaffold.git import refs
from scaffold.git.commits import changed_paths, is_ancestor, is_contained, tree_of
from scaffold.git.trees.merge import Conflicted
from scaffold.host.random_ids import new_id
from scaffold.landing.facts.landing_record import session_tip
from scaffold.landing.taking.base_branch import BranchPlace, advance, find_branch
from scaffold.landing.taking.proven_trees import doubt_of
from scaffold.landing.taking.remake import CommitStyle, CommitText, Remaker, apply_work, remake, squash_message
from scaffold.run.attempts.assignment import inherited_preconditions
from scaffold.run.context import RunContext
from scaffold.views.changes.session_commits import SessionCommit, commits_between, needed_for, paths_by_commit

LandHow = Literal["ff", "squash", "pr"]
"""Fast-forward the base branch | one commit on it | push the session branch and open a pull request."""
TAKING = frozenset({"ff", "squash"})
"""The purposes of moves that bring the work to the base branch."""


class LandWish(Struct, frozen=True, kw_only=True):
    """How the user wants to take work."""

    how: LandHow
    only: Action | None = None
    """The action to take, with what it needs; None for everything."""
    style: CommitStyle = CommitStyle()
    message: str
    """The template of the message of a squashed commit."""


class TakenWork(Struct, frozen=True, kw_only=True):
    """What would be taken, and where to."""

    how: LandHow
    only: Action | None
    branch: str
    """The base branch."""
    old: Commit
    """Its tip."""
    new: Commit
    """The commit with the work; `old` if that has all of it."""
    head: Commit
    """The session branch's tip."""
    commits: tuple[TakenCommit, ...]
    reasons: Mapping[Commit, str]
    """Why each commit of the session branch is taken along with `only`."""
    again: str
    """The command that takes it."""
    is_unsigned: bool = False
    """Whether its commits will be made again with signatures, so that their ids must not be shown to the user."""
    doubt: str
    """Why the run's evidence is not about exactly the tree of `new`; empty if it is."""

    @property
    def is_proven(self) -> bool:
        """Return whether the run's evidence is about exactly the tree that is taken."""
        return not self.doubt

    @property
    def is_taken(self) -> bool:
        """Return whether the branch already has the work."""
        return not self.commits


async def prepare(context: RunContext, run: Run, wish: LandWish) -> TakenWork:
    """Return what a wish would do. Makes the commits that it needs, unsigned; no ref points to them.

    Raises UsageError if there is nothing to take, GitError if the base branch has other commits that conflict with the
    work.
    """
    work = await _prepare_work(context, run, replace(wish, style=replace(wish.style, sign=False)))
    return replace(work, is_unsigned=wish.style.sign)


async def sign_work(context: RunContext, run: Run, wish: LandWish, work: TakenWork) -> TakenWork:
    """Return prepared work with its commits signed if the user's git signs; the last step before they are taken.

    Raises GitError if a commit cannot be signed, or if a branch has moved since.
    """
    if not wish.style.sign or work.is_taken:
        return work
    signed = await _prepare_work(context, run, wish)
    if (signed.old, signed.head) != (work.old, work.head):
        raise GitError(f"another process has just moved {work.branch}", "Nothing was changed. Try again.")
    # The trees are the same, so the evidence is, too.
    return replace(signed, doubt=work.doubt)


async def _prepare_work(context: RunContext, run: Run, wish: LandWish) -> TakenWork:
    branch, old = await base_of(context, run)
    head = await session_tip(context, run)
    left = await _commits_left(context, run, wish.how, branch, old=old, head=head)
    reasons = await _select_commits(context, run, wish.only, left) if wish.only else {}
    chosen = [each for each in left if wish.only is None or each.commit in reasons]
    taken, new = await _make_commits(context, run, wish, chosen, old=old, head=head) if chosen else ({}, old)
    return TakenWork(
        how=wish.how,
        only=wish.only,
        branch=branch,
        old=old,
        new=new,
        head=head,
        commits=tuple(
            TakenCommit(old=each.commit, new=taken[each.commit], action=each.action, subject=each.subject)
            for each in chosen
            if each.commit in taken
        ),
        reasons=reasons,
        again=f"scaffold land {run.id} --{wish.how}" + (f" --only {quote(wish.only.key)}" if wish.only else ""),
        doubt=await doubt_of(context, run, new, head=head),
    )


async def base_of(context: RunContext, run: Run) -> tuple[str, Commit]:
    """Return the run's base branch and its tip; raises UsageError if there is none."""
    branch = run.base_branch
    if branch is None:
        raise UsageError(
            f"run {run.id} started from a detached HEAD, so there is no branch to take its work to",
            f"Take it where you want it: `git merge --ff-only {run.session_branch}`.",
        )
    tip = await refs.resolve(context.git, f"refs/heads/{branch}")
    if tip is None:
        raise UsageError(
            f"the branch {branch}, from which run {run.id} started, no longer exists",
            f"Restore it with `git branch {quote(branch)} {run.base_sha[:12]}`, or use {run.session_branch} as it is.",
        )
    return branch, tip


async def _commits_left(
    context: RunContext, run: Run, how: LandHow, branch: str, *, old: Commit, head: Commit
) -> tuple[SessionCommit, ...]:
    """Return the commits of the session branch that the base branch does not have in any form.

    For a pull request, whose branch is pushed as a whole, also those that it has as other commits, unless it has all.
    """
    git, store = context.git, context.store
    if head == run.base_sha and not any(each.outcome == "landed" for each in store.attempts.for_run(run.id)):
        raise UsageError(
            f"nothing has landed on {run.session_branch}, so there is nothing to take",
            f"`scaffold status {run.id}` shows how far the run is.",
        )
    left = await commits_between(git, store, run, old=old, new=head)
    if not left or await is_ancestor(git, old, head):
        return left
    # If the base branch has the tree of one of our commits, that was taken in another form, e.g. squashed by a server.
    tree = await tree_of(git, old)
    since = next((at for at in range(len(left), 0, -1) if left[at - 1].tree == tree), 0)
    if how == "pr":
        return left if left[since:] else ()
    had = {
        commit.old
        for move in store.branch_moves.done_of_run(run.id)
        if move.purpose in TAKING and move.branch == branch and await is_contained(git, move.new, old)
        for commit in move.commits
    }
    return tuple(each for each in left[since:] if each.commit not in had)


async def _select_commits(
    context: RunContext, run: Run, only: Action, left: Sequence[SessionCommit]
) -> Mapping[Commit, str]:
    """Return {commit of the action or of one that it needs: reason}; raises UsageError if it has not landed."""
    attempts = context.store.attempts.for_action(only.id)
    # A reverted action has a landed attempt, too, but is open again.
    if not isinstance(only.state, Completed) or not any(each.outcome == "landed" for each in attempts):
        raise UsageError(
            f"`{only.key}` has not landed, so it cannot be taken",
            f"`scaffold status {run.id}` shows what has; a compound is taken by its children.",
        )
    paths = await paths_by_commit(context.git, run, left)
    actions = context.store.actions.for_run(run.id)
    builds_on = {action.id: inherited_preconditions(context.store, action) for action in actions}
    return needed_for(only.key, left, paths, builds_on, actions)


async def _make_commits(
    context: RunContext, run: Run, wish: LandWish, chosen: Sequence[SessionCommit], *, old: Commit, head: Commit
) -> tuple[Mapping[Commit, Commit], Commit]:
    """Return {commit: the one taken in its place}, and the commit that contains all of them."""
    whole = wish.only is None
    if whole and (wish.how == "pr" or await is_ancestor(context.git, old, head)):
        if wish.how == "squash":
            return await _squash_commits(context, run, wish, chosen, tree=chosen[-1].tree, onto=old)
        if not wish.style.changes_commits:
            return {each.commit: each.commit for each in chosen}, head
        made = await _create_remaker(context, run, wish.style).remake_all(chosen)
        return made, made[head]
    # Squashed commits are thrown away, so only the result is signed, and a passphrase is asked for once.
    style = CommitStyle() if wish.how == "squash" else wish.style
    made, tree = await _pick_commits(context, run, chosen, onto=old, style=style, whole=whole)
    if whole and tree != await tree_of(context.git, head):
        raise await _base_moved(context, run, old)
    left = [each for each in chosen if each.commit in made]
    if not left:
        return {}, old
    if wish.how == "squash":
        return await _squash_commits(context, run, wish, left, tree=tree, onto=old)
    return made, made[left[-1].commit]


def _create_remaker(context: RunContext, run: Run, style: CommitStyle) -> Remaker:
    earlier = {
        commit.old: commit.new
        for move in context.store.branch_moves.for_run(run.id)
        if move.purpose in {"ff", "pr"}
        for commit in move.commits
        if commit.old != commit.new
    }
    return Remaker(context=context, style=style, earlier=earlier)


async def _squash_commits(
    context: RunContext, run: Run, wish: LandWish, chosen: Sequence[SessionCommit], *, tree: str, onto: Commit
) -> tuple[Mapping[Commit, Commit], Commit]:
    identity: RunIdentity = run.settings.identity
    message = squash_message(run, context.store.goals.for_run(run.id), chosen, wish.message, only=wish.only)
    text = CommitText(author=identity.author, authored_at="", committer=identity.committer, message=message)
    new = await remake(context, tree, text, parents=[onto], style=wish.style)
    return {each.commit: new for each in chosen}, new


async def _pick_commits(
    context: RunContext, run: Run, chosen: Sequence[SessionCommit], *, onto: Commit, style: CommitStyle, whole: bool
) -> tuple[dict[Commit, Commit], str]:
    """Apply commits one by one to `onto`; return {commit: the one made of it}, and the last tree."""
    made: dict[Commit, Commit] = {}
    remaker = _create_remaker(context, run, style)
    start, tree = onto, str(await tree_of(context.git, onto))
    for each in chosen:
        if len(each.parents) != 1:
            raise await _base_moved(context, run, start)
        if each.parents == (onto,) and not style.changes_commits:
            onto, tree = each.commit, each.tree
        else:
            trees = {
                onto: tree,
                each.commit: each.tree,
                each.parents[0]: str(await tree_of(context.git, each.parents[0])),
            }
            applied = await apply_work(context, run, old=each.parents[0], new=each.commit, onto=onto, trees=trees)
            if isinstance(applied, Conflicted):
                raise await (
                    _base_moved(context, run, start) if whole else _does_not_apply(context, run, each, applied, start)
                )
            # A change that is already there leaves no commit, and is not listed.
            if applied == tree:
                continue
            onto, tree = await remaker.remake(each, applied, [onto]), applied
        made[each.commit] = onto
    return made, tree


async def _base_moved(context: RunContext, run: Run, tip: Commit) -> ScaffoldError:
    theirs = (await context.git("rev-list", "--count", tip, f"^{run.session_branch}")).line
    return GitError(
        f"{run.base_branch} has moved on: {count_of(int(theirs), 'commit')} there "
        f"{'is' if theirs == '1' else 'are'} not on {run.session_branch}, and nothing was checked together with them",
        f"Carry the work over and prove it there: `scaffold rebase {run.id}`, then `scaffold resume {run.id}`; "
        f"or open a pull request: `scaffold land {run.id} --pr`. Nothing was changed.",
    )


async def _does_not_apply(
    context: RunContext, run: Run, commit: SessionCommit, conflict: Conflicted, tip: Commit
) -> ScaffoldError:
    moved = await is_ancestor(context.git, tip, Commit(run.session_branch))
    why = "without the rest" if moved else f"because {run.base_branch} has moved on"
    return GitError(
        f"`{commit.action or commit.commit[:8]}` does not apply to {run.base_branch} {why}: "
        f"it conflicts in {', '.join(conflict.paths)}",
        f"Take everything: `scaffold land {run.id}`. Nothing was changed.",
    )


async def place_of(context: RunContext, run: Run, work: TakenWork) -> BranchPlace:
    """Return where the base branch is checked out, and whether it can be moved there."""
    paths = await changed_paths(context.git, work.old, work.new)
    # No ref keeps commits made for this, so git may delete them before the user could merge them by hand.
    to = run.session_branch if work.new == work.head and not work.is_unsigned else None
    return await find_branch(context.repository, work.branch, to, paths, again=work.again)


async def require_place(context: RunContext, run: Run, work: TakenWork) -> BranchPlace:
    """Return where the base branch is checked out; raises GitError if it cannot be moved there."""
    place = await place_of(context, run, work)
    if place.obstacle:
        raise GitError(place.obstacle, place.fix)
    return place


async def take(context: RunContext, run: Run, work: TakenWork) -> None:
    """Move the base branch to the work; raises GitError, and changes nothing, if that is not possible.

    The intended move is stored first, so that `settle_moves` can find out after a crash whether it happened.
    """
    place = await require_place(context, run, work)
    move = begin_move(context, run, work, branch=work.branch)
    try:
        await advance(context.repository, place, work.branch, old=work.old, new=work.new)
    except GitError:
        await settle_moves(context, run)
        raise
    finish_move(context, move)


def begin_move(context: RunContext, run: Run, work: TakenWork, *, branch: str) -> BranchMove:
    """Store the intended move or push, and return it."""
    move = BranchMove(
        id=new_id(12),
        run_id=run.id,
        purpose=work.how,
        branch=branch,
        head=work.head,
        old=work.old if work.how != "pr" else None,
        new=work.new,
        action_id=work.only.id if work.only else None,
        commits=work.commits,
        created_at=context.clock.now(),
    )
    with context.store.transaction(durable=True):
        context.store.branch_moves.add(move)
    return move


def finish_move(context: RunContext, move: BranchMove, *, url: str = "") -> None:
    """Store that the work was taken, with its event."""
    with context.store.transaction(durable=True):
        context.store.branch_moves.settle(move.id, done=True, url=url)
        context.store.events.append(move.run_id, WorkTaken(move.purpose, move.branch, move.new, url))


def warn_of(context: RunContext, run: Run, text: str) -> None:
    """Store a warning that work of the run was not taken as its user wanted."""
    with context.store.transaction(durable=True):
        context.store.events.append(run.id, NoticeRaised("warning", context.redactor.clean(text)))


async def settle_moves(context: RunContext, run: Run) -> None:
    """Settle the moves whose process died: the base branch shows whether they happened. A push is repeated instead."""
    for move in context.store.branch_moves.open_of_run(run.id):
        if not move.takes_work:
            raise GitError(
                f"a `scaffold {move.purpose}` of run {run.id} was interrupted",
                "Repeat it first: it finds out what was done, and finishes it.",
            )
        tip = await refs.resolve(context.git, f"refs/heads/{move.branch}") if move.purpose in TAKING else None
        if tip is not None and await is_contained(context.git, move.new, tip):
            finish_move(context, move)
        else:
            with context.store.transaction(durable=True):
                context.store.branch_moves.settle(move.id, done=False)
