"""The hooks of a run, around the work of one attempt."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import structs

from scaffold.agent.extensions.hook_access import NO_HOOKS, AgentHooks, HookSetup, hook_mode, open_hooks
from scaffold.core.model import Action
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.workspace.workplace import Workplace

CHECK = "TaskCompleted hook"


@asynccontextmanager
async def worker_hooks(place: Workplace, records: AttemptRecords) -> AsyncIterator[AgentHooks]:
    """Yield the hooks of an attempt; those for its worktree run before and after."""
    run, attempt = records.task.run, records.task.attempt
    if not run.settings.extensions.hooks:
        yield NO_HOOKS
        return
    hooks = open_hooks(
        HookSetup(
            extensions=run.settings.extensions,
            cwd=place.workspace.path,
            project=place.workspace.path,
            environ=place.environ,
            sandbox=place.sandbox,
            session=attempt.id,
            transcript=str(records.run_context.journal(*records.task.journal_names)),
            mode=lambda: hook_mode("default", yolo=run.settings.permissions.yolo),
            redactor=records.redactor,
            tell=records.warn,
        )
    )
    await hooks.worktree_created(attempt.id)
    try:
        yield hooks
    finally:
        await hooks.worktree_removed(attempt.id)


async def accepted_by_hooks(hooks: AgentHooks, action: Action, found: Verification) -> Verification:
    """Return the verification of work that passed, with a failure if a hook does not take it as completed."""
    refused = await hooks.incomplete(action.key, action.description) if found.passed else ""
    if not refused:
        return found
    return structs.replace(found, results=(*found.results, CheckResult(name=CHECK, verdict="fail", detail=refused)))
