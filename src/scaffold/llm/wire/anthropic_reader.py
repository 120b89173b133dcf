"""Read Anthropic Messages replies, streamed or complete."""

from collections.abc import Mapping, Sequence

from scaffold.core.conversation import AssistantMessage, Delta, Text, TextDelta, Thinking, ThinkingDelta, ToolCallDelta
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent, WireReply
from scaffold.llm.wire.liberal_json import UsageCounts, WireObject, body_object, event_objects, is_last, stop_reason
from scaffold.llm.wire.openai_json import WireToolCall, add_arguments, arguments_text, build_tool_calls
from scaffold.llm.wire.provider_errors import truncated_stream, unreadable_reply

# The kind of block that each kind of delta belongs to.
_GROWS: Mapping[str, str] = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}
_TOOL_USE = frozenset({"type", "id", "name", "input"})
_KNOWN = frozenset(
    {"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"}
    | {"message_stop", "error", "message", ""}
)


class _PartialBlock:
    """A block and the pieces added to it; `order` is the 0-based number of the tool call."""

    def __init__(self, block: WireObject, kind: str, order: int) -> None:
        self.block = block
        self.kind = kind
        self.order = order
        self.pieces: list[str] = []
        self.signature = block.text("signature")
        self.done = False

    @property
    def written(self) -> WireToolCall:
        """The call as received, with the arguments of its pieces, else of its start."""
        arguments = "".join(self.pieces) or arguments_text(self.block.fields.get("input"))
        return WireToolCall(self.block.text("id"), self.block.text("name"), arguments, self.block.unread(_TOOL_USE))

    @property
    def text(self) -> str:
        """The text of a text or a thought."""
        return self.block.text(self.kind) + "".join(self.pieces)


class AnthropicReader:
    """Reads one reply; tool calls are built only at the end, when the stop reason is known."""

    def __init__(self, target: ModelTarget) -> None:
        self._target = target
        self._usage = UsageCounts()
        self._message: WireObject | None = None
        self._blocks: list[_PartialBlock] = []
        self._open: dict[int, _PartialBlock] = {}
        self._stop_reason = ""
        self._complete = False

    @property
    def complete(self) -> bool:
        """Return True after `message_stop`."""
        return self._complete

    def feed(self, event: ServerSentEvent) -> Sequence[Delta]:
        """Return the deltas of the event; ModelError if it reports an error or cannot be parsed."""
        # Unknown events are not parsed.
        if self._complete or event.name not in _KNOWN:
            return ()
        self._complete = is_last(event)
        return [delta for wire in event_objects(event) for delta in self._read_event(wire, event.name)]

    def whole(self, body: bytes) -> WireReply:
        """Return a reply that was not streamed; ModelError if it reports an error, or (transient) cannot be read."""
        self._start_message(body_object(body))
        self._complete = True
        return self.end()

    def end(self) -> WireReply:
        """Return the complete reply; ModelError, transient, if nothing says that it is complete."""
        if not self._blocks and self._message is not None:
            self._take_content(self._message)
        if not self._stop_reason and not (self._complete and self._blocks):
            raise unreadable_reply("it has no stop reason") if self._complete else truncated_stream()
        calls = [block for block in self._blocks if block.kind == "tool_use"]
        stop = stop_reason(self._stop_reason, calling=bool(calls))
        # They would get no results, and the wire refuses a history with calls that have none.
        calls = [] if stop == "refused" else calls
        reply = self._message.text("id") if self._message else ""
        made, opaque = build_tool_calls([call.written for call in calls], reply=reply, cut=stop == "max_tokens")
        ready = iter(made)
        parts = [next(ready) if block in calls else _text_part(block) for block in self._blocks]
        message = AssistantMessage(tuple(filter(None, parts)), self._target.model, opaque=opaque)
        return WireReply(message, self._usage.usage(apart=True), stop)

    def _read_event(self, wire: WireObject, name: str) -> Sequence[Delta]:
        match wire.text("type") or name:
            case "message_start":
                self._start_message(wire.inner("message"))
            case "content_block_start":
                return self._open_block(wire.number("index"), wire.inner("content_block"))
            case "content_block_delta":
                return self._grow_block(wire.number("index"), wire.inner("delta"))
            case "content_block_stop":
                return self._close_block(wire.number("index"))
            case "message_delta":
                self._stop_reason = wire.inner("delta").text("stop_reason") or self._stop_reason
                self._usage.note(wire.fields.get("usage"))
            case "message_stop":
                self._complete = True
            case "message":  # the whole message in one event
                self._start_message(wire)
                self._complete = True
        return ()

    def _start_message(self, message: WireObject) -> None:
        if self._blocks:
            raise unreadable_reply("it begins twice")
        self._message = message
        self._stop_reason = message.text("stop_reason")
        self._usage.note(message.fields.get("usage"))

    def _take_content(self, message: WireObject) -> None:
        content = message.fields.get("content")
        blocks = message.objects("content") if not isinstance(content, str) else [WireObject({"text": content})]
        for block in blocks:
            self._open_block(None, block)

    def _open_block(self, index: int | None, block: WireObject) -> Sequence[Delta]:
        order = sum(known.kind == "tool_use" for known in self._blocks)
        opened = _PartialBlock(block, block.text("type") or "text", order)
        known = self._open.get(len(self._blocks) if index is None else index)
        if known and known.block.fields == block.fields and not known.pieces and not known.done:
            return ()
        self._open[len(self._blocks) if index is None else index] = opened
        self._blocks.append(opened)
        if opened.kind == "tool_use":
            return (ToolCallDelta(order, block.text("name"), ""),)
        return _text_delta(opened, opened.text)

    def _grow_block(self, index: int | None, delta: WireObject) -> Sequence[Delta]:
        growing = self._blocks[-1] if index is None and self._blocks else self._open.get(index or 0)
        # A signature comes after the thought that it is for.
        if growing is not None and (signature := delta.text("signature")):
            growing.signature = signature
        more = delta.text("text", "thinking") or arguments_text(delta.fields.get("partial_json"))
        kind = _GROWS.get(delta.text("type"))
        if not more or kind is None or (growing is not None and growing.kind not in _GROWS.values()):
            return ()
        if growing is None or growing.kind != kind:
            if kind == "tool_use":
                raise unreadable_reply("a call continues without a start")
            # Some servers leave out the start of a block, or begin one of another kind.
            self._open_block(index, WireObject({"type": kind}))
            growing = self._blocks[-1]
        if kind == "tool_use":
            more = add_arguments(growing.pieces, more)
            return (ToolCallDelta(growing.order, growing.block.text("name"), more),) if more else ()
        growing.pieces.append(more)
        return _text_delta(growing, more)

    def _close_block(self, index: int | None) -> Sequence[Delta]:
        block = self._open.get(len(self._blocks) - 1 if index is None else index)
        if block is None or block.done:
            return ()
        block.done = True
        given = "" if block.pieces or block.kind != "tool_use" else block.written.arguments
        return (ToolCallDelta(block.order, block.block.text("name"), given),) if given else ()


def _text_delta(block: _PartialBlock, text: str) -> Sequence[Delta]:
    if not text:
        return ()
    return (TextDelta(text),) if block.kind == "text" else (ThinkingDelta(text),) if block.kind == "thinking" else ()


def _text_part(block: _PartialBlock) -> Text | Thinking | None:
    match block.kind:
        case "text" if block.text:
            return Text(block.text)
        case "thinking":
            return Thinking(block.text, signature=block.signature)
        case "redacted_thinking":
            return Thinking("", signature=block.block.text("data"), redacted=True)
    return None
