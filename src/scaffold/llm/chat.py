"""Chat Completions: OpenAI's older wire, and that of every local server."""

import re
from collections.abc import Sequence
from typing import Final

from scaffold.core.conversation import (
    AssistantMessage,
    Image,
    Message,
    Request,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.tool import Tool
from scaffold.llm.chat_reader import ChatReader
from scaffold.llm.codec import Heard, Target
from scaffold.llm.openai import ANSWER, data_url, fits_strictly, most_tokens
from scaffold.llm.wires import body, encoded, wire_id, wire_name

_ID = re.compile("[!-~]+")
"""Wide, because some local models read the ids themselves (`functions.shell:0`)."""


class ChatCodec:
    """Translates to and from Chat Completions.

    `local` is for servers other than OpenAI's: they know the older name of the length limit. The templates of some of
    their models refuse a second system message: with `joined` both are said in one, the base prompt first.
    """

    path: Final = "/chat/completions"

    def __init__(self, *, local: bool = False, joined: bool = False) -> None:
        self._local = local
        self._joined = joined

    def message(self, message: Message, target: Target) -> bytes:
        """Return the message's JSON objects joined by commas: results of tools first; empty if there are no words.

        Thoughts are left out: this wire has no word for them.
        """
        del target
        if isinstance(message, UserMessage):
            return b",".join(encoded(said) for said in _user(message))
        said = _assistant(message)
        return encoded(said) if said else b""

    def request(self, request: Request, pieces: Sequence[bytes], target: Target) -> bytes:
        """Return the request's body; the base prompt stands first, in the same bytes every time."""
        fields: dict[str, object] = {"model": target.name}
        if target.stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        if request.tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
        if request.answer_schema is not None:
            strict = fits_strictly(request.answer_schema)
            schema = {"name": ANSWER, "schema": request.answer_schema, "strict": strict}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.effort:
            fields["reasoning_effort"] = request.effort
        if (most := most_tokens(request, target)) is not None:
            fields["max_tokens" if self._local else "max_completion_tokens"] = most
        return body(fields, "messages", [*self._system(request), *pieces])

    def reader(self, target: Target) -> ChatReader:
        """Return a reader for one streamed reply."""
        return ChatReader(target)

    def whole(self, body: bytes, target: Target) -> Heard:
        """Return the reply that was sent in one piece; ModelTrouble, transient, if it cannot be read."""
        reader = ChatReader(target)
        reader.take(body)
        return reader.end()

    def _system(self, request: Request) -> list[bytes]:
        said = [text for text in (request.system, request.context) if text]
        if self._joined and said:
            said = ["\n\n".join(said)]
        return [encoded({"role": "system", "content": text}) for text in said]


def _user(message: UserMessage) -> list[dict[str, object]]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    said: list[dict[str, object]] = [
        {"role": "tool", "tool_call_id": wire_id(result.call_id, _ID), "content": result.content} for result in results
    ]
    content = _content([part for part in message.parts if not isinstance(part, ToolResult)])
    return [*said, {"role": "user", "content": content}] if content else said


def _content(parts: Sequence[Text | Image]) -> str | list[dict[str, object]]:
    """Return one text where there are no pictures, since many local servers know nothing else."""
    words = [part for part in parts if isinstance(part, Image) or part.text]
    if not any(isinstance(part, Image) for part in words):
        return "\n".join(part.text for part in words if isinstance(part, Text))
    return [
        {"type": "image_url", "image_url": {"url": data_url(part)}}
        if isinstance(part, Image)
        else {"type": "text", "text": part.text}
        for part in words
    ]


def _assistant(message: AssistantMessage) -> dict[str, object] | None:
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text) and part.text)
    calls = [_call(call) for call in message.tool_calls]
    if not text and not calls:
        return None
    said: dict[str, object] = {"role": "assistant", "content": text or None}
    return said | {"tool_calls": calls} if calls else said


def _call(call: ToolCall) -> dict[str, object]:
    function = {"name": wire_name(call.name), "arguments": encoded(call.args).decode()}
    return {"id": wire_id(call.id, _ID), "type": "function", "function": function}


def _tool(tool: Tool) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}
