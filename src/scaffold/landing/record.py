"""What a landing makes true, in one transaction; and how a half-done landing is read back."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from scaffold.core.contract import Verification
from scaffold.core.errors import RepositoryUnfit
from scaffold.core.events import Landed, Noticed
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.legible import legible
from scaffold.core.model import Action, Attempt, Intent, Run
from scaffold.core.states import Completed
from scaffold.git import commit, refs
from scaffold.landing.evidence import agreed_to, evidence_of
from scaffold.landing.questions import Tested, in_question, put_in_question, show_anew
from scaffold.landing.staleness import older_than
from scaffold.store.database import Store
from scaffold.verify.review import reviews
from scaffold.worker.assignment import needed_by
from scaffold.worker.ending import conclude
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

Reading = Literal["recorded", "redone", "lost"]


def session_ref(run: Run) -> str:
    """Return the full name of the run's integration branch."""
    return f"refs/heads/{run.session_branch}"


async def session_tip(site: Site, run: Run) -> Commit:
    """Return the commit the session branch is at; raises RepositoryUnfit if it was deleted."""
    tip = await refs.resolve(site.git, session_ref(run))
    if tip is None:
        last = last_landed(site.store, run) or run.base_sha
        raise RepositoryUnfit(
            f"the branch {run.session_branch} is gone",
            f"Bring it back with `git branch {run.session_branch} {last}`, then `scaffold resume`.",
        )
    return tip


def last_landed(store: Store, run: Run) -> Commit | None:
    """Return the commit that landed last, which contains all earlier ones; None if nothing has landed."""
    landed = [attempt for attempt in store.attempts.of_run(run.id) if attempt.outcome == "landed"]
    return max(landed, key=_ended_at).head_sha if landed else None


def _ended_at(attempt: Attempt) -> datetime:
    return attempt.ended_at or attempt.queued_at


async def require_on_branch(site: Site, run: Run, landed: Commit, tip: Commit) -> None:
    """Return if `tip` contains what `landed`; else the branch was rewritten: RepositoryUnfit, facts would be lies."""
    if not await commit.is_ancestor(site.git, landed, tip):
        raise RepositoryUnfit(
            f"the branch {run.session_branch} does not contain {landed[:8]} any more, which has landed there",
            f"Put it back with `git branch --force {run.session_branch} {landed}`, then `scaffold resume`.",
        )


async def record_landing(site: Site, run: Run, attempt_id: AttemptId, landed: Commit) -> None:
    """Record that the branch carries `landed`, which is all that is known: its owner has died over it."""
    record_landed(site, run, attempt_id, landed, await commit.changed_paths(site.git, Commit(f"{landed}^"), landed))


def record_landed(
    site: Site,
    run: Run,
    attempt_id: AttemptId,
    landed: Commit,
    changed: Sequence[str],
    renewed: Sequence[Tested] = (),
) -> None:
    """Record that the branch carries `landed`: the attempt ends, the action is done, its effects are facts.

    What others have shown that depends on what it changed is shown anew as far as it was `renewed`, and else in
    question. The branch has moved already, and its work ref is gone or nobody's any more. Safe to repeat until it is
    recorded.
    """
    store = site.store
    attempt = store.attempts.get(attempt_id)
    action = store.actions.get(attempt.action_id) if attempt else None
    if attempt is None or action is None or attempt.verification is None:
        raise LookupError(attempt_id)
    paths = [legible(path) for path in changed]
    now = site.clock.now()
    agreed = agreed_to(attempt, store.inbox.approved(action.id))
    evidence = evidence_of(attempt.verification, attempt_id, landed, now, agreed)
    with owned(store, run, durable=True):
        for intent in store.intents.open_of_run(run.id):
            if intent.attempt_id == attempt_id:
                store.intents.settle(intent.id, done=intent.new == landed)
        store.attempts.advance(attempt_id, fence=attempt.fence, phase="recorded", head_sha=landed)
        store.attempts.end(attempt_id, outcome="landed")
        store.actions.move(action.id, Completed(), result=attempt.result or "")
        store.events.append(run.id, Landed(action.key, landed))
        for assertion in action.effects:
            store.facts.show(
                action.goal_id,
                assertion,
                commit=landed,
                weak=attempt.verification.weak,
                paths=paths,
                evidence=evidence,
            )
        for tested in renewed:
            show_anew(store, tested, now)
        for claim in older_than(landed, in_question(store, run, changed, besides=action.id)):
            put_in_question(store, claim)


async def record_unchanged(site: Site, run: Run, attempt: Attempt, action: Action) -> str | None:
    """Record an approval, or checks that passed, without a commit: the action is done, its effects are facts.

    None if it is recorded; else nothing is written, and what is returned says why it must be judged anew: what it is
    about changed since, or fell. No branch moves, so one transaction is all there is.
    """
    store, verification = site.store, attempt.verification
    if verification is None:
        raise LookupError(attempt.id)
    paths = _depends_on(store, action, verification)
    tip = await session_tip(site, run)
    since = {legible(path) for path in await commit.changed_paths(site.git, attempt.base_sha, tip)}
    evidence = evidence_of(verification, attempt.id, attempt.base_sha, site.clock.now())
    if since & paths:
        return f"changed since it was reviewed: {', '.join(sorted(since & paths))}"
    with owned(store, run, durable=True):
        fallen = store.facts.lacking(action.goal_id, action.preconditions)
        if fallen:
            return f"what was reviewed does not hold any more: {', '.join(fallen)}"
        store.attempts.advance(attempt.id, fence=attempt.fence, phase="recorded")
        store.attempts.end(attempt.id, outcome="recorded")
        store.actions.move(action.id, Completed(), result=attempt.result or "")
        store.facts.show_all(
            action.goal_id,
            action.effects,
            commit=attempt.base_sha,
            weak=verification.weak,
            paths=sorted(paths),
            evidence=evidence,
        )
    return None


def _depends_on(store: Store, action: Action, verification: Verification) -> frozenset[str]:
    """Return the paths a review cites, if it is one, and those that the action's prerequisites have changed."""
    needs = needed_by(store, action)
    changed = {path for fact in store.facts.of_goal(action.goal_id) if fact.assertion in needs for path in fact.paths}
    cited = {legible(each.file) for review in reviews(verification) for each in review.citations}
    return frozenset(changed | cited)


async def read_back(site: Site, run: Run, intent: Intent) -> Reading:
    """Find out what became of a landing whose process died, and bring the store in step with the branch.

    First it is forbidden: an owner that was overtaken may still live. The branch at or past the new commit: it landed,
    so it is recorded. At or past the old one: it is as if nothing happened, and the candidate waits again, pinned.
    Anywhere else somebody rewrote the branch: the candidate is given back, pinned too.
    """
    attempt = _known(site.store, intent.attempt_id)
    candidate = await _forbid(site, run, attempt)
    tip = await session_tip(site, run)
    if await commit.is_ancestor(site.git, intent.new, tip):
        await record_landing(site, run, intent.attempt_id, intent.new)
        return "recorded"
    await refs.pin(site.git, refs.work_ref(attempt.id), candidate)
    with owned(site.store, run, durable=True):
        site.store.intents.settle(intent.id, done=False)
        site.store.attempts.advance(attempt.id, fence=attempt.fence, phase=attempt.phase, head_sha=candidate)
    if await commit.is_ancestor(site.git, intent.old, tip):
        return "redone"
    conclude(site.store, run, intent.attempt_id, "lost", error="the session branch was rewritten by somebody else")
    with owned(site.store, run):
        text = f"{run.session_branch} was rewritten by somebody else while a candidate was landing; its work is pinned."
        site.store.events.append(run.id, Noticed("warning", text))
    return "lost"


async def _forbid(site: Site, run: Run, attempt: Attempt) -> Commit:
    """Keep anybody else from landing a candidate; return the same work as a commit that only this owner knows.

    No fence holds a git command that is on its way. That one lands what is pinned where it was handed in, and nothing
    if it is not there: it moves here, unless it has landed before.
    """
    head = attempt.head_sha
    if head is None:
        raise LookupError(attempt.id)
    settings, work = run.settings, refs.work_ref(attempt.id)
    candidate = await commit.commit_tree(
        site.git,
        await commit.tree_of(site.git, head),
        parents=[head],
        message=f"Candidate of attempt {attempt.id}, for owner {run.fence}\n",
        author=settings.author,
        committer=settings.committer,
    )
    if await refs.resolve(site.git, work) == head:
        await refs.move(site.git, work, new=candidate, old=head)
    return candidate


def _known(store: Store, attempt_id: AttemptId) -> Attempt:
    attempt = store.attempts.get(attempt_id)
    if attempt is None:
        raise LookupError(attempt_id)
    return attempt
