"""The tools that plugins offer to an agent."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import printable, truncate_text
from scaffold.core.tool import Tool, ToolOutput
from scaffold.extensions.plugins.manifest import PluginTool
from scaffold.extensions.plugins.plugin import CallFailed, Plugin
from scaffold.extensions.plugins.turn_hooks import MAX_TEXT_CHARS


class _ToolAnswer(Struct):
    """The answer to `tool/execute`."""

    success: bool
    result: str = ""


def plugin_tools(plugin: Plugin) -> tuple[Tool, ...]:
    """Return a plugin's tools. None is called read-only, whatever the plugin says: nobody has checked that."""
    return tuple(_tool(plugin, offered) for offered in plugin.manifest.tools)


def _tool(plugin: Plugin, offered: PluginTool) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        result = await plugin.call("tool/execute", {"name": offered.name, "arguments": args})
        if isinstance(result, CallFailed):
            return ToolOutput(f"Plugin {plugin.manifest.name} gave no result: {result.reason}.", failed=True)
        try:
            answer = msgspec.json.decode(result, type=_ToolAnswer)
        except (msgspec.DecodeError, RecursionError) as error:
            plugin.complain(offered.name, f"tool {offered.name}: its answer is invalid: {error}")
            return ToolOutput(f"Plugin {plugin.manifest.name} gave an invalid answer.", failed=True)
        return ToolOutput(truncate_text(printable(answer.result), MAX_TEXT_CHARS), failed=not answer.success)

    return Tool(
        name=plugin.manifest.tool_name(offered),
        description=f"{offered.description or offered.name} (from the user's plugin {plugin.manifest.name})",
        schema=offered.schema,
        category="plugin",
        run=run,
    )
