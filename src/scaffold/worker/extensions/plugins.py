"""The plugins of a worker: those that the user's settings name."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scaffold.agent.extensions.plugin_access import NO_PLUGINS, AgentPlugins, PluginSetup, open_plugins
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.workspace.workplace import Workplace

UNCONFINED = "plugins run with workers in a sandbox only, and there is none"


@asynccontextmanager
async def worker_plugins(place: Workplace, records: AttemptRecords) -> AsyncIterator[AgentPlugins]:
    """Yield the plugins that the agent of an attempt works with, while the context lasts.

    They may not write in its worktree: nothing may change that while its work is checked.
    """
    settings = records.task.run.settings.plugins
    if not settings.workers:
        yield NO_PLUGINS
        return
    if place.sandbox is None:
        records.warn(UNCONFINED)
        yield NO_PLUGINS
        return
    plugins = await open_plugins(
        PluginSetup(
            cwd=place.workspace.path,
            session=records.task.attempt.id,
            environ=os.environ,
            sandbox=place.sandbox,
            network=settings.network,
            redactor=records.redactor,
            tell=records.warn,
            only=settings.workers,
            writes=False,
        )
    )
    try:
        yield plugins
    finally:
        await plugins.close()
