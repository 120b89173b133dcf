"""The plugins of an agent that has some: around its tools, its model and what the user says."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from scaffold.agent.extensions.port import AgentExtensions, DroppedInput, PluginOverview, PluginSummary
from scaffold.agent.extensions.setup import ExtensionSetup
from scaffold.agent.toolbox import shown_result
from scaffold.agent.turn_loop import COMPACTION
from scaffold.core.conversation import (
    AssistantMessage,
    Delta,
    DeltaHandler,
    Reply,
    Request,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    UserMessage,
    ignore_delta,
)
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Usage
from scaffold.core.ports import Model
from scaffold.core.printable_text import one_line, utf8_safe
from scaffold.core.tool import Tool, ToolOutput
from scaffold.extensions.plugins.loaded import LoadedPlugins, PluginPlace, load_plugins
from scaffold.extensions.plugins.plugin import Plugin
from scaffold.extensions.plugins.turn_hooks import Discarded, PluginHooks
from scaffold.host.sandbox.confinement import built
from scaffold.policy.secret.redaction import Redactor


async def start_plugins(
    setup: ExtensionSetup, folder: Path, *, network: tuple[str, ...], only: tuple[str, ...] | None
) -> AgentExtensions:
    """Start the plugins in `folder`; see `access.open_plugins`."""
    place = PluginPlace(
        folder=folder,
        cwd=setup.cwd,
        environ=setup.environ,
        sandbox=await built(setup.sandbox),
        network=network,
        only=only,
        writes=setup.writes,
    )
    about = {
        "host": {"name": "ralph", "version": version("ralph-scaffold")},
        "session": setup.session,
        "cwd": utf8_safe(str(setup.cwd)),
    }
    return _OpenedPlugins(await load_plugins(place, about, setup.tell), setup.redactor).port


class _OpenedPlugins:
    """The plugins of one agent. What a plugin is told, and what it says, is free of secrets."""

    def __init__(self, loaded: LoadedPlugins, redactor: Redactor) -> None:
        self._loaded = loaded
        self._hooks = loaded.hooks
        self._redactor = redactor
        self._tools = loaded.tools

    @property
    def port(self) -> AgentExtensions:
        """Where they take part."""
        loaded = self._loaded
        return AgentExtensions(
            tools=self._offered_tools,
            reads_input=lambda: self._hooks.subscribed("post_user_input"),
            user_input=self._change_input,
            watch=self._watch_tool,
            hooked=lambda model: HookedModel(model, self._hooks, self._redactor),
            overview=lambda: PluginOverview(tuple(map(_plugin_summary, loaded.plugins)), tuple(loaded.notices)),
            close=loaded.close,
        )

    async def _offered_tools(self) -> tuple[Tool, ...]:
        return self._tools

    async def _change_input(self, words: str, material: str) -> tuple[str, str] | DroppedInput:
        # Without words, plugins get the material: it is all that the user has sent.
        answer = await self._hooks.user_input(utf8_safe(words or self._redactor.clean(material)))
        match answer:
            case Discarded(plugin=plugin, reason=reason, refused=True):
                raise ScaffoldError(
                    f"plugin {plugin} refused the message{f': {one_line(reason)}' if reason else ''}",
                    "Nothing was sent. Change the message; `/plugins` lists the plugins.",
                )
            case Discarded(plugin=plugin, reason=reason):
                return DroppedInput(f"plugin {plugin} took the message{f': {reason}' if reason else ''}")
            case _:
                return (answer, material) if words else ("", answer)

    def _watch_tool(self, tool: Tool) -> Tool:
        # Before the gate, so that the gate decides last.
        hooks, redactor = self._hooks, self._redactor

        async def run(args: Mapping[str, Any]) -> ToolOutput:
            stopped = await hooks.before_tool(tool.name, args)
            if stopped is not None:
                return stopped
            output = await tool.run(args)
            if not hooks.subscribed("post_tool_execute"):
                return output
            shown = msgspec.structs.replace(output, content=shown_result(output.content, redactor))
            return await hooks.after_tool(tool.name, args, shown)

        return msgspec.structs.replace(tool, run=run)


class HookedModel:
    """A model with hooks around each request of an agent's turns; the summaries of compactions have none."""

    def __init__(self, model: Model, hooks: PluginHooks, redactor: Redactor) -> None:
        self._model = model
        self._hooks = hooks
        self._clean = redactor.clean

    @property
    def window_tokens(self) -> int | None:
        """Return the model's context window."""
        return self._model.window_tokens

    @property
    def is_small(self) -> bool:
        """Return whether the model is a small one."""
        return self._model.is_small

    def estimate(self, request: Request) -> Usage:
        """Return the estimated usage of the request, without what plugins will add to it."""
        return self._model.estimate(request)

    async def reply(self, request: Request, on_delta: DeltaHandler = ignore_delta) -> Reply:
        """Return the reply as the plugins made it; its text is passed on only then, streamed or not."""
        if request.caller.event == COMPACTION:
            return await self._model.reply(request, on_delta)
        request = await self._enhance_request(request)
        if not self._hooks.subscribed("post_llm_response"):
            return await self._model.reply(request, on_delta)

        def without_text(delta: Delta) -> None:
            if not isinstance(delta, TextDelta):
                on_delta(delta)

        reply = await self._model.reply(request, without_text)
        message = await self._change_reply(reply.message)
        for part in message.parts:
            if isinstance(part, Text):
                on_delta(TextDelta(part.text))
        return msgspec.structs.replace(reply, message=message)

    async def _enhance_request(self, request: Request) -> Request:
        hooks = self._hooks
        if not hooks.subscribed("context_enhance") and not hooks.subscribed("pre_llm_send"):
            return request
        prompt = ""
        for message in reversed(request.messages):
            texts = [part.text for part in message.parts if isinstance(part, Text)]
            # A message of tool results alone is not a prompt.
            if isinstance(message, UserMessage) and texts:
                prompt = utf8_safe("\n".join(texts))
                break
        about = {"text": prompt, "messages": len(request.messages)}
        context = self._clean(await hooks.context(about))
        reminder = "\n\n".join(filter(None, (request.reminder, context)))
        system = await hooks.system_prompt(request.system, about)
        if system != request.system:
            system = self._clean(system)
        return msgspec.structs.replace(request, reminder=reminder, system=system)

    async def _change_reply(self, message: AssistantMessage) -> AssistantMessage:
        if not message.text.strip():
            return message
        calls = [call.name for call in message.tool_calls]
        text = await self._hooks.reply(utf8_safe(message.text), {"calls": calls})
        if text == message.text:
            return message
        # The new text replaces all old ones; thinking and calls stay, as the provider wants them back.
        parts: list[Text | Thinking | ToolCall] = []
        given = [Text(self._clean(text))]
        for part in message.parts:
            parts += [part] if not isinstance(part, Text) else [given.pop()] if given else []
        return msgspec.structs.replace(message, parts=tuple(parts))


def _plugin_summary(plugin: Plugin) -> PluginSummary:
    manifest = plugin.manifest
    return PluginSummary(
        name=manifest.name,
        version=manifest.version,
        file=one_line(plugin.file.name),
        state=plugin.state,
        priority=manifest.priority,
        hooks=manifest.hooks,
        tools=tuple(map(manifest.tool_name, manifest.tools)),
        error=plugin.error,
    )
