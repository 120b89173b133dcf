"""The hooks of a run, around the work of one attempt."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import structs

from scaffold.agent.extensions.hook_access import NO_HOOKS, AgentHooks, HookSetup, hook_mode, open_hooks
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.run.notices import warn
from scaffold.worker.attempt_context import AttemptContext

CHECK = "TaskCompleted hook"


@asynccontextmanager
async def worker_hooks(context: AttemptContext) -> AsyncIterator[AgentHooks]:
    """Yield the hooks of an attempt; those for its worktree run before and after."""
    run, attempt = context.task.run, context.task.attempt
    if not run.settings.extensions.hooks:
        yield NO_HOOKS
        return
    hooks = open_hooks(
        HookSetup(
            extensions=run.settings.extensions,
            cwd=context.workspace.path,
            project=context.workspace.path,
            environ=context.environ,
            sandbox=context.sandbox,
            session=attempt.id,
            transcript=str(context.run_context.journal(*context.task.journal_names)),
            mode=lambda: hook_mode("default", yolo=run.settings.permissions.yolo),
            redactor=context.run_context.redactor,
            tell=lambda line: warn(context.run_context, run.id, line),
        )
    )
    await hooks.worktree_created(attempt.id)
    try:
        yield hooks
    finally:
        await hooks.worktree_removed(attempt.id)


async def accepted_by_hooks(context: AttemptContext, found: Verification) -> Verification:
    """Return the verification of work that passed, with a failure if a hook does not take it as completed."""
    action = context.task.action
    refused = await context.hooks.incomplete(action.key, action.description) if found.passed else ""
    if not refused:
        return found
    return structs.replace(found, results=(*found.results, CheckResult(name=CHECK, verdict="fail", detail=refused)))
