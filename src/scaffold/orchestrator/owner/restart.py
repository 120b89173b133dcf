"""Continue a run whose owner died, or clear it if it is not continued."""

from scaffold.core.model import Run
from scaffold.core.states import ORPHANED_BY_CRASH, AttemptOutcome, RunState
from scaffold.git.checkouts import worktree
from scaffold.host.process_identity import own_identity
from scaffold.orchestrator.owner.processes.engine import describe_exit_code
from scaffold.orchestrator.owner.processes.supervisor_pool import end_orphaned_supervisors
from scaffold.orchestrator.owner.recovery.interrupted_run import ensure_session_branch, recover_run
from scaffold.orchestrator.owner.run_end import finish_run
from scaffold.orchestrator.owner.run_files import write_run_files
from scaffold.run.context import RunContext
from scaffold.run.notices import warn
from scaffold.run.resources.sandbox import stop_leftover_services


async def recover_from_dead_owner(context: RunContext, run: Run) -> None:
    """Recover what a dead owner left, so that this process, which owns the run, can continue it."""
    # First end the supervisors: a live one would open attempts and turns during the recovery.
    await end_orphaned_supervisors(context, run)
    await ensure_session_branch(context, run)
    await recover_run(context, run)


async def continue_after_death(context: RunContext, run: Run, code: int) -> None:
    """Tell the user that the run's owner died with `code` (negative: a signal), and recover what it left."""
    died = f"The process that executed the run died ({describe_exit_code(code)})"
    warn(context, run.id, f"{died}; process {own_identity().pid} continues it.")
    if context.store.goals.for_run(run.id):  # a run without a plan has nothing to recover, and is planned again
        await recover_from_dead_owner(context, run)


async def clear_run(
    context: RunContext, run: Run, *, outcome: AttemptOutcome = "lost", error: str = ORPHANED_BY_CRASH
) -> None:
    """Recover a run that this process owns but does not execute, and remove what only its execution needs."""
    await end_orphaned_supervisors(context, run)
    await recover_run(context, run, outcome=outcome, error=error)
    await stop_leftover_services(context, run)
    await worktree.remove(context.repository, context.landing_folder(run.id))


async def give_up_restarts(context: RunContext, run: Run) -> RunState:
    """Pause an owned run whose owners died too often without progress; return its state."""
    await clear_run(context, run)
    state = finish_run(context.store, run, "deaths")
    await write_run_files(context, run)
    return state
