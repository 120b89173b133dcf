"""Reverts whose process died after it moved the branch: the run learns of them before it goes on."""

from scaffold.core.model import BranchMove, Run
from scaffold.core.states import Active, Paused, Planning
from scaffold.landing.taking.revert import Reverted, changed_by, find_interrupted, record_reverted
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.run.context import RunContext
from scaffold.run.lease import owner_transaction

REVERTED = "reverted by the user"
"""Why a run and its goals are paused after `revert`."""


async def record_interrupted_reverts(context: RunContext, run: Run) -> tuple[Reverted, ...]:
    """Record them, and return what each changed; only the run's owner may call this. Safe to repeat."""
    return tuple([await record_revert(context, run, move) for move in await find_interrupted(context, run)])


async def record_revert(context: RunContext, run: Run, move: BranchMove) -> Reverted:
    """Record in one transaction that the branch has moved: the action is open again, and the run is paused."""
    changed = await changed_by(context, move)
    store, paused = context.store, Paused(REVERTED)
    with owner_transaction(store, run, durable=True):
        done = record_reverted(store, run, move, changed)
        for goal in store.goals.of_run(run.id):
            if isinstance(goal.state, Planning | Active):
                store.goals.move(goal.id, paused)
        if not isinstance(require_run(store, run.id).state, Paused):
            store.runs.move(run.id, paused, fence=run.fence)
    return done
