"""Undo an action of a run that no process executes; the run is paused afterwards, and `resume` works on it again."""

from scaffold.core.errors import UsageError
from scaffold.core.model import Action, Run
from scaffold.core.states import Cancelled
from scaffold.landing.taking.revert import Reverted, move_back, plan_revert
from scaffold.orchestrator.owner.recovery.interrupted_reverts import record_interrupted_reverts, record_revert
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.orchestrator.owner.run_lease import release_run, take_over_run
from scaffold.run.context import RunContext


async def revert_action(context: RunContext, run: Run, action: Action) -> Reverted:
    """Undo the action's commit on the session branch by a new one, and reopen what it proved; return what changed.

    Raises RunBusy while a process executes the run, UsageError if it was cancelled, and as `plan_revert` does. Safe to
    repeat after a crash: then it records what was interrupted.
    """
    if isinstance(run.state, Cancelled):
        raise UsageError(f"run {run.id} is cancelled, and nothing in it can be done again", "Use `git revert`.")
    run = take_over_run(context, run.id)
    try:
        before = [each for each in await record_interrupted_reverts(context, run) if each.action.id == action.id]
        if before:
            return before[-1]
        await recover_run(context, run)
        move = await plan_revert(context, run, context.store.actions.get(action.id) or action)
        await move_back(context, run, move)
        return await record_revert(context, run, move)
    finally:
        release_run(context.store, run)
