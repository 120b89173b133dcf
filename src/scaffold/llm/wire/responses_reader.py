"""Read Responses replies, streamed or complete."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
from scaffold.core.model import Usage
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent, WireReply
from scaffold.llm.wire.format import decode_json, read_usage
from scaffold.llm.wire.openai_json import WireToolCall, arguments_text, build_tool_calls, error_in_stream
from scaffold.llm.wire.provider_errors import truncated_stream, unreadable_reply


class _ContentPart(Struct):
    """A part of a message or of a thought."""

    text: str | None = None
    refusal: str | None = None


class _OutputItem(Struct):
    """An item of the reply; its fields depend on its type."""

    type: str
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    content: list[_ContentPart] | None = None
    summary: list[_ContentPart] | None = None
    encrypted_content: str | None = None


class _InputTokenDetails(Struct):
    cached_tokens: int | None = None


class _ResponsesUsage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _InputTokenDetails | None = None


class _IncompleteDetails(Struct):
    reason: str | None = None


class _ResponseBodyJson(Struct):
    id: str | None = None
    status: str | None = None
    output: list[_OutputItem] | None = None
    usage: Any = None
    """A `_ResponsesUsage`, if it can be read."""
    incomplete_details: _IncompleteDetails | None = None
    error: Any = None


class _ResponsesEvent(Struct):
    """One event of a stream."""

    type: str | None = None
    response: _ResponseBodyJson | None = None
    item: _OutputItem | None = None
    output_index: int | None = None
    summary_index: int | None = None
    delta: Any = None
    arguments: Any = None
    error: Any = None
    message: Any = None
    code: Any = None


_EVENT = msgspec.json.Decoder(_ResponsesEvent)
_RESPONSE = msgspec.json.Decoder(_ResponseBodyJson)

# The delta events, and the item type each belongs to.
_TEXT_EVENTS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}

_INCOMPLETE: Mapping[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refused"}


class _PartialItem:
    """An item being streamed."""

    def __init__(self, item: _OutputItem, order: int) -> None:
        self.item = item
        self.order = order
        """The 0-based number of the tool call, if it is one."""
        self.pieces: list[str] = []
        self.refused = False
        self.done = False

    @property
    def written(self) -> _OutputItem:
        """The complete item if the server sent it, else built from the pieces received."""
        text = "".join(self.pieces)
        if self.done:
            return self.item
        if self.item.type == "function_call":
            return replace(self.item, arguments=text)
        part = _ContentPart(refusal=text) if self.refused else _ContentPart(text=text)
        return replace(self.item, content=[part], summary=None, encrypted_content=None)


class ResponsesReader:
    """Reads one reply; complete items override their pieces, and the items of the last event override all."""

    def __init__(self, target: ModelTarget) -> None:
        self._target = target
        self._drafts: dict[int, _PartialItem] = {}
        self._response: _ResponseBodyJson | None = None

    def feed(self, event: ServerSentEvent) -> Sequence[Delta]:
        """Return the deltas of the event; ModelError if it reports an error or cannot be parsed."""
        data = event.data.strip()
        if not data or data == "[DONE]":
            return ()
        parsed = decode_json(_EVENT, data)
        if parsed.error:
            raise error_in_stream(parsed.error)
        kind = parsed.type or event.name
        if kind == "error":
            raise error_in_stream({"message": parsed.message, "code": parsed.code})
        if kind in _TEXT_EVENTS:
            return self._grow_item(parsed, kind)
        return self._read_turn_event(parsed, kind)

    def take(self, body: bytes) -> None:
        """Read a response that was not streamed; ModelError if it is invalid or failed."""
        self._read_last(decode_json(_RESPONSE, body))

    @property
    def complete(self) -> bool:
        """Return True after the last event."""
        return self._response is not None

    def end(self) -> WireReply:
        """Return the complete reply; ModelError, transient, if the stream ended without its last event."""
        if self._response is None:
            raise truncated_stream()
        # The Codex backend ends with an empty output; the items came one by one before.
        items = self._response.output or [draft.written for _, draft in sorted(self._drafts.items())]
        calls = [item for item in items if item.type == "function_call"]
        stop = _stop_reason(self._response, items, calling=bool(calls))
        written = [
            WireToolCall(item.call_id or item.id or "", item.name or "", arguments_text(item.arguments))
            for item in calls
        ]
        ready = iter(build_tool_calls(written, reply=self._response.id or "", cut=stop == "max_tokens"))
        parts: list[Text | Thinking | ToolCall] = []
        for item in items:
            if item.type == "function_call":
                parts.append(next(ready))
            else:
                parts += _item_text(item)
        kept = tuple(part for part in parts if stop != "refused" or not isinstance(part, ToolCall))
        reported = read_usage(_ResponsesUsage, self._response.usage) or _ResponsesUsage()
        usage = Usage(
            input_tokens=reported.input_tokens or 0,
            cached_input_tokens=(reported.input_tokens_details or _InputTokenDetails()).cached_tokens or 0,
            output_tokens=reported.output_tokens or 0,
            cost_usd=None,
            requests=1,
        )
        return WireReply(AssistantMessage(kept, self._target.model), usage, stop)

    def _read_turn_event(self, event: _ResponsesEvent, kind: str) -> Sequence[Delta]:
        if kind in {"response.completed", "response.incomplete", "response.failed"}:
            status = kind.removeprefix("response.")
            self._read_last(replace(event.response or _ResponseBodyJson(), status=status))
        elif kind == "response.output_item.added" and event.item:
            draft = self._draft_of_event(event, event.item.type)
            draft.item = event.item
            if event.item.type == "function_call":
                return (ToolCallDelta(draft.order, event.item.name or "", ""),)
        elif kind == "response.output_item.done" and event.item:
            return self._finish_item(event, event.item)
        elif kind == "response.function_call_arguments.done" and event.arguments is not None:
            self._draft_of_event(event, "function_call").pieces = [arguments_text(event.arguments)]
        elif kind == "response.reasoning_summary_part.added" and event.summary_index:
            self._draft_of_event(event, "reasoning").pieces.append("\n\n")
            return (ThinkingDelta("\n\n"),)
        return ()

    def _read_last(self, response: _ResponseBodyJson) -> None:
        if response.error:
            raise error_in_stream(response.error)
        if response.status not in {"completed", "incomplete"}:
            raise unreadable_reply(f"its final status is `{response.status}`")
        self._response = response

    def _grow_item(self, event: _ResponsesEvent, kind: str) -> Sequence[Delta]:
        if not isinstance(event.delta, str) or not event.delta:
            return ()
        draft = self._draft_of_event(event, _TEXT_EVENTS[kind])
        draft.pieces.append(event.delta)
        draft.refused = kind == "response.refusal.delta"
        match draft.item.type:
            case "function_call":
                return (ToolCallDelta(draft.order, draft.item.name or "", event.delta),)
            case "reasoning":
                return (ThinkingDelta(event.delta),)
            case _:
                return (TextDelta(event.delta),)

    def _finish_item(self, event: _ResponsesEvent, item: _OutputItem) -> Sequence[Delta]:
        draft = self._draft_of_event(event, item.type)
        streamed = bool(draft.pieces)
        draft.item, draft.done = item, True
        if streamed:
            return ()
        if item.type == "function_call":
            return (ToolCallDelta(draft.order, item.name or "", arguments_text(item.arguments)),)
        return [
            ThinkingDelta(part.text) if isinstance(part, Thinking) else TextDelta(part.text)
            for part in _item_text(item)
            if part.text
        ]

    def _draft_of_event(self, event: _ResponsesEvent, kind: str) -> _PartialItem:
        """Return the item of an event; without an index, the first item that is not done."""
        index = event.output_index
        if index is None:
            # Items without an index come one after another.
            index = sum(draft.done for draft in self._drafts.values())
        if index not in self._drafts:
            calls = sum(draft.item.type == "function_call" for draft in self._drafts.values())
            self._drafts[index] = _PartialItem(_OutputItem(type=kind), calls)
        return self._drafts[index]


def _item_text(item: _OutputItem) -> Sequence[Text | Thinking]:
    texts = [part.text or part.refusal or "" for part in item.content or ()]
    if item.type == "message":
        text = "".join(texts)
        return (Text(text),) if text else ()
    if item.type != "reasoning":
        return ()
    # A summary, where there is one; some servers send the thought itself.
    thought = "\n\n".join(part.text or "" for part in item.summary or ()) or "".join(texts)
    signature = item.encrypted_content or ""
    if not thought and not signature:
        return ()
    return (Thinking(thought, signature=signature, id=item.id or "", redacted=not thought),)


def _stop_reason(response: _ResponseBodyJson, items: Sequence[_OutputItem], *, calling: bool) -> StopReason:
    if response.status == "incomplete":
        reason = (response.incomplete_details or _IncompleteDetails()).reason or ""
        if reason not in _INCOMPLETE:
            raise unreadable_reply(f"it is incomplete for the unknown reason `{reason}`")
        return _INCOMPLETE[reason]
    if calling:
        return "tool_calls"
    return "refused" if any(part.refusal for item in items for part in item.content or ()) else "end"
