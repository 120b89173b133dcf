"""Record landings, each in one transaction, and recover interrupted ones."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.errors import RepositoryError
from scaffold.core.events import ActionLanded, CandidateMerged, NoticeRaised
from scaffold.core.ids import ActionId, AttemptId, Commit
from scaffold.core.landing.branch_move import Intent
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.printable_text import utf8_safe
from scaffold.core.proof.contract import Verification
from scaffold.core.proof.gates import GateResult
from scaffold.core.states import Completed
from scaffold.git import commits, refs
from scaffold.landing.facts.effect_evidence import approvals_of, evidence_of
from scaffold.landing.facts.stale_facts import (
    RecheckResult,
    affected_facts,
    all_facts,
    mark_stale,
    ran_where_it_holds,
    record_recheck,
    shown_before,
)
from scaffold.run.attempts.assignment import inherited_preconditions
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, record_attempt_end, require_attempt
from scaffold.run.learning.landed_memories import confirm_memories
from scaffold.run.task_list import own_changed_paths
from scaffold.store.database import Store
from scaffold.verify.contract.review_verdict import is_audit, reviews

IntentResolution = Literal["recorded", "redone", "lost"]


def session_ref(run: Run) -> str:
    """Return the full ref name of the run's session branch."""
    return run.session_ref


async def session_tip(context: RunContext, run: Run) -> Commit:
    """Return the session branch's commit; RepositoryError if the branch was deleted."""
    tip = await refs.resolve(context.git, session_ref(run))
    if tip is None:
        last = last_landed(context.store, run)
        if last is None:
            raise RepositoryError(
                f"there is no branch {run.session_branch}: nothing has landed in run {run.id}",
                f"`scaffold status {run.id}` shows how far it is; `scaffold resume {run.id}` continues it.",
            )
        raise RepositoryError(
            f"the branch {run.session_branch} no longer exists",
            f"Restore it with `git branch {run.session_branch} {last}`, then run `scaffold resume`.",
        )
    return tip


def last_landed(store: Store, run: Run) -> Commit | None:
    """Return the tip to which the last landing moved the branch; None if nothing has landed."""
    last = store.intents.last_done(run.id)
    return last.new if last else None


async def require_landed_on_branch(context: RunContext, run: Run, landed: Commit, tip: Commit) -> None:
    """Raise RepositoryError if `tip` does not contain `landed`: the branch was rewritten, so facts may be wrong."""
    if not await commits.is_ancestor(context.git, landed, tip):
        raise RepositoryError(
            f"the branch {run.session_branch} no longer contains {landed[:8]}, which landed there",
            f"Restore it with `git branch --force {run.session_branch} {landed}`, then run `scaffold resume`.",
        )


class LandedAttempt(Struct, frozen=True, kw_only=True):
    """One attempt whose commit the branch contains."""

    attempt_id: AttemptId
    commit: Commit
    """The attempt's own commit: the branch's new tip, or an ancestor of it."""
    changed: tuple[str, ...]
    """The paths that this commit changes, except the list in which it marks tasks."""
    unmarked: str = ""
    """Why its task is not marked as done, as the predicate of a sentence about the list; empty if it is marked."""


async def record_recovered_landing(context: RunContext, run: Run, intent: Intent) -> None:
    """Record a landing whose owner died after it moved the branch; changed paths come from the commit itself."""
    listed, parent = run.settings.landing.tracked_list, Commit(f"{intent.commit}^")
    changed = await own_changed_paths(context.git, listed, parent, intent.commit)
    landing = LandedAttempt(attempt_id=intent.attempt_id, commit=intent.commit, changed=changed)
    record_landed(context, run, [landing], head=intent.new)


def record_landed(
    context: RunContext,
    run: Run,
    landings: Sequence[LandedAttempt],
    *,
    head: Commit,
    rechecked: Sequence[RecheckResult] = (),
) -> None:
    """Record that `head` is on the branch: the attempts end, their actions are done, their effects are facts at `head`.

    Facts of other actions that depend on the changed paths are re-proven if listed in `rechecked`; the others become
    stale. Call it once the branch has moved. Safe to repeat until it succeeds.
    """
    store, now = context.store, context.clock.now()
    with owner_transaction(store, run, durable=True):
        actions = [record_attempt(store, run, landing, head, now) for landing in landings]
        for tested in rechecked:
            record_recheck(store, tested, now)
        # The facts in `rechecked` are proven at `head` by now, so only those that were not rechecked become stale.
        changed = {path for landing in landings for path in landing.changed}
        for group in shown_before(head, affected_facts(store, run, changed, besides=actions)):
            mark_stale(store, group)


def record_attempt(store: Store, run: Run, landing: LandedAttempt, head: Commit, now: datetime) -> ActionId:
    """Record one landing of a batch in the caller's transaction and return its action; its facts hold at `head`."""
    attempt = store.attempts.get(landing.attempt_id)
    action = store.actions.get(attempt.action_id) if attempt else None
    if attempt is None or action is None or attempt.verification is None:
        raise LookupError(landing.attempt_id)
    for intent in store.intents.open_of_run(run.id):
        if intent.attempt_id == attempt.id:
            # An earlier try on another tip may have left an open intent of the attempt, which did not land.
            store.intents.settle(intent.id, done=intent.new == head)
    store.attempts.advance(attempt.id, fence=attempt.fence, phase="recorded", head_sha=landing.commit)
    store.attempts.end(attempt.id, outcome="landed")
    confirm_memories(store, attempt.id)
    store.actions.move(action.id, Completed(), result=attempt.result or "")
    if attempt.verification.merged:
        store.events.append(run.id, CandidateMerged(action.key, attempt.verification.merged))
    store.events.append(run.id, ActionLanded(action.key, landing.commit))
    store.scheduling.count_landing(run.id, [utf8_safe(path) for path in landing.changed])
    listed = run.settings.landing.tracked_list
    if landing.unmarked and listed is not None:
        text = f"{action.key} has landed and is not marked as done: {listed.path} {landing.unmarked}"
        store.events.append(run.id, NoticeRaised("warning", utf8_safe(text)))
    approvals = approvals_of(attempt, store.inbox.approved(action.id))
    store.facts.record_all(
        action.goal_id,
        action.effects,
        commit=head,
        paths=[utf8_safe(path) for path in landing.changed],
        evidence=evidence_of(attempt.verification, attempt.id, landing.commit, now, approvals, gates_at=head),
        doubts=attempt.verification.doubts,
        reviewed=attempt.verification.reviewed,
    )
    return action.id


def record_final_gates(context: RunContext, run: Run, gates: Sequence[GateResult], tip: Commit) -> None:
    """Record gates that passed at the branch's tip as evidence of facts that no check can show.

    Only for facts at a commit that was made again since they were proven, so that nothing ran on it.
    """
    if not any(gate.counts_for_work for gate in gates):
        return
    with owner_transaction(context.store, run, durable=True):
        for group in all_facts(context.store, run):
            left = tuple(fact for fact in group.facts if not (fact.only_orders or ran_where_it_holds(fact)))
            if left and group.recheck == "nothing":
                carried = replace(group, facts=left)
                tested = RecheckResult(group=carried, commit=tip, gates=tuple(gates))
                record_recheck(context.store, tested, context.clock.now())


async def record_without_commit(context: RunContext, run: Run, attempt: Attempt, action: Action) -> str | None:
    """Record an approval, or passed checks, without a commit: the action is done, its effects are facts.

    Return None if it is recorded. Otherwise nothing is written, and the text says why the review must be repeated:
    paths it depends on changed, or a precondition no longer holds. No branch moves.
    """
    store, verification = context.store, attempt.verification
    if verification is None:
        raise LookupError(attempt.id)
    paths = _dependency_paths(store, action, verification)
    tip = await session_tip(context, run)
    listed = run.settings.landing.tracked_list
    since = {utf8_safe(path) for path in await own_changed_paths(context.git, listed, attempt.base_sha, tip)}
    evidence = evidence_of(verification, attempt.id, attempt.base_sha, context.clock.now())
    if since & paths:
        return f"changed since it was reviewed: {', '.join(sorted(since & paths))}"
    with owner_transaction(store, run, durable=True):
        # A fact may have been refuted while the review waited; the transaction excludes that after this check.
        lacking = store.facts.lacking(action.goal_id, action.preconditions)
        if lacking:
            return f"what it builds on no longer holds: {', '.join(lacking)}"
        store.attempts.advance(attempt.id, fence=attempt.fence, phase="recorded")
        store.attempts.end(attempt.id, outcome="recorded")
        store.actions.move(action.id, Completed(), result=attempt.result or "")
        store.facts.record_all(
            action.goal_id,
            action.effects,
            commit=attempt.base_sha,
            paths=sorted(paths),
            evidence=evidence,
            doubts=verification.doubts,
            reviewed=verification.reviewed,
        )
    return None


def _dependency_paths(store: Store, action: Action, verification: Verification) -> frozenset[str]:
    # An audit is about one commit, whatever changes afterwards.
    if is_audit(action):
        return frozenset()
    needs = inherited_preconditions(store, action)
    changed = {path for fact in store.facts.for_assertions(action.goal_id, needs) for path in fact.paths}
    cited = {utf8_safe(each.file) for review in reviews(verification) for each in review.citations}
    return frozenset(changed | cited)


async def resolve_intent(context: RunContext, run: Run, intent: Intent) -> IntentResolution:
    """Determine the outcome of a landing whose process died, and update the store accordingly.

    If the branch contains the new commit, the landing is recorded. If it contains only the old one, the candidate waits
    again, pinned. Otherwise the branch was rewritten, and the attempt ends as lost; its work stays pinned if it exists.
    """
    git, attempt = context.git, require_attempt(context.store, intent.attempt_id)
    # The work may be gone: the landing deletes its ref, and then `git gc` may delete the commit.
    candidate = await _claim_candidate(context, run, attempt, known=intent.old)
    # The branch is read only after the claim: until then, the previous owner's git could still move it.
    # That owner may have died before it noticed that `git gc` had deleted part of what it landed.
    complete = await git.has_all(intent.new, known=intent.old)
    if not complete:
        await refs.move(git, intent.ref, new=intent.old, old=intent.new)
    tip = await session_tip(context, run)
    if complete and await commits.is_ancestor(git, intent.new, tip):
        await record_recovered_landing(context, run, intent)
        return "recorded"
    # Pin first: otherwise git could delete a commit that the store already names.
    if candidate is not None:
        await refs.pin(git, refs.work_ref(attempt.id), candidate, known=intent.old)
    waits_again = (
        candidate and await git.has_all(intent.old, known=tip) and await commits.is_ancestor(git, intent.old, tip)
    )
    with owner_transaction(context.store, run, durable=True):
        context.store.intents.settle(intent.id, done=False)
        # In the same transaction: without an open intent, no later recovery would find an attempt that is landing.
        if waits_again:
            context.store.attempts.advance(attempt.id, fence=attempt.fence, phase=attempt.phase, head_sha=candidate)
            return "redone"
        lost = AttemptEnd("lost", "another process rewrote the session branch")
        record_attempt_end(context.store, run, attempt.id, lost, head=candidate)
        left = "its work is pinned" if candidate else "its work was there, and `git gc` has deleted it since"
        text = f"Another process rewrote {run.session_branch} while a candidate was landing; {left}."
        context.store.events.append(run.id, NoticeRaised("warning", text))
    return "lost"


async def _claim_candidate(context: RunContext, run: Run, attempt: Attempt, *, known: Commit) -> Commit | None:
    """Return the candidate's work as a new commit that only this owner knows; None if the work is gone."""
    # A fence cannot stop a git command that is already running. That command deletes the work ref at the old commit in
    # the same ref transaction as it moves the branch, so moving the work ref makes it fail.
    head = attempt.head_sha
    if head is None:
        raise LookupError(attempt.id)
    if not await context.git.has_all(head, known=known):
        return None
    identity, work = run.settings.identity, refs.work_ref(attempt.id)
    candidate = await commits.commit_tree(
        context.git,
        await commits.tree_of(context.git, head),
        parents=[head],
        message=f"Candidate of attempt {attempt.id}, for owner {run.fence}\n",
        author=identity.author,
        committer=identity.committer,
    )
    # At another commit, an earlier recovery has moved it, or the landing has deleted it.
    if await refs.resolve(context.git, work) == head:
        await refs.move(context.git, work, new=candidate, old=head, known=head)
    return candidate
