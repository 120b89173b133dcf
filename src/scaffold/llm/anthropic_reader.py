"""Reading Anthropic Messages: the events of a stream, or a message in one piece, into a reply."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.conversation import (
    AssistantMessage,
    CallDelta,
    Delta,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
)
from scaffold.core.errors import ModelTrouble
from scaffold.core.model import Usage
from scaffold.llm.arguments import arguments
from scaffold.llm.codec import Event, Heard, Target
from scaffold.llm.trouble import cut_short, reported, unreadable
from scaffold.llm.wires import decoded

_STOPS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
}
_GROWS_BY: Mapping[str, str] = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}


class _Counts(Struct):
    """Tokens; None where the wire does not say."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None

    def correct(self, later: "_Counts") -> None:
        """Take over what `later` says: its numbers are totals, so nothing is ever added up."""
        for name in self.__struct_fields__:
            total = getattr(later, name)
            if total is not None:
                setattr(self, name, total)

    def usage(self) -> Usage:
        """Return the tokens of this one request; the wire counts cached input apart, we do not."""
        cached, written = self.cache_read_input_tokens or 0, self.cache_creation_input_tokens or 0
        return Usage(
            input_tokens=(self.input_tokens or 0) + written + cached,
            cached_input_tokens=cached,
            written_input_tokens=written,
            output_tokens=self.output_tokens or 0,
            cost_usd=None,
            requests=1,
        )


class _Block(Struct):
    """A piece of a reply as it starts, which is all of it in a reply that was not streamed."""

    type: str
    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    input: Any = None


class _Delta(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None

    def more(self) -> str:
        """Return the words, thoughts or JSON it adds."""
        return self.text or self.thinking or self.partial_json or ""


class _Error(Struct):
    type: str | None = None
    message: str | None = None


class _Message(Struct):
    type: str = ""
    content: list[_Block] = []
    stop_reason: str | None = None
    usage: _Counts | None = None
    error: _Error | None = None


class _Event(Struct):
    """Any event of the wire: each has some of these fields, and others that mean nothing to us."""

    type: str = ""
    index: int = -1
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Counts | None = None
    error: _Error | None = None


_EVENT = msgspec.json.Decoder(_Event)
_MESSAGE = msgspec.json.Decoder(_Message)
_KNOWN = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "error"}
)


class _Growing:
    """A block, and what was added to it; `order` counts the reply's calls from 0."""

    def __init__(self, block: _Block, order: int) -> None:
        self.block = block
        self.order = order
        self.pieces: list[str] = []


class MessageReader:
    """Reads one reply; nothing of it is taken for a call before the end, when it is known why the reply stopped."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._counts: _Counts | None = None
        self._blocks: dict[int, _Growing] = {}
        self._stop_reason: str | None = None
        self._complete = False

    @property
    def complete(self) -> bool:
        """Tell whether `message_stop` came."""
        return self._complete

    def feed(self, event: Event) -> Sequence[Delta]:
        """Return what the event adds; ModelTrouble if it reports an error or cannot be read."""
        wire = None if self._complete else _read(event)
        if wire is None:
            return ()
        if wire.type == "content_block_delta" and wire.delta is not None:
            return self._grow(wire.index, wire.delta)
        if wire.type == "content_block_start" and wire.content_block is not None:
            return self._open(wire.index, wire.content_block)
        if wire.type == "message_start" and wire.message is not None:
            self._start(wire.message)
        elif wire.type == "message_delta":
            self._correct(wire)
        self._complete = wire.type == "message_stop"
        return ()

    def end(self) -> Heard:
        """Return the whole reply; ModelTrouble, transient, if the stream ended before `message_stop`."""
        if not self._complete:
            raise cut_short()
        grown = [(growing.block, "".join(growing.pieces)) for growing in self._blocks.values()]
        return _heard(grown, self._stop_reason, self._counts, self._target)

    def _start(self, message: _Message) -> None:
        if self._counts is not None:
            raise unreadable("it begins twice")
        self._counts = message.usage or _Counts()

    def _open(self, index: int, block: _Block) -> Sequence[Delta]:
        if index in self._blocks:
            raise unreadable(f"its block {index} begins twice")
        order = sum(growing.block.type == "tool_use" for growing in self._blocks.values())
        self._blocks[index] = _Growing(block, order)
        if block.type == "tool_use":
            return (CallDelta(order, block.name or "", ""),)
        if block.type == "text" and block.text:
            return (TextDelta(block.text),)
        return (ThinkingDelta(block.thinking),) if block.type == "thinking" and block.thinking else ()

    def _grow(self, index: int, delta: _Delta) -> Sequence[Delta]:
        growing = self._blocks.get(index)
        if growing is None:
            raise unreadable(f"its block {index} goes on without a beginning")
        kind = growing.block.type
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
        return (CallDelta(growing.order, growing.block.name or "", more),)

    def _correct(self, wire: _Event) -> None:
        if wire.delta is not None:
            self._stop_reason = wire.delta.stop_reason or self._stop_reason
        if self._counts is not None and wire.usage is not None:
            self._counts.correct(wire.usage)


def read_message(body: bytes, target: Target) -> Heard:
    """Return a reply that came in one piece; ModelTrouble if it is an error, or cannot be read (transient)."""
    message = decoded(_MESSAGE, body)
    if message.error is not None:
        raise _reported(message.error)
    return _heard([(block, "") for block in message.content], message.stop_reason, message.usage, target)


def _read(event: Event) -> _Event | None:
    """Return the event; None for one that means nothing to us, whatever it looks like."""
    if not event.data or (event.name and event.name not in _KNOWN):
        return None
    try:
        wire = _EVENT.decode(event.data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        if event.name == "error":
            raise reported("", event.data) from error
        raise unreadable(f"an event is not what the wire allows ({error})") from error
    if wire.error is not None:
        raise _reported(wire.error)
    if event.name == "error":
        raise reported("", event.data)
    return wire


def _reported(error: _Error) -> ModelTrouble:
    return reported(error.type or "", error.message or "")


def _heard(grown: Sequence[tuple[_Block, str]], reason: str | None, counts: _Counts | None, target: Target) -> Heard:
    if reason is None:
        raise unreadable("it does not say why it stopped")
    calls = any(block.type == "tool_use" for block, _ in grown)
    stop = _stop(reason, calls=calls)
    parts: list[Text | Thinking | ToolCall] = []
    ids: set[str] = set()
    for block, more in grown:
        match block.type:
            case "text" if text := (block.text or "") + more:
                parts.append(Text(text))
            case "thinking":
                parts.append(Thinking((block.thinking or "") + more, seal=block.signature or ""))
            case "redacted_thinking":
                parts.append(Thinking("", seal=block.data or "", redacted=True))
            case "tool_use" if stop != "refused":
                parts.append(_call(block, more, ids, cut=stop == "max_tokens"))
    return Heard(AssistantMessage(tuple(parts), target.model), (counts or _Counts()).usage(), stop)


def _stop(reason: str, *, calls: bool) -> StopReason:
    """Return why a reply stopped; calls of a reply that stopped for a reason nobody knows must not be run."""
    stop = _STOPS.get(reason, "max_tokens" if calls else "end")
    if stop in {"end", "tool_calls"}:
        return "tool_calls" if calls else "end"
    return stop


def _call(block: _Block, more: str, ids: set[str], *, cut: bool) -> ToolCall:
    """Return the call with an id that is none of `ids`, to which it is added."""
    call_id = block.id or "call"
    while call_id in ids:
        call_id = f"{call_id}_{len(ids)}"
    ids.add(call_id)
    said = more or msgspec.json.encode(block.input).decode()
    return ToolCall(call_id, block.name or "", arguments(said, cut=cut))
