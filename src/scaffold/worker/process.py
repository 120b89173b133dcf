"""Run the attempt of a worker process, and record unexpected errors."""

import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from scaffold.agent.model_access import connect_run_model
from scaffold.core.errors import GitError, PermanentGitError, ScaffoldError, StaleFence, StoreUnavailable
from scaffold.core.executor_settings import NATIVE
from scaffold.core.ids import AttemptId
from scaffold.core.ports import Model
from scaffold.core.states import AttemptOutcome
from scaffold.host.process_identity import own_identity
from scaffold.llm.transport.live_context import Patience
from scaffold.run.attempts.assignment import Assignment, read_assignment
from scaffold.run.attempts.lease import send_heartbeats
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.worker.activity_clock import attempt_activity
from scaffold.worker.agent.agent_source import AgentSource
from scaffold.worker.agent.role_agents import program_of
from scaffold.worker.agent.side_agent import SideRole
from scaffold.worker.attempt import Worker
from scaffold.worker.workspace.attempt_worktree import rescue_work


async def run_attempt(context: RunContext, attempt_id: AttemptId, *, log: Callable[[str], None]) -> None:
    """Run an attempt to its end; return early if another process has ended it.

    An unexpected error ends the attempt as `executor_failed`; `log` receives its traceback, without secrets.
    """
    try:
        task = read_assignment(context.store, attempt_id)
        await _run_recording_errors(context, task, log)
    except StaleFence as stale:
        log(context.redactor.clean(stale.what))


async def _run_recording_errors(context: RunContext, task: Assignment, log: Callable[[str], None]) -> None:
    journal = context.journal(*task.journal_names)
    activity, settings = attempt_activity(context.clock, task), task.run.settings
    patience = Patience(settings.limits.model_wait_s, activity.parked)
    try:
        async with (
            open_sources(context, task, patience=patience) as (model, advisers),
            send_heartbeats(context.store, task.attempt, context.clock, activity.limit),
        ):
            await Worker(context, task, model, activity=activity, advisers=advisers).execute(
                own_identity(), log_file=str(journal)
            )
    except StaleFence:
        raise
    except Exception as error:  # noqa: BLE001 - the worker's boundary: every error is recorded in the attempt
        clean = context.redactor.clean
        log(clean(traceback.format_exc()))
        # A file system that fails or is full says nothing about the work.
        outcome: AttemptOutcome = (
            "lost" if isinstance(error, OSError | GitError | StoreUnavailable) else "executor_failed"
        )
        said = error.in_full if isinstance(error, PermanentGitError) else f"{type(error).__name__}: {error}"
        ending, pinned = AttemptEnd(outcome, clean(said), permanent=isinstance(error, PermanentGitError)), None
        with suppress(OSError, ScaffoldError):  # then whoever removes the worktree does it
            pinned = await rescue_work(context, task.run, task.attempt.id)
        end_attempt(context.store, task.run, task.attempt.id, ending, head=pinned, fence=task.attempt.fence)


@asynccontextmanager
async def open_sources(
    context: RunContext, task: Assignment, *, patience: Patience
) -> AsyncIterator[tuple[Model | None, Mapping[str, AgentSource]]]:
    """Yield the model of the work, None if a program does it, and by role who advises, where that is not this model.

    The second reviewer opens its own, if it is asked. Raises as `connect_model` does.
    """
    settings = task.run.settings
    work = settings.worker_model(task.action.role, task.action.type, alternative=task.attempt.alternative)
    async with AsyncExitStack() as stack:
        opened, advisers, model = dict[tuple[str, tuple[str, ...]], Model](), dict[str, AgentSource](), None
        if task.attempt.executor == NATIVE:
            model = await stack.enter_async_context(connect_run_model(work, patience=patience))
            opened[work.name, work.others] = model
        roles: Mapping[SideRole, bool] = {
            "drafter": settings.planning.drafter,
            "critic": settings.planning.critic,
            "learner": settings.learning.extract,
        }
        for role in (each for each, is_used in roles.items() if is_used):
            program = program_of(context, task.run, role, context.worktree_of(task.attempt), patience)
            if program is not None:
                advisers[role] = program
                continue
            own = settings.agent_model(role)
            place = (own.name, own.others)
            if place not in opened:
                opened[place] = await stack.enter_async_context(connect_run_model(own, patience=patience))
            if opened[place] is not model:
                advisers[role] = opened[place]
        yield model, advisers
