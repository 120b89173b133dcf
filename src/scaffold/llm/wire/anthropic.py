"""Build requests for Anthropic Messages; `anthropic_reader` reads the replies."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
from scaffold.core.run_settings import Effort
from scaffold.llm.wire.anthropic_reader import AnthropicReader
from scaffold.llm.wire.codec import OPAQUE, ModelTarget, OptionalFields, ReplyReader, without_named_field
from scaffold.llm.wire.format import PLAIN_ID, encode_json, request_body, wire_id, wire_name

DEFAULT_MAX_TOKENS = 8192
"""The output limit for models whose limit is unknown; the wire requires a number."""
EMPTY_MESSAGE_TEXT = "(no words)"
"""Replaces an empty user message, which the wire refuses."""
_Json = dict[str, Any]
_CACHED: _Json = {"cache_control": {"type": "ephemeral"}}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})

_OPTIONAL: OptionalFields = (
    (OPAQUE, re.compile("signature")),
    ("anthropic-beta", re.compile(r"anthropic-beta|interleaved")),
    ("thinking", re.compile(r"thinking|budget_tokens")),
    ("output_config.effort", re.compile(r"output_config|effort")),
)
_BUDGETS: Mapping[Effort, int] = {"low": 4_000, "auto": 10_000, "medium": 10_000, "high": 24_000}
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
        blocks = _message_blocks(message, target)
        return _encode_message(message, blocks) if blocks else b""

    def request(self, request: Request, pieces: Sequence[bytes], target: ModelTarget) -> bytes:
        """Return the request's body; only pieces with a cache mark are encoded again."""
        # The wire requires an output limit.
        limits = (limit for limit in (request.max_output_tokens, target.max_output_tokens) if limit is not None)
        max_tokens = min(limits, default=DEFAULT_MAX_TOKENS)
        tools: list[_Json] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in request.tools
        ]
        if tools:
            tools[-1] |= _CACHED
        system = [_text_block(request.system) | _CACHED] if request.system.strip() else []
        if request.context.strip():
            system.append(_text_block(request.context))
        schema = request.answer_schema
        output_format = None if schema is None else {"type": "json_schema", "schema": schema}
        fields: _Json = {"model": target.name, "max_tokens": max_tokens}
        fields |= _without_empty(
            system=system,
            tools=tools,
            thinking=_thinking_field(request, max_tokens, target),
            output_config=_without_empty(effort=_thinking_effort(request, target), format=output_format),
            stream=target.stream,
        )
        return request_body(fields, "messages", _with_cache_marks(request, pieces, target))

    def adapted(self, target: ModelTarget, error: str) -> ModelTarget | None:
        """Return the target without what the error names; None if it names nothing optional."""
        return without_named_field(target, error, _OPTIONAL)

    def reader(self, target: ModelTarget) -> ReplyReader:
        """Return a reader for one streamed reply."""
        return AnthropicReader(target)


def _without_empty(**fields: Any) -> _Json:
    return {name: value for name, value in fields.items() if value}


def _thinking_field(request: Request, max_tokens: int, target: ModelTarget) -> _Json | None:
    if request.effort is None or "thinking" in target.refused:
        return None
    form = target.thinking.form
    # Turning thinking off needs another value in each generation of models.
    if request.effort == "off" and (form == "unknown" or target.thinking.off != "least"):
        off = "disabled" if form == "unknown" else target.thinking.off
        return None if off == "omitted" else {"type": off}
    if form == "adaptive":
        return {"type": "adaptive", "display": "summarized"}
    # Other makers' servers on this wire know the budget; without being asked, they decide for themselves.
    if form == "budget" or (form == "unknown" and request.effort != "auto"):
        # The output limit includes the thoughts, so the other half is left for the reply.
        budget = min(_BUDGETS[request.effort], max_tokens // 2)
        if budget >= _SMALLEST_BUDGET and _has_signed_thinking(request.messages, target):
            return {"type": "enabled", "budget_tokens": budget}
    return None


def _has_signed_thinking(messages: Sequence[Message], target: ModelTarget) -> bool:
    """Return True if thinking may be enabled: the API refuses it in a turn whose first reply is without its thoughts.

    A turn begins with the user's words; replies to results of calls belong to it, and may come without thoughts.
    """
    first: AssistantMessage | None = None
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            first = message
        elif any(not isinstance(part, ToolResult) for part in message.parts):
            break
    return first is None or not first.tool_calls or _message_blocks(first, target)[0]["type"] in _THOUGHTS


def _thinking_effort(request: Request, target: ModelTarget) -> str | None:
    """Return the effort of adaptive thinking; None for the model's own, and where it is off."""
    support = target.thinking
    if support.form != "adaptive" or "output_config.effort" in target.refused or request.effort in {None, "auto"}:
        return None
    if request.effort == "off" and support.off != "least":
        return None
    return support.level(request.effort)


def _with_cache_marks(request: Request, pieces: Sequence[bytes], target: ModelTarget) -> list[bytes]:
    """Return the non-empty pieces, with cache marks on the last one and on the last user message before it.

    The reminder follows the last mark.
    """
    messages = request.messages
    used = [index for index, piece in enumerate(pieces) if piece]
    before = next((index for index in reversed(used[:-1]) if isinstance(messages[index], UserMessage)), None)
    after = {index: [_text_block(request.reminder)] for index in used[-1:] if request.reminder.strip()}
    sent: list[bytes] = []
    for index in used:
        piece = pieces[index]
        if index in {before, *used[-1:]}:
            *others, end = _message_blocks(messages[index], target)
            piece = _encode_message(messages[index], [*others, end | _CACHED, *after.get(index, [])])
        sent.append(piece)
    return sent


def _encode_message(message: Message, blocks: list[_Json]) -> bytes:
    role = "user" if isinstance(message, UserMessage) else "assistant"
    return encode_json({"role": role, "content": blocks})


def _message_blocks(message: Message, target: ModelTarget) -> list[_Json]:
    if isinstance(message, UserMessage):
        results: list[_Json] = [
            {"type": "tool_result", "tool_use_id": wire_id(part.call_id, PLAIN_ID)}
            | _without_empty(content=part.content if part.content.strip() else None, is_error=part.failed)
            for part in message.parts
            if isinstance(part, ToolResult)
        ]
        # The API requires the results of the previous calls before anything else in the message.
        for part in message.parts:
            if isinstance(part, Text) and part.text.strip():
                results.append(_text_block(part.text))
            elif isinstance(part, Image):
                source = {"type": "base64", "media_type": part.media_type, "data": part.data}
                results.append({"type": "image", "source": source})
        return results or [_text_block(EMPTY_MESSAGE_TEXT)]
    mine = target.returns(message)
    opaque = message.opaque if mine else {}
    blocks = [block for part in message.parts for block in _reply_blocks(part, opaque, mine=mine)]
    while blocks and blocks[-1]["type"] in _THOUGHTS:  # the API refuses a reply that ends in thoughts
        blocks.pop()
    return blocks


def _reply_blocks(
    part: Text | Thinking | ToolCall, opaque: Mapping[str, Mapping[str, Any]], *, mine: bool
) -> list[_Json]:
    """Return a reply's part as blocks; none for what the wire refuses: empty text, other models' thoughts."""
    match part:
        case Text(text=text):
            return [_text_block(text)] if text.strip() else []
        case Thinking(text=text, signature=signature) if not mine or not (text or signature):
            return []
        case Thinking(redacted=True, signature=signature):
            return [{"type": "redacted_thinking", "data": signature}]
        case Thinking(text=text, signature=signature):
            # Other makers' servers want thoughts back that they did not sign.
            return [{"type": "thinking", "thinking": text} | _without_empty(signature=signature)]
        case ToolCall(id=call_id, name=name, args=args):
            call = {"type": "tool_use", "id": wire_id(call_id, PLAIN_ID), "name": wire_name(name), "input": args}
            return [{**opaque.get(call_id, {}), **call}]


def _text_block(text: str) -> _Json:
    return {"type": "text", "text": text}
