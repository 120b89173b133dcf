"""The plugins of a worker: those that the user's settings name."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scaffold.agent.extensions.plugin_access import NO_PLUGINS, AgentPlugins, PluginSetup, open_plugins
from scaffold.run.notices import warn
from scaffold.worker.attempt_context import AttemptContext

UNCONFINED = "plugins run with workers in a sandbox only, and there is none"


@asynccontextmanager
async def worker_plugins(context: AttemptContext) -> AsyncIterator[AgentPlugins]:
    """Yield the plugins that the agent of an attempt works with, while the context lasts.

    They may not write in its worktree: nothing may change that while its work is checked.
    """
    run, settings = context.task.run, context.task.run.settings.plugins
    if not settings.workers:
        yield NO_PLUGINS
        return

    def tell(line: str) -> None:
        warn(context.run_context, run.id, line)

    if context.sandbox is None:
        tell(UNCONFINED)
        yield NO_PLUGINS
        return
    plugins = await open_plugins(
        PluginSetup(
            cwd=context.workspace.path,
            session=context.task.attempt.id,
            environ=os.environ,
            sandbox=context.sandbox,
            network=settings.network,
            redactor=context.run_context.redactor,
            tell=tell,
            only=settings.workers,
            writes=False,
        )
    )
    try:
        yield plugins
    finally:
        await plugins.close()
