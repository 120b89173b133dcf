"""Reading Responses: the events of a stream, or a response in one piece, into a reply."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
from scaffold.core.model import Usage
from scaffold.llm.codec import Event, Heard, Target
from scaffold.llm.openai import WrittenCall, complaint, tool_calls, written_arguments
from scaffold.llm.trouble import cut_short, unreadable
from scaffold.llm.wires import decoded


class _Said(Struct):
    """A part of a message or of a thought."""

    text: str | None = None
    refusal: str | None = None


class _Output(Struct):
    """An item of the reply; which fields there are depends on its type."""

    type: str
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    content: list[_Said] | None = None
    summary: list[_Said] | None = None
    encrypted_content: str | None = None


class _Details(Struct):
    cached_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None


class _Why(Struct):
    reason: str | None = None


class _Response(Struct):
    id: str | None = None
    status: str | None = None
    output: list[_Output] | None = None
    usage: _Usage | None = None
    incomplete_details: _Why | None = None
    error: Any = None


class _Happening(Struct):
    """One event of a stream."""

    type: str | None = None
    response: _Response | None = None
    item: _Output | None = None
    output_index: int | None = None
    summary_index: int | None = None
    delta: Any = None
    arguments: Any = None
    error: Any = None
    message: Any = None
    code: Any = None


_HAPPENING = msgspec.json.Decoder(_Happening)
_RESPONSE = msgspec.json.Decoder(_Response)

_WRITES = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}
"""The events that bring more words, and the type of item they are of."""

_INCOMPLETE: Mapping[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refused"}


class _Draft:
    """An item while it is being written."""

    def __init__(self, item: _Output, order: int) -> None:
        self.item = item
        self.order = order
        """Which call of the reply it is, from 0, if it is one."""
        self.pieces: list[str] = []
        self.refused = False
        self.done = False

    @property
    def written(self) -> _Output:
        """The item, whole if the server gave it whole, else as far as it was heard."""
        text = "".join(self.pieces)
        if self.done:
            return self.item
        if self.item.type == "function_call":
            return replace(self.item, arguments=text)
        said = _Said(refusal=text) if self.refused else _Said(text=text)
        return replace(self.item, content=[said], summary=None, encrypted_content=None)


class ResponsesReader:
    """Reads one reply; whole items, and those of the last event before all, count for more than the pieces before."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._drafts: dict[int, _Draft] = {}
        self._response: _Response | None = None

    def feed(self, event: Event) -> Sequence[Delta]:
        """Return what the event adds; ModelTrouble if it reports an error or cannot be read."""
        data = event.data.strip()
        if not data or data == "[DONE]":
            return ()
        happening = decoded(_HAPPENING, data)
        if happening.error:
            raise complaint(happening.error)
        kind = happening.type or event.name
        if kind == "error":
            raise complaint({"message": happening.message, "code": happening.code})
        if kind in _WRITES:
            return self._more(happening, kind)
        return self._turn(happening, kind)

    def take(self, body: bytes) -> None:
        """Take a response that was sent in one piece; ModelTrouble if it is none, or failed."""
        self._last(decoded(_RESPONSE, body))

    @property
    def complete(self) -> bool:
        """Tell whether the last event came."""
        return self._response is not None

    def end(self) -> Heard:
        """Return the whole reply; ModelTrouble, transient, if the stream ended without its last event."""
        if self._response is None:
            raise cut_short()
        items = self._response.output or [draft.written for _, draft in sorted(self._drafts.items())]
        calls = [item for item in items if item.type == "function_call"]
        stop = _stop(self._response, items, calling=bool(calls))
        written = [
            WrittenCall(item.call_id or item.id or "", item.name or "", written_arguments(item.arguments))
            for item in calls
        ]
        ready = iter(tool_calls(written, reply=self._response.id or "", cut=stop == "max_tokens"))
        parts: list[Text | Thinking | ToolCall] = []
        for item in items:
            if item.type == "function_call":
                parts.append(next(ready))
            else:
                parts += _words(item)
        kept = tuple(part for part in parts if stop != "refused" or not isinstance(part, ToolCall))
        return Heard(AssistantMessage(kept, self._target.model), _spent(self._response.usage), stop)

    def _turn(self, happening: _Happening, kind: str) -> Sequence[Delta]:
        if kind in {"response.completed", "response.incomplete", "response.failed"}:
            status = kind.removeprefix("response.")
            self._last(replace(happening.response or _Response(), status=status))
        elif kind == "response.output_item.added" and happening.item:
            return self._begin(happening, happening.item)
        elif kind == "response.output_item.done" and happening.item:
            return self._finish(happening, happening.item)
        elif kind == "response.function_call_arguments.done" and happening.arguments is not None:
            self._draft(happening, "function_call").pieces = [written_arguments(happening.arguments)]
        elif kind == "response.reasoning_summary_part.added" and happening.summary_index:
            self._draft(happening, "reasoning").pieces.append("\n\n")
            return (ThinkingDelta("\n\n"),)
        return ()

    def _last(self, response: _Response) -> None:
        if response.error:
            raise complaint(response.error)
        if response.status not in {"completed", "incomplete"}:
            raise unreadable(f"it ended as `{response.status}`")
        self._response = response

    def _begin(self, happening: _Happening, item: _Output) -> Sequence[Delta]:
        draft = self._draft(happening, item.type)
        draft.item = item
        return (CallDelta(draft.order, item.name or "", ""),) if item.type == "function_call" else ()

    def _more(self, happening: _Happening, kind: str) -> Sequence[Delta]:
        if not isinstance(happening.delta, str) or not happening.delta:
            return ()
        draft = self._draft(happening, _WRITES[kind])
        draft.pieces.append(happening.delta)
        draft.refused = kind == "response.refusal.delta"
        match draft.item.type:
            case "function_call":
                return (CallDelta(draft.order, draft.item.name or "", happening.delta),)
            case "reasoning":
                return (ThinkingDelta(happening.delta),)
            case _:
                return (TextDelta(happening.delta),)

    def _finish(self, happening: _Happening, item: _Output) -> Sequence[Delta]:
        draft = self._draft(happening, item.type)
        told = bool(draft.pieces)
        draft.item, draft.done = item, True
        return () if told else _shown(item, draft.order)

    def _draft(self, happening: _Happening, kind: str) -> _Draft:
        """Return the item an event is about; where it does not say which, it is the one that is not done yet."""
        place = happening.output_index
        if place is None:
            place = sum(draft.done for draft in self._drafts.values())
        if place not in self._drafts:
            calls = sum(draft.item.type == "function_call" for draft in self._drafts.values())
            self._drafts[place] = _Draft(_Output(type=kind), calls)
        return self._drafts[place]


def _shown(item: _Output, order: int) -> Sequence[Delta]:
    """Return an item that came in one piece, as what is heard of it."""
    if item.type == "function_call":
        return (CallDelta(order, item.name or "", written_arguments(item.arguments)),)
    return [
        ThinkingDelta(part.text) if isinstance(part, Thinking) else TextDelta(part.text)
        for part in _words(item)
        if part.text
    ]


def _words(item: _Output) -> Sequence[Text | Thinking]:
    said = [part.text or part.refusal or "" for part in item.content or ()]
    if item.type == "message":
        text = "".join(said)
        return (Text(text),) if text else ()
    if item.type != "reasoning":
        return ()
    thought = "\n\n".join(part.text or "" for part in item.summary or ()) or "".join(said)
    seal = item.encrypted_content or ""
    return (Thinking(thought, seal=seal, id=item.id or "", redacted=not thought),) if thought or seal else ()


def _stop(response: _Response, items: Sequence[_Output], *, calling: bool) -> StopReason:
    if response.status == "incomplete":
        reason = (response.incomplete_details or _Why()).reason or ""
        if reason not in _INCOMPLETE:
            raise unreadable(f"it is incomplete for a reason nobody knows, `{reason}`")
        return _INCOMPLETE[reason]
    if calling:
        return "tool_calls"
    return "refused" if any(part.refusal for item in items for part in item.content or ()) else "end"


def _spent(usage: _Usage | None) -> Usage:
    usage = usage or _Usage()
    details = usage.input_tokens_details or _Details()
    told = usage.input_tokens or 0
    return Usage(
        input_tokens=told,
        cached_input_tokens=min(details.cached_tokens or 0, told),
        output_tokens=usage.output_tokens or 0,
        cost_usd=None,
        requests=1,
    )
