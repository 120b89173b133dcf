"""Own a run: take it over, recover it, and provide its processes."""

import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.host.startup import importing
from scaffold.orchestrator.owner.processes.engine import Engine, GoalGroup
from scaffold.orchestrator.owner.processes.local_engine import LocalEngine, ProcessStarter, ZygoteProcessStarter
from scaffold.orchestrator.owner.recovery.interrupted_run import remove_if_empty
from scaffold.orchestrator.owner.run_lease import take_over_run_when_free
from scaffold.orchestrator.owner.run_loop import RunOwner, recover_run_owner
from scaffold.orchestrator.planning.apply_plan import store_agreed_actions
from scaffold.orchestrator.supervisor.goal_process import supervise_goals
from scaffold.run.context import RunContext
from scaffold.run.source_layout import ensure_source_layout
from scaffold.worker.contract.checkout_files import write_projections


@asynccontextmanager
async def own_run(
    context: RunContext, run_id: RunId, starter_for: Callable[[Run], ProcessStarter], *, notice: Callable[[str], None]
) -> AsyncIterator[RunOwner]:
    """Take the run over, recover what a dead owner left, and yield the run's owner; end its processes afterwards.

    `notice` receives warnings for the user. Raises RunBusy if another live process owns the run.
    """
    # An earlier owner may have been killed between writing the plan and storing its number of actions.
    run = store_agreed_actions(context.store, await take_over_run_when_free(context, run_id))
    try:
        write_projections(context, run)
    except OSError as error:
        # A refusal has a whole path.
        where = error.filename if str(error.filename).startswith("/") else context.projections
        notice(
            f"{where} is not used ({error.strerror}); the run continues without it. To have it, make it a plain file "
            "or folder that you own."
        )
    starter = starter_for(run)
    try:
        if isinstance(starter, ZygoteProcessStarter):
            # The zygote imports while the run is recovered and its baseline captured.
            await starter.preload()
        await ensure_source_layout(context, run)
        merger = None
        # A run without a planner makes no requests but those of its workers.
        if run.settings.planning.planner:
            with importing():
                from scaffold.orchestrator.owner.merge_agent import MergeAgent
                from scaffold.worker.agent.role_agents import open_source
            merger = MergeAgent(context, run, partial(open_source, context, run, "merger"))
        owner = await recover_run_owner(context, run, _create_engine(context, run, starter), merger=merger)
        async with AsyncExitStack() as stack:
            # After the recovery, which removes the temporary folders of earlier servers.
            if run.settings.mcp.workers:
                with importing():
                    from scaffold.orchestrator.owner.mcp_pool import run_servers
                await stack.enter_async_context(run_servers(context, run))
            yield owner
    finally:
        await starter.close()
        remove_if_empty(context, run)


def _create_engine(context: RunContext, run: Run, starter: ProcessStarter) -> Engine:
    # The goal of a quick run is supervised in this process, which saves a process.
    if run.settings.tier.decompose or run.settings.planning.planner:
        return LocalEngine(starter)
    with importing():
        from scaffold.orchestrator.planning.supervisor_agent import SupervisorAgent
        from scaffold.worker.agent.role_agents import open_source
    agent = SupervisorAgent(context, run, partial(open_source, context, run, "supervisor"))

    async def supervise_here(goals: GoalGroup) -> int:
        return await supervise_goals(
            context, run, goals, agent, partial(_log_error, context.process_log(run.id, goals[0]))
        )

    return LocalEngine(starter, here=supervise_here)


def _log_error(log: Path, error: Exception) -> None:
    # Where a process of its own would have printed it.
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        traceback.print_exception(error, file=file)
