"""Read Chat Completions replies, streamed or complete."""

from collections.abc import Sequence
from typing import Any

import msgspec

from scaffold.core.conversation import AssistantMessage, Delta, Thinking, ToolCallDelta
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent, WireReply
from scaffold.llm.wire.liberal_json import (
    UsageCounts,
    WireObject,
    body_object,
    content_parts,
    event_objects,
    is_last,
    merge_opaque,
    raise_error_in,
    stop_reason,
)
from scaffold.llm.wire.openai_json import (
    NO_ARGUMENTS,
    WireToolCall,
    add_arguments,
    are_complete,
    arguments_text,
    build_tool_calls,
    repeats_arguments,
)
from scaffold.llm.wire.provider_errors import truncated_stream, unreadable_reply
from scaffold.llm.wire.think_tags import ThinkTagSplitter

_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_text")
_THOUGHT_FIELDS = frozenset({*_THOUGHTS, "reasoning_details"})
# What is read of a message, of a call and of its function; the rest comes back to the server as it is.
_MESSAGE = frozenset({"role", "content", "refusal", "tool_calls", "function_call", *_THOUGHTS})
_CALL = frozenset({"index", "id", "type", "function"})
_FUNCTION = frozenset({"name", "arguments"})


class _PartialToolCall:
    """A tool call being streamed; `number` is its position in the reply."""

    def __init__(self, number: int, index: int) -> None:
        self.number = number
        self.index = index
        self.ids: list[str] = []
        """Its own first; some servers give each piece another one."""
        self.name = ""
        self.pieces: list[str] = []
        self.opaque: dict[str, Any] = {}
        self._is_empty_object = False

    def add(self, id_: str, name: str, words: str) -> str:
        """Add the next piece, and return what it adds to the arguments; some servers repeat what they sent before."""
        if id_ and id_ not in self.ids:
            self.ids.append(id_)
        if name != self.name:
            self.name += name
        self._is_empty_object = self._is_empty_object or (not self.pieces and words.strip() in NO_ARGUMENTS)
        return add_arguments(self.pieces, words)

    def ends_before(self, id_: str, name: str, words: str) -> bool:
        """Return True if a piece with this id and name belongs to another call, despite the same index."""
        if not name or not self.name:
            return False
        other = bool(id_ and self.ids and id_ not in self.ids)
        if not self.pieces:
            return other or (self._is_empty_object and not id_)
        if not are_complete(self.pieces):
            return name != self.name
        return other or not (repeats_arguments(self.pieces, words) or (id_ and not words))

    @property
    def is_head(self) -> bool:
        """True if nothing came of its arguments."""
        return not self.pieces and not self._is_empty_object

    @property
    def written(self) -> WireToolCall:
        """The call as received so far."""
        return WireToolCall(self.ids[0] if self.ids else "", self.name, "".join(self.pieces), self.opaque)


class ChatReader:
    """Reads one reply; `[DONE]` or a finish reason says that it is complete."""

    def __init__(self, target: ModelTarget) -> None:
        self._target = target
        self._words = ThinkTagSplitter(tags=target.thinking_tags)
        self._thought_field = ""
        self._calls: list[_PartialToolCall] = []
        self._open: dict[int, _PartialToolCall] = {}
        self._opaque: dict[str, Any] = {}
        self._reply = ""
        self._choice: int | None = None
        self._usage = UsageCounts()
        self._refused = False
        self._finish = ""
        self._done = False

    def feed(self, event: ServerSentEvent) -> Sequence[Delta]:
        """Return the deltas of the event; ModelError if it reports an error or cannot be parsed."""
        if self._done:
            return ()
        deltas = [delta for chunk in event_objects(event) for delta in self._add_chunk(chunk)]
        if is_last(event):
            self._done = True
            deltas += self._words.flush()
        return deltas

    def whole(self, body: bytes) -> WireReply:
        """Return a reply that was not streamed; ModelError if it reports an error, or (transient) cannot be read."""
        chunk = body_object(body)
        self._add_chunk(chunk)
        if not chunk.objects("choices"):
            raise unreadable_reply("the response has no `choices`")
        self._words.flush()
        self._done = True
        return self.end()

    @property
    def complete(self) -> bool:
        """Return True after `[DONE]`. Not every server sends it; the end of the stream can end the reply too."""
        return self._done

    def end(self) -> WireReply:
        """Return the complete reply; ModelError, transient, if nothing says that it is complete."""
        if not self._finish and not (self._done and self._has_output):
            raise truncated_stream()
        # Empty pieces are no call.
        partial = [call for call in self._calls if call.name or call.pieces]
        stop = stop_reason(self._finish, calling=bool(partial), refused=self._refused)
        partial = [] if stop == "refused" else partial
        written = [call.written for call in partial]
        calls, opaque = build_tool_calls(written, reply=self._reply, cut=stop == "max_tokens")
        # Thoughts that had a field of their own keep its name.
        parts = [
            msgspec.structs.replace(part, field=self._thought_field) if isinstance(part, Thinking) else part
            for part in self._words.parts
        ]
        opaque |= {"": self._opaque} if self._opaque else {}
        message = AssistantMessage((*parts, *calls), self._target.model, opaque=opaque)
        return WireReply(message, self._usage.usage(), stop)

    @property
    def _has_output(self) -> bool:
        return bool(self._words.parts or self._calls)

    def _add_chunk(self, chunk: WireObject) -> Sequence[Delta]:
        self._reply = self._reply or chunk.text("id")
        deltas: list[Delta] = []
        for choice in chunk.objects("choices"):
            # Only one choice is requested; servers that leave out its index mean the first.
            index = choice.number("index") or 0
            self._choice = index if self._choice is None else self._choice
            if index == self._choice:
                self._read_choice(choice, deltas)
        self._usage.note(chunk.inner("x_groq").fields.get("usage"))
        self._usage.note(chunk.fields.get("usage"))
        return deltas

    def _read_choice(self, choice: WireObject, deltas: list[Delta]) -> None:
        raise_error_in(choice.fields)
        self._usage.note(choice.fields.get("usage"))
        message = choice.inner("delta")
        # A whole message may repeat what came in pieces.
        if not message.fields and not self._has_output:
            message = choice.inner("message")
        # Most pieces have one field, and there are thousands of them: only what is there is read.
        there = message.unread(frozenset())
        if not there.keys() <= _MESSAGE:
            self._opaque = merge_opaque(self._opaque, message.unread(_MESSAGE))
        if not there.keys().isdisjoint(_THOUGHT_FIELDS):
            deltas += self._words.thought(self._read_thought(message))
        for thought, text in content_parts(there["content"]) if "content" in there else ():
            deltas += self._words.thought(text) if thought else self._words.text(text)
        if "refusal" in there and (refusal := message.text("refusal")):
            self._refused = True
            deltas += self._words.text(refusal)
        calls = message.objects("tool_calls") if "tool_calls" in there else []
        if function := there.get("function_call"):
            calls.append(WireObject({"function": function}))
        deltas += [self._add_call_piece(position, piece) for position, piece in enumerate(calls)]
        if finish := choice.text("finish_reason"):
            self._finish = finish
            deltas += self._words.flush()

    def _read_thought(self, message: WireObject) -> str:
        for name in _THOUGHTS:
            if text := message.text(name):
                if isinstance(message.fields[name], str):
                    self._thought_field = name
                else:
                    # Not only text: it goes back as it came.
                    self._opaque = merge_opaque(self._opaque, {name: message.fields[name]})
                return text
        return message.text("reasoning_details")

    def _add_call_piece(self, position: int, piece: WireObject) -> ToolCallDelta:
        """Add a piece of a call; if it has no index, its position in the chunk identifies the call."""
        function = piece.inner("function")
        opaque = piece.unread(_CALL)
        if more := function.unread(_FUNCTION):
            opaque["function"] = more
        id_, name, words = piece.text("id"), function.text("name"), arguments_text(function.fields.get("arguments"))
        number = piece.number("index")
        index = position if number is None else number
        call = self._call_of(index, id_, name)
        if call is None or call.ends_before(id_, name, words):
            call = self._open[index] = _PartialToolCall(len(self._calls), index)
            self._calls.append(call)
        elif call.pieces and id_ not in {"", *call.ids}:
            self._drop_head_before(call)
        call.opaque = merge_opaque(call.opaque, opaque)
        added = call.add(id_, name, words)
        return ToolCallDelta(call.number, call.name, added)

    def _call_of(self, index: int, id_: str, name: str) -> _PartialToolCall | None:
        """Return the call that a piece can belong to; None if it begins a new one."""
        same = [call for call in reversed(self._calls) if id_ in call.ids]
        call = next((call for call in same if call.index == index), self._open.get(index))
        if call is None and not name and self._calls and (same or not id_):
            # Only a name begins a call, whatever index its pieces have.
            return same[0] if same else self._calls[-1]
        return call

    def _drop_head_before(self, call: _PartialToolCall) -> None:
        """Drop the call before this one if it was its head: its ids change from piece to piece."""
        head = self._calls[call.number - 1]
        if call.number and (head.index, head.name) == (call.index, call.name) and head.is_head:
            self._calls.remove(head)
            call.number -= 1
            call.ids.insert(0, head.ids[0])
