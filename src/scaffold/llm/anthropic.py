"""The wire of Anthropic Messages: what we send; `anthropic_reader` reads what comes back."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from scaffold.core.conversation import (
    AssistantMessage,
    Effort,
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
from scaffold.llm.anthropic_reader import MessageReader, read_message
from scaffold.llm.codec import Heard, Reader, Target
from scaffold.llm.wires import PLAIN_ID, body, encoded, wire_id, wire_name

MAX_TOKENS = 8192
"""What a reply may have where nobody knows what the model may give: the wire demands a number."""

NO_WORDS = "(no words)"
"""Stands for a user's message without any: the wire refuses empty ones."""

_Json = dict[str, Any]
_CACHED: _Json = {"cache_control": {"type": "ephemeral"}}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})

_ADAPTIVE_SINCE, _BUDGET_SINCE = (4, 6), (3, 7)
"""Versions of Claude: what sizes its own thinking, and what thinks within a budget."""

_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[.-](\d{1,2})(?!\d))?")
_BUDGETS: Mapping[Effort, int] = {"low": 4_000, "medium": 10_000, "high": 24_000}
_SMALLEST_BUDGET = 1024


class AnthropicCodec:
    """Speaks Messages.

    Marked for the provider's cache: the base prompt, the last tool, the conversation's end, and where it ended before:
    however many blocks came since, the provider finds what it has.
    """

    path: Final = "/v1/messages"

    def message(self, message: Message, target: Target) -> bytes:
        """Return a message as JSON; empty for a reply of which nothing may be sent back."""
        blocks = _blocks(message, target)
        return _message(message, blocks) if blocks else b""

    def request(self, request: Request, pieces: Sequence[bytes], target: Target) -> bytes:
        """Return the request's body; of the pieces only those that are marked are encoded anew."""
        max_tokens = _max_tokens(request, target)
        fields: _Json = {"model": target.name, "max_tokens": max_tokens}
        fields |= _given(
            system=_system(request),
            tools=_tools(request.tools),
            thinking=_thinking(request, max_tokens, target),
            output_config=_output_config(request, target),
            stream=target.stream,
        )
        return body(fields, "messages", _marked(request.messages, pieces, target))

    def reader(self, target: Target) -> Reader:
        """Return a reader for one streamed reply."""
        return MessageReader(target)

    def whole(self, body: bytes, target: Target) -> Heard:
        """Return the reply in `body`; ModelTrouble if it is an error, or cannot be read (transient)."""
        return read_message(body, target)


def _given(**fields: Any) -> _Json:
    return {name: value for name, value in fields.items() if value}


def _system(request: Request) -> list[_Json]:
    base = [_text(request.system) | _CACHED] if request.system.strip() else []
    return [*base, _text(request.context)] if request.context.strip() else base


def _tools(tools: Sequence[Tool]) -> list[_Json]:
    told = [{"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in tools]
    return [*told[:-1], told[-1] | _CACHED] if told else []


def _max_tokens(request: Request, target: Target) -> int:
    limits = [limit for limit in (request.max_output_tokens, target.max_output_tokens) if limit is not None]
    return min(limits, default=MAX_TOKENS)


def _version(name: str) -> tuple[int, int]:
    """Return the version of Claude in a model's name; a name without one is taken for the newest."""
    found = _VERSION.search(name)
    return (int(found[1]), int(found[2] or 0)) if found else _ADAPTIVE_SINCE


def _thinking(request: Request, max_tokens: int, target: Target) -> _Json | None:
    version = _version(target.name)
    if request.effort is None or version < _BUDGET_SINCE:
        return None
    if version >= _ADAPTIVE_SINCE:
        return {"type": "adaptive", "display": "summarized"}
    budget = min(_BUDGETS[request.effort], max_tokens // 2)
    if budget < _SMALLEST_BUDGET or not _thoughts_are_whole(request.messages, target):
        return None
    return {"type": "enabled", "budget_tokens": budget}


def _thoughts_are_whole(messages: Sequence[Message], target: Target) -> bool:
    """Tell whether the last reply may be gone on with while thinking: calls without their thoughts are refused."""
    last = next((message for message in reversed(messages) if isinstance(message, AssistantMessage)), None)
    return last is None or not last.tool_calls or _blocks(last, target)[0]["type"] in _THOUGHTS


def _output_config(request: Request, target: Target) -> _Json:
    adaptive = _version(target.name) >= _ADAPTIVE_SINCE
    schema = request.answer_schema
    return _given(
        effort=request.effort if adaptive else None,
        format=None if schema is None else {"type": "json_schema", "schema": schema},
    )


def _marked(messages: Sequence[Message], pieces: Sequence[bytes], target: Target) -> list[bytes]:
    """Return the pieces that say something, with the cache's mark at the end of the last and the user's before it."""
    said = [place for place, piece in enumerate(pieces) if piece]
    before = next((place for place in reversed(said[:-1]) if isinstance(messages[place], UserMessage)), None)
    ends = {before, *said[-1:]}
    return [_marked_end(messages[place], target) if place in ends else pieces[place] for place in said]


def _marked_end(message: Message, target: Target) -> bytes:
    *others, end = _blocks(message, target)
    return _message(message, [*others, end | _CACHED])


def _message(message: Message, blocks: list[_Json]) -> bytes:
    role = "user" if isinstance(message, UserMessage) else "assistant"
    return encoded({"role": role, "content": blocks})


def _blocks(message: Message, target: Target) -> list[_Json]:
    if isinstance(message, UserMessage):
        results = [_result(part) for part in message.parts if isinstance(part, ToolResult)]
        return results + _words_and_pictures(message) or [_text(NO_WORDS)]
    mine = message.model == target.model
    blocks = [block for part in message.parts for block in _said(part, mine=mine)]
    while blocks and blocks[-1]["type"] in _THOUGHTS:  # the wire allows no reply to end in thoughts
        blocks.pop()
    return blocks


def _words_and_pictures(message: UserMessage) -> list[_Json]:
    blocks = []
    for part in message.parts:
        if isinstance(part, Text) and part.text.strip():
            blocks.append(_text(part.text))
        elif isinstance(part, Image):
            source = {"type": "base64", "media_type": part.media_type, "data": part.data}
            blocks.append({"type": "image", "source": source})
    return blocks


def _result(result: ToolResult) -> _Json:
    block = {"type": "tool_result", "tool_use_id": wire_id(result.call_id, PLAIN_ID)}
    content = result.content if result.content.strip() else None
    return block | _given(content=content, is_error=result.failed)


def _said(part: Text | Thinking | ToolCall, *, mine: bool) -> list[_Json]:
    """Return a part of a reply as blocks: none for what the wire refuses, as empty text and other models' thoughts."""
    match part:
        case Text(text=text):
            return [_text(text)] if text.strip() else []
        case Thinking(seal=seal) if not mine or not seal:
            return []
        case Thinking(redacted=True, seal=seal):
            return [{"type": "redacted_thinking", "data": seal}]
        case Thinking(text=text, seal=seal):
            return [{"type": "thinking", "thinking": text, "signature": seal}]
        case ToolCall(id=call_id, name=name, args=args):
            return [{"type": "tool_use", "id": wire_id(call_id, PLAIN_ID), "name": wire_name(name), "input": args}]


def _text(text: str) -> _Json:
    return {"type": "text", "text": text}
