"""Change the session branch of a run that no process executes: undo an action, or carry all over to a new base.

The run is paused afterwards, also if it was completed, and `resume` works on it again.
"""

from scaffold.core.errors import UsageError
from scaffold.core.model import Action, Run
from scaffold.core.states import Cancelled, Saved
from scaffold.landing.record import last_landed
from scaffold.landing.taking.rebase import Rebased, keep_former, plan_rebase
from scaffold.landing.taking.revert import Reverted, move_session_branch, plan_revert
from scaffold.orchestrator.owner.recovery.interrupted_moves import (
    record_interrupted_moves,
    record_rebase,
    record_revert,
)
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.orchestrator.owner.run_lease import release_run, take_over_run
from scaffold.run.context import RunContext


async def revert_action(context: RunContext, run: Run, action: Action) -> Reverted:
    """Undo the action's commit on the session branch by a new one, and reopen what it proved; return what changed.

    Raises RunBusy while a process executes the run, UsageError if it was cancelled, and as `plan_revert` does. Safe to
    repeat after a crash: then it records what was interrupted.
    """
    run = _take(context, run)
    try:
        for done in reversed(await record_interrupted_moves(context, run)):
            if isinstance(done, Reverted) and done.action.id == action.id:
                return done
        await recover_run(context, run)
        move = await plan_revert(context, run, context.store.actions.get(action.id) or action)
        await move_session_branch(context, run, move)
        return await record_revert(context, run, move)
    finally:
        release_run(context.store, run)


async def rebase_run(context: RunContext, run: Run) -> Rebased | None:
    """Carry the session branch over to the base branch's tip; return what changed, None if that has not moved on.

    Raises as `revert_action` and `plan_rebase` do, and is as safe to repeat.
    """
    run = _take(context, run)
    try:
        for done in reversed(await record_interrupted_moves(context, run)):
            if isinstance(done, Rebased):
                return done
        await recover_run(context, run)
        if last_landed(context.store, run) is None:
            raise UsageError(
                f"nothing has landed on {run.session_branch}, so there is no work to carry over",
                "Start a new run: it begins at the base branch's tip.",
            )
        move = await plan_rebase(context, run)
        if move is None:
            return None
        await keep_former(context, run, move)
        await move_session_branch(context, run, move)
        return await record_rebase(context, run, move)
    finally:
        release_run(context.store, run)


def _take(context: RunContext, run: Run) -> Run:
    if isinstance(run.state, Cancelled):
        raise UsageError(
            f"run {run.id} is cancelled, and nothing in it can be done again",
            f"Change {run.session_branch} with git, or start a new run.",
        )
    if isinstance(run.state, Saved):
        raise UsageError(
            f"run {run.id} is saved and has not started, so {run.session_branch} has no work yet",
            f"Start it with `scaffold resume {run.id}`.",
        )
    return take_over_run(context, run.id)
