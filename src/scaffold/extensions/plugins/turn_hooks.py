"""The hooks: what each plugin is asked on the way of a turn, in the order of their priorities."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import printable, truncate_text
from scaffold.core.tool import ToolOutput
from scaffold.extensions.plugins.manifest import Hook
from scaffold.extensions.plugins.plugin import CallFailed, Plugin

MAX_TEXT_CHARS = 200_000
"""Of a message, a prompt, a reply or a result that a plugin returns."""
MAX_CONTEXT_CHARS = 20_000  # of what one plugin adds to a request
MAX_REASON_CHARS = 500

Action = Literal["continue", "stop", "skip"]


class _PluginHookAnswer(Struct):
    """The answer to any hook; what a hook does not know is ignored."""

    action: Action = "continue"
    text: str | None = None
    context: str | None = None
    system: str | None = None
    result: str | None = None
    failed: bool | None = None
    reason: str = ""


class Discarded(Struct, frozen=True):
    """A message that a plugin took away: refused with `stop`, or done with `skip`."""

    plugin: str
    reason: str
    refused: bool


class PluginHooks:
    """Asks the plugins that subscribed to a hook."""

    def __init__(self, plugins: Sequence[Plugin]) -> None:
        """`plugins` run in this order."""
        self._plugins = plugins

    def subscribed(self, hook: Hook) -> bool:
        """Return whether a running plugin has subscribed to a hook."""
        return any(True for _ in self._running_plugins(hook))

    async def user_input(self, text: str) -> str | Discarded:
        """Return the user's message as the plugins made it."""
        for plugin in self._running_plugins("post_user_input"):
            answer = await _ask_plugin(plugin, "post_user_input", {"text": text}, skips=True)
            if answer is None:
                continue
            if answer.action != "continue":
                reason = truncate_text(printable(answer.reason).strip(), MAX_REASON_CHARS)
                return Discarded(plugin.manifest.name, reason, refused=answer.action == "stop")
            text = _bounded_text(answer.text, text)
        return text

    async def context(self, params: Mapping[str, Any]) -> str:
        """Return what all plugins add to a request; no plugin can keep another one from that."""
        found = []
        for plugin in self._running_plugins("context_enhance"):
            answer = await _ask_plugin(plugin, "context_enhance", params, skips=True)
            if answer is not None and answer.context and answer.context.strip():
                found.append(truncate_text(printable(answer.context).strip(), MAX_CONTEXT_CHARS))
        return "\n\n".join(found)

    async def system_prompt(self, system: str, params: Mapping[str, Any]) -> str:
        """Return the system prompt as the plugins made it."""
        for plugin in self._running_plugins("pre_llm_send"):
            answer = await _ask_plugin(plugin, "pre_llm_send", {**params, "system": system})
            if answer is not None:
                system = _bounded_text(answer.system, system)
                if answer.action == "stop":
                    break
        return system

    async def reply(self, text: str, params: Mapping[str, Any]) -> str:
        """Return the text of a reply as the plugins made it."""
        for plugin in self._running_plugins("post_llm_response"):
            answer = await _ask_plugin(plugin, "post_llm_response", {**params, "text": text})
            if answer is not None:
                text = _bounded_text(answer.text, text)
                if answer.action == "stop":
                    break
        return text

    async def before_tool(self, tool: str, args: Mapping[str, Any]) -> ToolOutput | None:
        """Return the result of a call that a plugin stopped; None if it is to run."""
        for plugin in self._running_plugins("pre_tool_execute"):
            answer = await _ask_plugin(plugin, "pre_tool_execute", {"tool": tool, "arguments": args})
            if answer is not None and answer.action == "stop":
                failed = answer.failed is not False
                result = _bounded_text(answer.result or answer.reason, "")
                return ToolOutput(result or f"Not run: plugin {plugin.manifest.name} stopped it.", failed=failed)
        return None

    async def after_tool(self, tool: str, args: Mapping[str, Any], output: ToolOutput) -> ToolOutput:
        """Return the result of a call as the plugins made it."""
        for plugin in self._running_plugins("post_tool_execute"):
            params = {"tool": tool, "arguments": args, "result": output.content, "failed": output.failed}
            answer = await _ask_plugin(plugin, "post_tool_execute", params)
            if answer is not None:
                failed = output.failed if answer.failed is None else answer.failed
                output = ToolOutput(_bounded_text(answer.result, output.content), failed=failed)
                if answer.action == "stop":
                    break
        return output

    def _running_plugins(self, hook: Hook) -> Sequence[Plugin]:
        return [plugin for plugin in self._plugins if plugin.runs and hook in plugin.manifest.hooks]


async def _ask_plugin(
    plugin: Plugin, hook: Hook, params: Mapping[str, Any], *, skips: bool = False
) -> _PluginHookAnswer | None:
    result = await plugin.call(f"hook/{hook}", params)
    if isinstance(result, CallFailed):
        if plugin.runs:
            plugin.complain(hook, f"{hook}: {result.reason}")
        return None
    try:
        answer = msgspec.json.decode(result, type=_PluginHookAnswer)
    except (msgspec.DecodeError, RecursionError) as error:
        plugin.complain(hook, f"{hook}: its answer is invalid: {error}")
        return None
    if answer.action == "skip" and not skips:
        plugin.complain(hook, f"{hook}: only post_user_input can be skipped")
        return None
    return answer


def _bounded_text(given: str | None, before: str) -> str:
    if given is None or given == before or not given.strip():
        return before
    return truncate_text(printable(given), MAX_TEXT_CHARS)
