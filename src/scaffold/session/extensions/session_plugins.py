"""The plugins of a session."""

import os
from collections.abc import Callable

from scaffold.agent.extensions.plugin_access import AgentPlugins, PluginSetup, open_plugins
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.options import SessionOptions


async def session_plugins(
    options: SessionOptions,
    sandbox: SandboxSpec | None,
    redactor: Redactor,
    *,
    session: str,
    tell: Callable[[str], object],
) -> AgentPlugins:
    """Start the user's plugins for a session; `tell` receives lines for the user."""
    return await open_plugins(
        PluginSetup(
            cwd=options.cwd,
            session=session,
            environ=os.environ,
            sandbox=sandbox,
            network=options.plugin_network,
            redactor=redactor,
            tell=tell,
        )
    )
