"""Read Anthropic Messages replies, streamed or complete."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.conversation import (
    AssistantMessage,
    Delta,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
)
from scaffold.core.errors import ModelError
from scaffold.core.model import Usage
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent, WireReply
from scaffold.llm.wire.format import decode_json, parse_arguments, read_usage
from scaffold.llm.wire.provider_errors import reported_error, truncated_stream, unreadable_reply

_STOPS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "paused",
    "tool_use": "tool_calls",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
}
_GROWS_BY: Mapping[str, str] = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}


class _AnthropicUsage(Struct):
    """Token counts; None if not reported."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None

    def correct(self, later: "_AnthropicUsage") -> None:
        """Overwrite with the counts in `later`: they are totals, so nothing is added up, and 0 says nothing."""
        for name in self.__struct_fields__:
            # Proxies repeat the counts of the beginning as 0.
            if total := getattr(later, name):
                setattr(self, name, total)

    def usage(self) -> Usage:
        """Return the usage of this request; unlike the wire, our `input_tokens` include cached input."""
        cached, written = self.cache_read_input_tokens or 0, self.cache_creation_input_tokens or 0
        return Usage(
            input_tokens=(self.input_tokens or 0) + written + cached,
            cached_input_tokens=cached,
            cache_write_tokens=written,
            output_tokens=self.output_tokens or 0,
            cost_usd=None,
            requests=1,
        )


class _ContentBlock(Struct):
    """A content block at its start; in a reply that was not streamed, the complete block."""

    type: str
    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    input: Any = None


class _BlockDelta(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None

    def more(self) -> str:
        """Return the added text, thought or JSON."""
        return self.text or self.thinking or self.partial_json or ""


class _AnthropicError(Struct):
    type: str | None = None
    message: str | None = None


class _AnthropicMessage(Struct):
    type: str = ""
    content: list[_ContentBlock] = []
    stop_reason: str | None = None
    usage: Any = None
    """An `_AnthropicUsage`, if it can be read."""
    error: _AnthropicError | None = None


class _AnthropicEvent(Struct):
    """Any event of the stream: each has some of these fields, and others that we ignore."""

    type: str = ""
    index: int = -1
    message: _AnthropicMessage | None = None
    content_block: _ContentBlock | None = None
    delta: _BlockDelta | None = None
    usage: Any = None
    error: _AnthropicError | None = None


_EVENT = msgspec.json.Decoder(_AnthropicEvent)
_MESSAGE = msgspec.json.Decoder(_AnthropicMessage)
_KNOWN = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "error"}
)


class _PartialBlock:
    """A block and the pieces added to it; `order` is the 0-based number of the tool call."""

    def __init__(self, block: _ContentBlock, order: int) -> None:
        self.block = block
        self.order = order
        self.pieces: list[str] = []


class AnthropicReader:
    """Reads one reply; tool calls are built only at the end, when the stop reason is known."""

    def __init__(self, target: ModelTarget) -> None:
        self._target = target
        self._counts: _AnthropicUsage | None = None
        self._blocks: dict[int, _PartialBlock] = {}
        self._stop_reason: str | None = None
        self._complete = False

    @property
    def complete(self) -> bool:
        """Return True after `message_stop`."""
        return self._complete

    def feed(self, event: ServerSentEvent) -> Sequence[Delta]:
        """Return the deltas of the event; ModelError if it reports an error or cannot be parsed."""
        wire = None if self._complete else _read_event(event)
        if wire is None:
            return ()
        if wire.type == "content_block_delta" and wire.delta is not None:
            return self._grow_block(wire.index, wire.delta)
        if wire.type == "content_block_start" and wire.content_block is not None:
            return self._open_block(wire.index, wire.content_block)
        if wire.type == "message_start" and wire.message is not None:
            if self._counts is not None:
                raise unreadable_reply("it has two `message_start` events")
            self._counts = read_usage(_AnthropicUsage, wire.message.usage) or _AnthropicUsage()
        elif wire.type == "message_delta":
            self._correct_usage(wire)
        self._complete = wire.type == "message_stop"
        return ()

    def end(self) -> WireReply:
        """Return the complete reply; ModelError, transient, if the stream ended before `message_stop`."""
        if not self._complete:
            raise truncated_stream()
        grown = [(growing.block, "".join(growing.pieces)) for growing in self._blocks.values()]
        return _wire_reply(grown, self._stop_reason, self._counts, self._target)

    def _open_block(self, index: int, block: _ContentBlock) -> Sequence[Delta]:
        if index in self._blocks:
            raise unreadable_reply(f"its block {index} starts twice")
        # Calls are numbered among themselves, whatever stands between them.
        order = sum(growing.block.type == "tool_use" for growing in self._blocks.values())
        self._blocks[index] = _PartialBlock(block, order)
        if block.type == "tool_use":
            return (ToolCallDelta(order, block.name or "", ""),)
        if block.type == "text" and block.text:
            return (TextDelta(block.text),)
        return (ThinkingDelta(block.thinking),) if block.type == "thinking" and block.thinking else ()

    def _grow_block(self, index: int, delta: _BlockDelta) -> Sequence[Delta]:
        growing = self._blocks.get(index)
        if growing is None:
            raise unreadable_reply(f"its block {index} continues without a start")
        kind = growing.block.type
        # A signature comes after the thought that it is for.
        if kind == "thinking" and delta.type == "signature_delta":
            growing.block.signature = delta.signature
        more = delta.more() if _GROWS_BY.get(kind) == delta.type else ""
        if not more:
            return ()
        growing.pieces.append(more)
        if kind == "text":
            return (TextDelta(more),)
        if kind == "thinking":
            return (ThinkingDelta(more),)
        return (ToolCallDelta(growing.order, growing.block.name or "", more),)

    def _correct_usage(self, wire: _AnthropicEvent) -> None:
        if wire.delta is not None:
            self._stop_reason = wire.delta.stop_reason or self._stop_reason
        if self._counts is not None and (later := read_usage(_AnthropicUsage, wire.usage)) is not None:
            self._counts.correct(later)


def read_message(body: bytes, target: ModelTarget) -> WireReply:
    """Return a reply that was not streamed; ModelError if it is an error, or (transient) cannot be parsed."""
    message = decode_json(_MESSAGE, body)
    if message.error is not None:
        raise _stream_error(message.error)
    counts = read_usage(_AnthropicUsage, message.usage)
    return _wire_reply([(block, "") for block in message.content], message.stop_reason, counts, target)


def _read_event(event: ServerSentEvent) -> _AnthropicEvent | None:
    """Return the parsed event; None for unknown events, which are not parsed."""
    if not event.data or (event.name and event.name not in _KNOWN):
        return None
    try:
        wire = _EVENT.decode(event.data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        if event.name == "error":
            raise reported_error("", event.data) from error
        raise unreadable_reply(f"an event does not match the wire format ({error})") from error
    if wire.error is not None:
        raise _stream_error(wire.error)
    if event.name == "error":
        raise reported_error("", event.data)
    return wire


def _stream_error(error: _AnthropicError) -> ModelError:
    return reported_error(error.type or "", error.message or "")


def _wire_reply(
    grown: Sequence[tuple[_ContentBlock, str]], reason: str | None, counts: _AnthropicUsage | None, target: ModelTarget
) -> WireReply:
    if reason is None:
        raise unreadable_reply("it has no stop reason")
    calls = any(block.type == "tool_use" for block, _ in grown)
    # After an unknown reason calls count as truncated, so that they are not run.
    stop = _STOPS.get(reason, "max_tokens" if calls else "end")
    if stop in {"end", "paused", "tool_calls"}:
        stop = "tool_calls" if calls else "paused" if stop == "paused" else "end"
    parts: list[Text | Thinking | ToolCall] = []
    ids: set[str] = set()
    for block, more in grown:
        match block.type:
            case "text" if text := (block.text or "") + more:
                parts.append(Text(text))
            case "thinking":
                parts.append(Thinking((block.thinking or "") + more, signature=block.signature or ""))
            case "redacted_thinking":
                parts.append(Thinking("", signature=block.data or "", redacted=True))
            case "tool_use" if stop != "refused":
                parts.append(_tool_call(block, more, ids, cut=stop == "max_tokens"))
    return WireReply(AssistantMessage(tuple(parts), target.model), (counts or _AnthropicUsage()).usage(), stop)


def _tool_call(block: _ContentBlock, more: str, ids: set[str], *, cut: bool) -> ToolCall:
    """Return the call with an id not in `ids`, and add the id to `ids`."""
    call_id = block.id or "call"
    while call_id in ids:
        call_id = f"{call_id}_{len(ids)}"
    ids.add(call_id)
    # A reply that was not streamed, and a call without arguments, has no pieces but a complete `input`.
    arguments = more or msgspec.json.encode(block.input).decode()
    return ToolCall(call_id, block.name or "", parse_arguments(arguments, cut=cut))
