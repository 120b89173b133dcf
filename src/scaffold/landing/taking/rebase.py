"""Carry the work of a run over to its base branch's new tip, in memory; all of it must be proven again.

Only landed commits are made again. Unlanded work keeps its commit and its base: the merge queue and the next attempts
apply what it changed since that base.
"""

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import ActionKey, Assertion, AttemptId, Commit, GoalId
from scaffold.core.landing.branch_move import BranchMove, TakenCommit
from scaffold.core.model import Action, Run
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.states import Active, Completed
from scaffold.git import refs
from scaffold.git.commits import is_ancestor, is_contained, tree_of
from scaffold.git.repository import complete_commit
from scaffold.git.trees.merge import Conflicted, Merged, merge_commits, on_base
from scaffold.host.random_ids import new_id
from scaffold.landing.facts.landing_record import LandedAttempt, record_attempt, session_tip
from scaffold.landing.facts.stale_facts import ProvenFacts, all_facts, dependent_facts, mark_stale, undo_action
from scaffold.landing.integration import commit_subject
from scaffold.landing.taking.land import base_of
from scaffold.landing.taking.open_work import OpenWork
from scaffold.landing.taking.remake import CommitStyle, Remaker, apply_work
from scaffold.landing.taking.revert import require_not_checked_out
from scaffold.run.attempts.assignment import inherited_preconditions
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, record_attempt_end
from scaffold.run.learning.landed_memories import doubt_memories
from scaffold.run.task_list import own_changed_paths
from scaffold.store.database import Store
from scaffold.views.changes.session_commits import SessionCommit, commits_between

MAX_NAMES = 8


class Rebased(Struct, frozen=True, kw_only=True):
    """A session branch that was carried over."""

    base: Commit
    """The new base commit of the run."""
    former: Commit
    """The branch's tip before; a ref keeps it."""
    commit: Commit
    """Its tip now."""
    carried: tuple[TakenCommit, ...]
    in_base: tuple[TakenCommit, ...]
    """Commits whose change is already in the new base, so that none takes their place."""
    open_again: tuple[ActionKey, ...]
    """The actions whose changes conflict with the new base; they are done again."""
    withdrawn: Mapping[ActionKey, str]
    """{action whose candidate was taken out of the merge queue: reason}; it is done again."""
    open_work: tuple[OpenWork, ...] = ()
    """The unlanded work, and whether it fits."""


async def plan_rebase(context: RunContext, run: Run) -> BranchMove | None:
    """Return the move that carries the session branch over; None if the base branch has not moved.

    Commits of actions that conflict are left out. Raises GitError if the session branch is checked out, or has a merge
    commit or a conflicting commit that no action landed.
    """
    branch, base = await base_of(context, run)
    tip = await session_tip(context, run)
    if await is_ancestor(context.git, base, tip):
        return None
    await require_not_checked_out(context, run, f"scaffold rebase {run.id}")
    await complete_commit(context.repository, base)
    commits = await commits_between(context.git, context.store, run, old=base, new=tip)
    onto, base_tree = base, str(await tree_of(context.git, base))
    tree = base_tree
    remaker = Remaker(context=context, style=CommitStyle(), earlier={})
    carried: list[TakenCommit] = []
    for each in commits:
        applied = await _apply_commit(context, run, each, onto=onto, tree=tree)
        if isinstance(applied, Conflicted):
            if each.action is None:
                raise _by_hand(run, branch, each, applied.paths)
            continue
        if applied != tree:
            new = onto = await remaker.remake(each, applied, [onto])
            tree = applied
        elif onto == base or await _apply_commit(context, run, each, onto=base, tree=base_tree) == base_tree:
            new = base  # the base already has the change, and stands for the commit in the stored move
        else:
            continue  # the change is part of other work, not of the base
        carried.append(TakenCommit(old=each.commit, new=new, action=each.action, subject=each.subject))
    return BranchMove(
        id=new_id(12),
        run_id=run.id,
        purpose="rebase",
        branch=run.session_branch,
        head=base,
        old=tip,
        new=onto,
        commits=tuple(carried),
        created_at=context.clock.now(),
    )


async def _apply_commit(
    context: RunContext, run: Run, commit: SessionCommit, *, onto: Commit, tree: str
) -> str | Conflicted:
    if len(commit.parents) != 1:
        return Conflicted(paths=("several parents",))
    (parent,) = commit.parents
    trees = {onto: tree, commit.commit: commit.tree, parent: str(await tree_of(context.git, parent))}
    return await apply_work(context, run, old=parent, new=commit.commit, onto=onto, trees=trees)


def _by_hand(run: Run, branch: str, commit: SessionCommit, paths: Sequence[str]) -> GitError:
    return GitError(
        f"{commit.commit[:8]} ({commit.subject}), which no action landed, does not apply to {branch}: "
        f"{', '.join(paths)}",
        f"Merge by hand: `git switch {run.session_branch} && git merge {quote(branch)}`. Nothing was changed.",
    )


async def keep_former(context: RunContext, run: Run, move: BranchMove) -> None:
    """Pin the branch as it is, and the work that is left out, before it moves, so that nothing is ever lost."""
    for attempt_id in await lost_landings(context, run, move):
        attempt = context.store.attempts.get(attempt_id)
        if attempt is not None and attempt.head_sha is not None:
            await refs.pin(context.git, refs.rescue_ref(attempt_id), attempt.head_sha)
    if move.old is not None:
        await refs.pin(context.git, f"{refs.REF_PREFIX}keep/{move.branch}-{move.id}", move.old)


async def lost_landings(context: RunContext, run: Run, move: BranchMove) -> tuple[AttemptId, ...]:
    """Return the attempts whose commit was neither carried over nor is part of the new base."""
    carried = {each.old for each in move.commits}
    found: list[AttemptId] = []
    for attempt in context.store.attempts.for_run(run.id):
        head = attempt.head_sha if attempt.outcome == "landed" else None
        if head is not None and head not in carried and not await is_contained(context.git, head, move.new):
            found.append(attempt.id)
    return tuple(found)


async def candidates_in_base(context: RunContext, run: Run, move: BranchMove) -> tuple[LandedAttempt, ...]:
    """Return the candidates whose change the branch already has, so that nothing is left to land."""
    git, found = context.git, list[LandedAttempt]()
    tree = await tree_of(git, move.new)
    for each in context.store.attempts.waiting_to_land(run.id):
        head = each.head_sha
        if head is None or head == each.base_sha or each.kind == "step" or await refs.resolve(git, head) is None:
            continue
        merged = await merge_commits(git, await on_base(git, move.new, each.base_sha), head)
        if isinstance(merged, Merged) and merged.tree == tree:
            changed = await own_changed_paths(git, run.settings.landing.tracked_list, each.base_sha, head)
            found.append(LandedAttempt(attempt_id=each.id, commit=head, changed=changed))
    return tuple(found)


def record_rebased(
    store: Store, run: Run, move: BranchMove, lost: Sequence[AttemptId], there: Sequence[LandedAttempt]
) -> Rebased:
    """Record in the caller's transaction that the branch was carried over: every fact must be proven again.

    The actions of the `lost` attempts are open again, those of the candidates that are already `there` are done, and
    the baseline is captured again at the new base.
    """
    store.branch_moves.settle(move.id, done=True)
    store.runs.rebase(run.id, move.head)
    store.baselines.drop(run.id, results=False)
    shaken = _shaken_by(store, lost)
    sound = [each for each in there if not _needs_of(store, each.attempt_id, shaken)]
    landed = tuple(_record_there(store, run, move, each) for each in sound)
    redone = {attempt.action_id for attempt in map(store.attempts.get, lost) if attempt}
    for group in all_facts(store, run):
        if group.recheck == "nothing" and group.action.id not in redone:
            _carry_facts(store, group, move)
        mark_stale(store, group)
    store.intents.relocate_last(run.id, move.new)
    carried = tuple(each for each in move.commits if each.new != move.head)
    in_base = (*(each for each in move.commits if each.new == move.head), *landed)
    _relocate_attempts(store, run, {each.old: each.new for each in carried} | {each.old: None for each in in_base})
    open_again = tuple(
        _reopen_action(store, attempt, f"conflicts with the new base {move.head[:8]}") for attempt in lost
    )
    withdrawn = dict(_withdraw_candidates(store, run, shaken))
    for goal in store.goals.for_run(run.id):
        if isinstance(goal.state, Completed) and store.goals.unmet(goal.id):
            store.goals.move(goal.id, Active())
    done = Rebased(
        base=move.head,
        former=move.old or move.head,
        commit=move.new,
        carried=carried,
        in_base=in_base,
        open_again=tuple(dict.fromkeys(open_again)),
        withdrawn=withdrawn,
    )
    store.events.append(run.id, NoticeRaised("info", _notice_text(done)))
    return done


def _notice_text(done: Rebased) -> str:
    again, there = (*done.open_again, *done.withdrawn), [name_of(each) for each in done.in_base]
    named = f"; done again: {join_limited(again, MAX_NAMES)}" if again else ""
    also = f"; already there: {join_limited(there, MAX_NAMES)}" if there else ""
    return f"{count_of(len(done.carried), 'commit')} carried over to {done.base[:8]}, to be proven anew{also}{named}"


def name_of(commit: TakenCommit) -> str:
    """Return a commit's name in messages: its action, else its short id."""
    return commit.action or commit.old[:8]


def _carry_facts(store: Store, group: ProvenFacts, move: BranchMove) -> None:
    # Facts that no check can show hold at the commit that has their change now, although nothing ran there yet.
    moved = {each.old: each.new for each in move.commits}
    for fact in [each for each in group.facts if not each.only_orders]:
        store.facts.record(
            fact.goal_id,
            fact.assertion,
            commit=moved.get(fact.commit, move.new),
            paths=fact.paths,
            evidence=fact.evidence,
            doubts=fact.doubts,
            reviewed=fact.reviewed,
        )


def _relocate_attempts(store: Store, run: Run, commits: Mapping[Commit, Commit | None]) -> None:
    for attempt in store.attempts.for_run(run.id):
        if attempt.outcome == "landed" and attempt.head_sha is not None and attempt.head_sha in commits:
            store.attempts.relocate(attempt.id, commits[attempt.head_sha])


def _shaken_by(store: Store, lost: Sequence[AttemptId]) -> frozenset[tuple[GoalId, Assertion]]:
    # The facts of the lost attempts' actions, and those that build on them.
    found: set[tuple[GoalId, Assertion]] = set()
    for attempt_id in lost:
        action = _action_of(store, attempt_id)
        found.update((action.goal_id, effect) for effect in action.effects)
        found.update((fact.goal_id, fact.assertion) for each in dependent_facts(store, action) for fact in each.facts)
    return frozenset(found)


def _withdraw_candidates(
    store: Store, run: Run, shaken: frozenset[tuple[GoalId, Assertion]]
) -> Iterator[tuple[ActionKey, str]]:
    """End the candidates that cannot be proven on the new base; yield their actions, each with the reason."""
    for candidate in store.attempts.waiting_to_land(run.id):
        action = _action_of(store, candidate.id)
        needs = _needs_of(store, candidate.id, shaken)
        if needs:
            why = f"builds on work that is done again: {join_limited(needs, MAX_NAMES)}"
        # A review, or a tester that changed nothing.
        elif candidate.kind != "step" and candidate.head_sha == candidate.base_sha:
            why = "has no change of its own, and what it says is about the former base"
        else:
            continue
        record_attempt_end(store, run, candidate.id, AttemptEnd("conflict", why), head=candidate.head_sha)
        yield action.key, why


def _record_there(store: Store, run: Run, move: BranchMove, landing: LandedAttempt) -> TakenCommit:
    action = _action_of(store, landing.attempt_id)
    record_attempt(store, run, landing, move.new, move.created_at)
    return TakenCommit(old=landing.commit, new=move.head, action=action.key, subject=commit_subject(action))


def _needs_of(
    store: Store, attempt_id: AttemptId, shaken: frozenset[tuple[GoalId, Assertion]]
) -> tuple[Assertion, ...]:
    action = _action_of(store, attempt_id)
    return tuple(each for each in inherited_preconditions(store, action) if (action.goal_id, each) in shaken)


def _action_of(store: Store, attempt_id: AttemptId) -> Action:
    attempt = store.attempts.get(attempt_id)
    action = store.actions.get(attempt.action_id) if attempt else None
    if action is None:
        raise LookupError(attempt_id)
    return action


def _reopen_action(store: Store, attempt_id: AttemptId, why: str) -> ActionKey:
    action = _action_of(store, attempt_id)
    store.attempts.mark_conflict(attempt_id, why)
    doubt_memories(store, [attempt_id])
    undo_action(store, action)
    return action.key
