"""Read Responses replies, streamed or complete."""

from collections.abc import Sequence

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
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent, WireReply
from scaffold.llm.wire.liberal_json import (
    UsageCounts,
    WireObject,
    body_object,
    event_objects,
    is_last,
    plain_text,
    raise_error_in,
    stop_reason,
)
from scaffold.llm.wire.openai_json import WireToolCall, add_arguments, arguments_text, build_tool_calls
from scaffold.llm.wire.provider_errors import truncated_stream, unreadable_reply

# The delta events, and the item type each belongs to.
_TEXT_EVENTS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}
# The events with all of an item's text, and its field.
_WHOLE_EVENTS = {
    "response.output_text.done": ("message", "text"),
    "response.function_call_arguments.done": ("function_call", "arguments"),
}
_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})
# What is read of an item, and what only the server's own storage needs; the rest comes back as it is.
_ITEM = frozenset({"type", "id", "call_id", "name", "arguments", "content", "summary", "encrypted_content"})
_ITEM |= {"role", "status", "object"}


class _PartialItem:
    """An item being streamed, or complete."""

    def __init__(self, item: WireObject, kind: str, index: int | None = None, order: int = 0) -> None:
        self.item = item
        self.kind = kind
        self.index = index
        self.order = order
        """The 0-based number of the tool call, if it is one."""
        self.pieces: list[str] = []
        self.refused = any(part.text("refusal") for part in item.objects("content"))
        self.done = False

    @property
    def written(self) -> WireToolCall:
        """The call as received, with the arguments of the complete item, else of its pieces."""
        given = arguments_text(self.item.fields.get("arguments"))
        given = given if self.done else "".join(self.pieces) or given
        return WireToolCall(self.item.text("call_id", "id"), self.item.text("name"), given, self.item.unread(_ITEM))

    @property
    def parts(self) -> Sequence[Text | Thinking]:
        """The text or the thought of the complete item if the server sent it, else of its pieces."""
        pieces = "".join(self.pieces)
        content = plain_text(self.item.fields.get("content")) if self.done else pieces
        if self.kind == "message":
            return (Text(content),) if content else ()
        if self.kind != "reasoning":
            return ()
        # A summary, where there is one; some servers send the thought itself.
        summary = self.item.fields.get("summary") if self.done else None
        thought = "\n\n".join(map(plain_text, summary)) if isinstance(summary, list) else plain_text(summary)
        thought = thought or content
        signature = self.item.text("encrypted_content") if self.done else ""
        if not thought and not signature:
            return ()
        return (Thinking(thought, signature=signature, id=self.item.text("id"), redacted=not thought),)


class ResponsesReader:
    """Reads one reply; complete items override their pieces, and the items of the last event override all."""

    def __init__(self, target: ModelTarget) -> None:
        self._target = target
        self._drafts: list[_PartialItem] = []
        self._response: WireObject | None = None
        self._usage = UsageCounts()

    def feed(self, event: ServerSentEvent) -> Sequence[Delta]:
        """Return the deltas of the event; ModelError if it reports an error or cannot be parsed."""
        if self.complete:
            return ()
        deltas = [delta for each in event_objects(event) for delta in self._read_event(each, event.name)]
        # What was announced as complete is, also without the last event.
        if is_last(event) and self._drafts and all(draft.done for draft in self._drafts):
            self._response = self._response or WireObject({})
        return deltas

    def whole(self, body: bytes) -> WireReply:
        """Return a reply that was not streamed; ModelError if it reports an error, or (transient) cannot be read."""
        response = body_object(body)
        if not response.fields.get("status") and not response.objects("output"):
            raise unreadable_reply("the response has no `output`")
        self._read_last(response, response.text("status") or "completed")
        return self.end()

    @property
    def complete(self) -> bool:
        """Return True after the last event."""
        return self._response is not None

    def end(self) -> WireReply:
        """Return the complete reply; ModelError, transient, if nothing says that it is complete."""
        if self._response is None:
            raise truncated_stream()
        items = self._items(self._response)
        calls = [item for item in items if item.kind == "function_call"]
        stop = self._stop_reason(items, calling=bool(calls))
        calls = [] if stop == "refused" else calls
        written = [call.written for call in calls]
        made, opaque = build_tool_calls(written, reply=self._response.text("id"), cut=stop == "max_tokens")
        ready = iter(made)
        parts: list[Text | Thinking | ToolCall] = []
        for item in items:
            parts += [next(ready)] if item in calls else item.parts
        # A text has no id; each of a reply's texts is one item.
        texts = [item.item.unread(_ITEM) for item in items if item.kind == "message" and item.parts]
        opaque |= {"": {"texts": texts}} if any(texts) else {}
        message = AssistantMessage(tuple(parts), self._target.model, opaque=opaque)
        return WireReply(message, self._usage.usage(), stop)

    def _items(self, response: WireObject) -> list[_PartialItem]:
        """Return the items of the last event; those that came before if it has less, as with Codex."""
        last = [_PartialItem(item, _kind_of(item)) for item in response.objects("output")]
        for item in last:
            item.done = True
        named = [draft for draft in self._drafts if draft.kind != "function_call" or draft.written.name]

        def content(items: Sequence[_PartialItem]) -> tuple[int, bool, bool]:
            texts = any(item.kind == "message" and item.parts for item in items)
            return sum(item.kind == "function_call" for item in items), texts, bool(items)

        return max(last, sorted(named, key=lambda draft: draft.index or 0), key=content)

    def _stop_reason(self, items: Sequence[_PartialItem], *, calling: bool) -> StopReason:
        response = self._response or WireObject({})
        refused = any(item.refused for item in items)
        if response.fields.get("status") != "incomplete":
            return stop_reason("", calling=calling, refused=refused)
        stop = stop_reason(response.inner("incomplete_details").text("reason"), calling=False)
        # Whatever the reason is, something is missing.
        return "max_tokens" if stop == "end" else stop

    def _read_event(self, event: WireObject, name: str) -> Sequence[Delta]:
        kind = event.text("type") or name
        item = event.inner("item")
        if kind in _LAST_EVENTS:
            response = event.inner("response")
            status = response.text("status") if kind == "response.done" else ""
            self._read_last(response, status or kind.removeprefix("response.").replace("done", "completed"))
        elif kind in _TEXT_EVENTS:
            return self._grow_item(event, kind)
        elif kind in _WHOLE_EVENTS:
            wanted, field = _WHOLE_EVENTS[kind]
            text = arguments_text(event.fields.get(field))
            draft = self._draft_of_event(event, wanted) if text else None
            if draft is not None:
                seen, draft.pieces = draft.pieces, [text]
                return () if seen else self._delta(draft, text)
        elif kind == "response.output_item.added" and item.fields:
            draft = self._draft_of_event(event, _kind_of(item))
            draft.item = item
            return self._delta(draft, "") if draft.kind == "function_call" else ()
        elif kind == "response.output_item.done" and item.fields:
            return self._finish_item(event, item)
        elif kind == "response.reasoning_summary_part.added" and event.number("summary_index"):
            draft = self._draft_of_event(event, "reasoning")
            draft.pieces.append("\n\n")
            return self._delta(draft, "\n\n")
        return ()

    def _read_last(self, response: WireObject, status: str) -> None:
        raise_error_in(response.fields)
        if status not in {"completed", "incomplete"}:
            raise unreadable_reply(f"its final status is `{status}`")
        self._response = WireObject({**response.fields, "status": status})
        self._usage.note(response.fields.get("usage"))

    def _grow_item(self, event: WireObject, kind: str) -> Sequence[Delta]:
        more = plain_text(event.fields.get("delta"))
        if not more:
            return ()
        draft = self._draft_of_event(event, _TEXT_EVENTS[kind])
        if draft.kind == "function_call":
            more = add_arguments(draft.pieces, more)
            return self._delta(draft, more) if more else ()
        draft.pieces.append(more)
        draft.refused = draft.refused or kind == "response.refusal.delta"
        return self._delta(draft, more)

    def _finish_item(self, event: WireObject, item: WireObject) -> Sequence[Delta]:
        draft = self._draft_of_event(event, _kind_of(item))
        streamed = bool(draft.pieces)
        draft.item, draft.done = item, True
        draft.refused = draft.refused or any(part.text("refusal") for part in item.objects("content"))
        if streamed:
            return ()
        if draft.kind == "function_call":
            return self._delta(draft, draft.written.arguments)
        return [delta for part in draft.parts for delta in self._delta(draft, part.text) if part.text]

    @staticmethod
    def _delta(draft: _PartialItem, more: str) -> Sequence[Delta]:
        match draft.kind:
            case "function_call":
                return (ToolCallDelta(draft.order, draft.item.text("name"), more),)
            case "reasoning":
                return (ThinkingDelta(more),)
            case _:
                return (TextDelta(more),)

    def _draft_of_event(self, event: WireObject, kind: str) -> _PartialItem:
        """Return the item of an event: by its id, else the last of its kind and index that is not done."""
        index = event.number("output_index")
        own = event.text("item_id") or event.inner("item").text("id")
        unfinished = [draft for draft in self._drafts if draft.kind == kind and not draft.done]
        for draft in reversed(unfinished):
            if own and own == draft.item.text("id"):
                return draft
        for draft in reversed(unfinished):
            if index is None or draft.index is None or index == draft.index:
                return draft
        calls = sum(draft.kind == "function_call" for draft in self._drafts)
        index = len(self._drafts) if index is None else index
        self._drafts.append(_PartialItem(WireObject({"id": own}), kind, index, calls))
        return self._drafts[-1]


def _kind_of(item: WireObject) -> str:
    return item.text("type") or ("function_call" if "arguments" in item.fields else "message")
