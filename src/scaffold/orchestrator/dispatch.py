"""Starting an attempt: what it is told of earlier ones, and its row in the store."""

from scaffold.core.ids import ActionId, AttemptId, Commit, GoalId
from scaffold.core.model import Attempt, Goal, Run, Usage
from scaffold.core.states import WORKER_PHASES, Active, Pending, Running
from scaffold.git import commit, refs
from scaffold.host.ids import new_id
from scaffold.landing.record import session_tip
from scaffold.store.database import Store
from scaffold.worker.lease import owned
from scaffold.worker.site import Site

DIFF_BYTES = 10_000
"""Of each diff in a briefing; two of them fit into what a worker is told."""


def free_slots(store: Store, run: Run, goal: Goal) -> int:
    """Return how many attempts may start now: the run's cap and the goal's, whichever is nearer.

    An attempt takes a slot from when it is queued until its candidate is handed in.
    """
    working = store.attempts.working(run.id)
    return max(0, min(run.settings.agents - sum(working.values()), goal.worker_cap - working.get(goal.id, 0)))


async def queue_attempt(site: Site, run: Run, goal_id: GoalId, action_id: ActionId) -> Attempt | None:
    """Open the next attempt of a ready action on the session branch's tip, fenced by the run's owner.

    None if it may not start any more: the goal was paused, the action cancelled, or the last free slot taken, since it
    was decided. All are looked at in the transaction that opens the attempt.
    """
    store = site.store
    tip = await session_tip(site, run)
    briefing = await brief(site, store.attempts.of_action(action_id), tip)
    attempt = Attempt(
        id=AttemptId(new_id()),
        run_id=run.id,
        action_id=action_id,
        number=store.attempts.next_number(action_id),
        fence=run.fence,
        status="queued",
        phase="workspace",
        executor=run.settings.executor,
        model=run.settings.model,
        base_sha=tip,
        briefing=briefing,
        usage=Usage(),
        queued_at=site.clock.now(),
    )
    with owned(store, run):
        goal, action = store.goals.get(goal_id), store.actions.get(action_id)
        if goal is None or not isinstance(goal.state, Active) or not free_slots(store, run, goal):
            return None
        if action is None or not isinstance(action.state, Pending):
            return None
        store.attempts.open(attempt)
        store.actions.move(action_id, Running())
    return attempt


async def brief(site: Site, earlier: tuple[Attempt, ...], tip: Commit) -> str:
    """Return what the last attempt teaches the next: why it ended, its work, and what landed against it."""
    if not earlier:
        return ""
    last = earlier[-1]
    if last.outcome in {"landed", "recorded"}:
        return (
            f"Attempt {last.number} was {last.outcome} at {last.head_sha or last.base_sha}. What it had shown does not "
            "count any more: the files it depends on have changed since. Look at what is there now."
        )
    parts = [f"Attempt {last.number} ended: {last.outcome}. {last.error or ''}".rstrip()]
    head = last.head_sha or await refs.resolve(site.git, refs.rescue_ref(last.id))
    if head is not None and head != last.base_sha:
        work = await commit.diff_text(site.git, last.base_sha, head, limit_bytes=DIFF_BYTES)
        parts.append(f"Its work, which did not land:\n{work}")
    if last.phase not in WORKER_PHASES and last.base_sha != tip:
        theirs = await commit.diff_text(site.git, last.base_sha, tip, limit_bytes=DIFF_BYTES)
        parts.append(f"What landed meanwhile, and is your base now:\n{theirs}")
    return "\n\n".join(parts)
