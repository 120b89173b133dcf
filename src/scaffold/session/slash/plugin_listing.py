"""What `/plugins` shows."""

import os
from collections.abc import Iterator

from scaffold.agent.extensions.access import PLUGINS_FOLDER, plugins_folder
from scaffold.agent.extensions.port import PluginOverview, PluginSummary
from scaffold.core.printable_text import join_limited
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.extensions.opened_extensions import extension_setup, session_plugins
from scaffold.session.options import SessionOptions
from scaffold.session.shell_sandbox import session_sandbox
from scaffold.views.text_format import wrap_text

MAX_TOOLS = 12
"""How many tools of a plugin are named."""
MIN_WIDTH = 20


def plugin_listing(overview: PluginOverview, width: int) -> str:
    """Return a few lines about each plugin."""
    room = max(MIN_WIDTH, width - 2)
    lines = [line for plugin in overview.plugins for line in _described(plugin, room)]
    lines += [line for notice in overview.notices for line in wrap_text(notice, room)]
    if lines:
        return "\n".join(lines)
    return f"There are no plugins. Executable files in {plugins_folder()} are plugins; see docs/plugins.md."


async def started_plugins(options: SessionOptions) -> PluginOverview:
    """Start the plugins as a session would, end them, and return what they were."""
    sandbox = await session_sandbox(options.sandbox, options.cwd, options.home, conversation=PLUGINS_FOLDER)
    redactor = redactor_for(os.environ, options.cwd)
    # The overview says what would be told.
    setup = extension_setup(options, sandbox, redactor, session="", tell=lambda _: None)
    plugins = await session_plugins(options, setup)
    overview = plugins.overview()
    await plugins.close()
    return overview


def _described(plugin: PluginSummary, room: int) -> Iterator[str]:
    title = f"{plugin.name}{f' {plugin.version}' if plugin.version else ''} ({plugin.file})"
    yield from wrap_text(f"{title}: {plugin.state}, priority {plugin.priority}", room)
    rows = {
        "hooks": ", ".join(plugin.hooks),
        "tools": join_limited(plugin.tools, MAX_TOOLS),
        "last error": plugin.error,
    }
    for name, text in rows.items():
        if text:
            yield from (f"  {line}" for line in wrap_text(f"{name}: {text}", room))
