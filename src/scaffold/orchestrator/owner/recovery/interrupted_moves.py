"""Record reverts and rebases whose process died after it moved the session branch, before the run goes on."""

from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.model import Run
from scaffold.core.states import Active, Failed, Paused, Planning
from scaffold.landing.taking.rebase import Rebased, candidates_in_base, lost_landings, record_rebased
from scaffold.landing.taking.revert import Reverted, changed_by, find_interrupted, record_reverted
from scaffold.orchestrator.owner.recovery.reopening import retry_failed_goal
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.database import Store

REVERTED = "reverted by the user"
REBASED = "carried over to a new base by the user"
"""The pause reasons after `revert` and `rebase`."""


async def record_interrupted_moves(context: RunContext, run: Run) -> tuple[Reverted | Rebased, ...]:
    """Record them and return what each changed; only the run's owner may call this. Safe to repeat."""
    return tuple([await record_move(context, run, move) for move in await find_interrupted(context, run)])


async def record_move(context: RunContext, run: Run, move: BranchMove) -> Reverted | Rebased:
    """Record in one transaction that the branch has moved, and what is open again.

    The run is paused; if it had failed, its failed goals are open again, as after `retry`.
    """
    if move.purpose == "rebase":
        return await record_rebase(context, run, move)
    return await record_revert(context, run, move)


async def record_revert(context: RunContext, run: Run, move: BranchMove) -> Reverted:
    """Record a revert as `record_move` does."""
    changed = await changed_by(context, run, move)
    with owner_transaction(context.store, run, durable=True):
        done = record_reverted(context.store, run, move, changed)
        _pause_run(context.store, run, Paused(REVERTED))
    return done


async def record_rebase(context: RunContext, run: Run, move: BranchMove) -> Rebased:
    """Record a rebase as `record_move` does."""
    lost, there = await lost_landings(context, run, move), await candidates_in_base(context, run, move)
    with owner_transaction(context.store, run, durable=True):
        done = record_rebased(context.store, run, move, lost, there)
        _pause_run(context.store, run, Paused(REBASED))
    return done


def _pause_run(store: Store, run: Run, paused: Paused) -> None:
    if not isinstance(require_run(store, run.id).state, Paused):
        store.runs.move(run.id, paused, fence=run.fence)
    for goal in store.goals.for_run(run.id):
        if isinstance(goal.state, Planning | Active):
            store.goals.move(goal.id, paused)
        elif isinstance(goal.state, Failed):
            retry_failed_goal(store, run.id, goal)
