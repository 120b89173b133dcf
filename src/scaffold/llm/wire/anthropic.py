"""Build requests for Anthropic Messages; `anthropic_reader` reads the replies."""

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
from scaffold.llm.wire.anthropic_reader import AnthropicReader, read_message
from scaffold.llm.wire.codec import ModelTarget, ReplyReader, WireReply
from scaffold.llm.wire.format import PLAIN_ID, encode_json, request_body, wire_id, wire_name

DEFAULT_MAX_TOKENS = 8192
"""The output limit for models whose limit is unknown; the wire requires a number."""

EMPTY_MESSAGE_TEXT = "(no words)"
"""Replaces an empty user message, which the wire refuses."""

_Json = dict[str, Any]
_CACHED: _Json = {"cache_control": {"type": "ephemeral"}}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})

_ADAPTIVE_SINCE, _BUDGET_SINCE = (4, 6), (3, 7)
"""First Claude versions with adaptive thinking, and with a thinking budget."""

_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[.-](\d{1,2})(?!\d))?")
_BUDGETS: Mapping[Effort, int] = {"low": 4_000, "medium": 10_000, "high": 24_000}
# The API refuses smaller budgets.
_SMALLEST_BUDGET = 1024


class AnthropicCodec:
    """Translates to and from Messages.

    Cache marks are set on the base prompt, the last tool, the end of the conversation, and its end in the previous
    request, so that the provider finds the cached prefix however many blocks were added since.
    """

    path: Final = "/v1/messages"

    def message(self, message: Message, target: ModelTarget) -> bytes:
        """Return a message as JSON; empty for a reply without any part that may be sent back."""
        blocks = _blocks(message, target)
        return _message(message, blocks) if blocks else b""

    def request(self, request: Request, pieces: Sequence[bytes], target: ModelTarget) -> bytes:
        """Return the request's body; only pieces with a cache mark are encoded again."""
        max_tokens = _max_tokens(request, target)
        fields: _Json = {"model": target.name, "max_tokens": max_tokens}
        fields |= _without_empty(
            system=_system(request),
            tools=_tools(request.tools),
            thinking=_thinking(request, max_tokens, target),
            output_config=_output_config(request, target),
            stream=target.stream,
        )
        return request_body(fields, "messages", _with_cache_marks(request.messages, pieces, target))

    def reader(self, target: ModelTarget) -> ReplyReader:
        """Return a reader for one streamed reply."""
        return AnthropicReader(target)

    def whole(self, body: bytes, target: ModelTarget) -> WireReply:
        """Return the reply in `body`; ModelError if it is an error, or (transient) cannot be parsed."""
        return read_message(body, target)


def _without_empty(**fields: Any) -> _Json:
    return {name: value for name, value in fields.items() if value}


def _system(request: Request) -> list[_Json]:
    base = [_text(request.system) | _CACHED] if request.system.strip() else []
    return [*base, _text(request.context)] if request.context.strip() else base


def _tools(tools: Sequence[Tool]) -> list[_Json]:
    described = [{"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in tools]
    return [*described[:-1], described[-1] | _CACHED] if described else []


def _max_tokens(request: Request, target: ModelTarget) -> int:
    limits = [limit for limit in (request.max_output_tokens, target.max_output_tokens) if limit is not None]
    return min(limits, default=DEFAULT_MAX_TOKENS)


def _version(name: str) -> tuple[int, int]:
    """Return the Claude version in a model's name; a name without one counts as the newest."""
    found = _VERSION.search(name)
    return (int(found[1]), int(found[2] or 0)) if found else _ADAPTIVE_SINCE


def _thinking(request: Request, max_tokens: int, target: ModelTarget) -> _Json | None:
    version = _version(target.name)
    if request.effort is None or version < _BUDGET_SINCE:
        return None
    if version >= _ADAPTIVE_SINCE:
        return {"type": "adaptive", "display": "summarized"}
    # The output limit includes the thoughts, so the other half is left for the reply.
    budget = min(_BUDGETS[request.effort], max_tokens // 2)
    if budget < _SMALLEST_BUDGET or not _has_signed_thinking(request.messages, target):
        return None
    return {"type": "enabled", "budget_tokens": budget}


def _has_signed_thinking(messages: Sequence[Message], target: ModelTarget) -> bool:
    """Return True if thinking may be enabled: the API refuses it after a reply with calls but without its thoughts."""
    last = next((message for message in reversed(messages) if isinstance(message, AssistantMessage)), None)
    return last is None or not last.tool_calls or _blocks(last, target)[0]["type"] in _THOUGHTS


def _output_config(request: Request, target: ModelTarget) -> _Json:
    adaptive = _version(target.name) >= _ADAPTIVE_SINCE
    schema = request.answer_schema
    return _without_empty(
        effort=request.effort if adaptive else None,
        format=None if schema is None else {"type": "json_schema", "schema": schema},
    )


def _with_cache_marks(messages: Sequence[Message], pieces: Sequence[bytes], target: ModelTarget) -> list[bytes]:
    """Return the non-empty pieces, with cache marks on the last one and on the last user message before it."""
    used = [index for index, piece in enumerate(pieces) if piece]
    before = next((index for index in reversed(used[:-1]) if isinstance(messages[index], UserMessage)), None)
    marked = {before, *used[-1:]}
    return [_with_cache_mark(messages[index], target) if index in marked else pieces[index] for index in used]


def _with_cache_mark(message: Message, target: ModelTarget) -> bytes:
    *others, end = _blocks(message, target)
    return _message(message, [*others, end | _CACHED])


def _message(message: Message, blocks: list[_Json]) -> bytes:
    role = "user" if isinstance(message, UserMessage) else "assistant"
    return encode_json({"role": role, "content": blocks})


def _blocks(message: Message, target: ModelTarget) -> list[_Json]:
    if isinstance(message, UserMessage):
        results = [_result(part) for part in message.parts if isinstance(part, ToolResult)]
        # The API requires the results of the previous calls before anything else in the message.
        return results + _user_blocks(message) or [_text(EMPTY_MESSAGE_TEXT)]
    mine = message.model == target.model
    blocks = [block for part in message.parts for block in _reply_blocks(part, mine=mine)]
    while blocks and blocks[-1]["type"] in _THOUGHTS:  # the API refuses a reply that ends in thoughts
        blocks.pop()
    return blocks


def _user_blocks(message: UserMessage) -> list[_Json]:
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
    return block | _without_empty(content=content, is_error=result.failed)


def _reply_blocks(part: Text | Thinking | ToolCall, *, mine: bool) -> list[_Json]:
    """Return a reply's part as blocks; none for what the wire refuses: empty text, other models' thoughts."""
    match part:
        case Text(text=text):
            return [_text(text)] if text.strip() else []
        case Thinking(signature=signature) if not mine or not signature:
            return []
        case Thinking(redacted=True, signature=signature):
            return [{"type": "redacted_thinking", "data": signature}]
        case Thinking(text=text, signature=signature):
            return [{"type": "thinking", "thinking": text, "signature": signature}]
        case ToolCall(id=call_id, name=name, args=args):
            return [{"type": "tool_use", "id": wire_id(call_id, PLAIN_ID), "name": wire_name(name), "input": args}]


def _text(text: str) -> _Json:
    return {"type": "text", "text": text}
