"""Reading Chat Completions: the chunks of a stream, or a reply in one piece, into ours."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.conversation import AssistantMessage, CallDelta, Delta, StopReason
from scaffold.core.model import Usage
from scaffold.llm.codec import Event, Heard, Target
from scaffold.llm.openai import WrittenCall, complaint, tool_calls, written_arguments
from scaffold.llm.trouble import cut_short, unreadable
from scaffold.llm.wires import decoded
from scaffold.llm.words import Words

_STOPS: Mapping[str, StopReason] = {
    "stop": "end",
    "eos_token": "end",
    "stop_sequence": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refused",
}


class _Function(Struct):
    name: str | None = None
    arguments: Any = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Said(Struct):
    """What a chunk adds, or all of it."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None


class _Details(Struct):
    cached_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Chunk(Struct):
    """One event, or a whole body; `error`, or `object` and `message`, are how a server reports trouble after a 200."""

    id: str | None = None
    object: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    message: Any = None
    type: Any = None
    code: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


class _OpenCall:
    """A call that is being written; `number` is its place in the reply."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self._arguments: list[str] = []

    def add(self, id_: str, name: str, words: str) -> None:
        """Take the next piece; servers that repeat id and name in each say nothing new by it."""
        self.id = self.id or id_
        if name != self.name:
            self.name += name
        self._arguments.append(words)

    def ends_before(self, id_: str, name: str) -> bool:
        """Tell whether a piece with this id and name is another call's, though it claims this one's place."""
        if id_ and self.id and id_ != self.id:
            return True
        return bool(name and self.name) and _is_object("".join(self._arguments))

    @property
    def written(self) -> WrittenCall:
        """The call so far."""
        return WrittenCall(self.id, self.name, "".join(self._arguments))


class ChatReader:
    """Reads one reply; it is over where `[DONE]` says so, and whole where a finish reason was given."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._words = Words(tags=target.thinking_tags)
        self._calls: list[_OpenCall] = []
        self._open: dict[int, _OpenCall] = {}
        self._reply = ""
        self._usage = _Usage()
        self._refused = False
        self._finish = ""
        self._done = False

    def feed(self, event: Event) -> Sequence[Delta]:
        """Return what the event adds; ModelTrouble if it reports an error or cannot be read."""
        data = event.data.strip()
        if data == "[DONE]":
            self._done = True
        return self._add(decoded(_CHUNK, data)) if data and not self._done else ()

    def take(self, body: bytes) -> None:
        """Take a reply that was sent in one piece; ModelTrouble if it is none, or an error."""
        chunk = decoded(_CHUNK, body)
        self._add(chunk)
        if not chunk.choices:
            raise unreadable("the answer holds no reply")

    @property
    def complete(self) -> bool:
        """Tell whether `[DONE]` came. Not every server sends it: the end of the stream may end the reply, too."""
        return self._done

    def end(self) -> Heard:
        """Return the whole reply; ModelTrouble, transient, if no finish reason came, or one nobody knows."""
        if not self._finish:
            raise cut_short()
        stop = self._stop()
        written = [call.written for call in self._calls]
        calls = tool_calls(written, reply=self._reply, cut=stop == "max_tokens") if stop != "refused" else ()
        return Heard(AssistantMessage((*self._words.parts, *calls), self._target.model), self._spent(), stop)

    def _add(self, chunk: _Chunk) -> Sequence[Delta]:
        if chunk.error:
            raise complaint(chunk.error)
        if chunk.object == "error":
            raise complaint({"message": chunk.message, "type": chunk.type, "code": chunk.code})
        self._reply = self._reply or chunk.id or ""
        if chunk.usage:
            self._usage = chunk.usage  # of the whole reply so far, in whichever chunks it stands
        deltas: list[Delta] = []
        for choice in chunk.choices or ():
            if not choice.index:
                self._hear(choice, deltas)
        return deltas

    def _hear(self, choice: _Choice, deltas: list[Delta]) -> None:
        """Add what one choice says; most chunks say one thing, and there are many of them."""
        said = choice.delta or choice.message or _Said()
        if thought := said.reasoning_content or said.reasoning:
            deltas += self._words.thought(thought)
        if said.content:
            deltas += self._words.text(said.content)
        if said.refusal:
            self._refused = True
            deltas += self._words.text(said.refusal)
        if said.tool_calls:
            deltas += [self._called(place, piece) for place, piece in enumerate(said.tool_calls)]
        if choice.finish_reason:
            self._finish = choice.finish_reason
            deltas += self._words.flush()

    def _called(self, place: int, piece: _Call) -> CallDelta:
        """Take a piece of a call; where the server does not say of which, its place in the chunk tells."""
        function = piece.function or _Function()
        id_, name, words = piece.id or "", function.name or "", written_arguments(function.arguments)
        index = place if piece.index is None else piece.index
        call = self._open.get(index)
        if call is None or call.ends_before(id_, name):
            call = self._open[index] = _OpenCall(len(self._calls))
            self._calls.append(call)
        call.add(id_, name, words)
        return CallDelta(call.number, call.name, words)

    def _stop(self) -> StopReason:
        stop = _STOPS.get(self._finish)
        if stop is None:
            raise unreadable(f"it ended for a reason nobody knows, `{self._finish}`")
        if stop in {"max_tokens", "refused"}:
            return stop
        if self._calls:
            return "tool_calls"
        return "refused" if self._refused else "end"

    def _spent(self) -> Usage:
        details = self._usage.prompt_tokens_details or _Details()
        told = self._usage.prompt_tokens or 0
        return Usage(
            input_tokens=told,
            cached_input_tokens=min(details.cached_tokens or 0, told),
            output_tokens=self._usage.completion_tokens or 0,
            cost_usd=None,
            requests=1,
        )


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False
