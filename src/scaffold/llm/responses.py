"""Responses: OpenAI's newer wire, and that of Codex."""

import hashlib
from collections.abc import Sequence
from typing import Final

from scaffold.core.conversation import (
    AssistantMessage,
    Image,
    Message,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.tool import Tool
from scaffold.llm.codec import Heard, Target
from scaffold.llm.openai import ANSWER, data_url, fits_strictly, most_tokens
from scaffold.llm.responses_reader import ResponsesReader
from scaffold.llm.wires import PLAIN_ID, body, encoded, wire_id, wire_name

_THOUGHTLESS = ("gpt-3", "gpt-4", "chatgpt-4")
"""How the names of models begin that refuse to be asked for their thoughts."""

_KEYED = 4096
"""Bytes of a conversation's beginning that tell it from others."""

_Item = dict[str, object]


class ResponsesCodec:
    """Translates to and from Responses; nothing is stored at the provider.

    The instructions are the base prompt alone, and what differs from request to request comes last: all before it is
    the same as in the request before, and cached. `codex` is for subscriptions: always a stream, no length limit.
    """

    path: Final = "/responses"

    def __init__(self, *, codex: bool = False) -> None:
        self._codex = codex

    def message(self, message: Message, target: Target) -> bytes:
        """Return the message's items joined by commas; empty if there are no words.

        Thoughts go back, sealed, to the model that had them alone, and only before something it said or did.
        """
        if isinstance(message, UserMessage):
            return b",".join(encoded(item) for item in _user(message))
        return b",".join(encoded(item) for item in self._assistant(message, target))

    def request(self, request: Request, pieces: Sequence[bytes], target: Target) -> bytes:
        """Return the request's body; the context follows the history, so that it may change."""
        fields: dict[str, object] = {"model": target.name, "instructions": request.system, "store": False}
        fields["prompt_cache_key"] = _cache_key(request.system, pieces)
        if target.stream or self._codex:
            fields["stream"] = True
        if not target.name.removeprefix("ft:").startswith(_THOUGHTLESS):
            fields["include"] = ["reasoning.encrypted_content"]
        if request.tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
        if request.answer_schema is not None:
            strict = fits_strictly(request.answer_schema)
            schema = {"type": "json_schema", "name": ANSWER, "schema": request.answer_schema, "strict": strict}
            fields["text"] = {"format": schema}
        if request.effort:
            fields["reasoning"] = {"effort": request.effort, "summary": "auto"}
        if (most := most_tokens(request, target)) is not None and not self._codex:
            fields["max_output_tokens"] = most
        return body(fields, "input", [*pieces, *_context(request)])

    def reader(self, target: Target) -> ResponsesReader:
        """Return a reader for one streamed reply."""
        return ResponsesReader(target)

    def whole(self, body: bytes, target: Target) -> Heard:
        """Return the reply that was sent in one piece; ModelTrouble, transient, if it cannot be read."""
        reader = ResponsesReader(target)
        reader.take(body)
        return reader.end()

    def _assistant(self, message: AssistantMessage, target: Target) -> list[_Item]:
        items: list[_Item] = []
        thoughts: list[_Item] = []
        for part in message.parts:
            match part:
                case Thinking():
                    if part.seal and message.model == target.model:
                        thoughts.append(_thought(part))
                case Text() if part.text:
                    items += [*thoughts, _said_by("assistant", self._words(part.text))]
                    thoughts = []
                case ToolCall():
                    items += [*thoughts, _call(part)]
                    thoughts = []
        return items

    def _words(self, text: str) -> str | Sequence[_Item]:
        """Return words of a reply without the id they had: Codex writes them its own way, others take plain text."""
        return [{"type": "output_text", "text": text}] if self._codex else text


def _cache_key(system: str, pieces: Sequence[bytes]) -> str:
    """Return what sends all requests of a conversation to the same cache: the same, however long it gets."""
    first = pieces[0][:_KEYED] if pieces else b""
    return hashlib.sha256(system.encode(errors="replace") + b"\0" + first).hexdigest()[:32]


def _context(request: Request) -> list[bytes]:
    return [encoded(_said_by("developer", [_input_text(request.context)]))] if request.context else []


def _user(message: UserMessage) -> list[_Item]:
    results: list[_Item] = [
        {"type": "function_call_output", "call_id": wire_id(part.call_id, PLAIN_ID), "output": part.content}
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    content = [
        _input_image(part) if isinstance(part, Image) else _input_text(part.text)
        for part in message.parts
        if isinstance(part, Image) or (isinstance(part, Text) and part.text)
    ]
    return [*results, _said_by("user", content)] if content else results


def _thought(thought: Thinking) -> _Item:
    summary = [{"type": "summary_text", "text": thought.text}] if thought.text else []
    name = {"id": thought.id} if thought.id else {}
    return {"type": "reasoning", **name, "summary": summary, "encrypted_content": thought.seal}


def _call(call: ToolCall) -> _Item:
    written = encoded(call.args).decode()
    name = wire_name(call.name)
    return {"type": "function_call", "call_id": wire_id(call.id, PLAIN_ID), "name": name, "arguments": written}


def _said_by(role: str, content: str | Sequence[_Item]) -> _Item:
    return {"type": "message", "role": role, "content": content}


def _input_text(text: str) -> _Item:
    return {"type": "input_text", "text": text}


def _input_image(image: Image) -> _Item:
    return {"type": "input_image", "image_url": data_url(image), "detail": "auto"}


def _tool(tool: Tool) -> _Item:
    words = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", **words, "strict": False}
