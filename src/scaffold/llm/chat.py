"""Chat Completions: OpenAI's older wire, and that of every local server."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from scaffold.core.conversation import (
    AssistantMessage,
    CallDelta,
    Delta,
    Image,
    Message,
    Request,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.model import Usage
from scaffold.core.tool import Tool
from scaffold.llm.codec import Event, Heard, Target
from scaffold.llm.openai import (
    ANSWER,
    WrittenCall,
    body,
    complaint,
    data_url,
    decoded,
    encoded,
    fits_strictly,
    most_tokens,
    tool_calls,
    wire_id,
    wire_name,
    written_arguments,
)
from scaffold.llm.trouble import cut_short, unreadable
from scaffold.llm.words import Words

_ID = re.compile("[!-~]+")
"""Wide, because some local models read the ids themselves (`functions.shell:0`)."""

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


class ChatCodec:
    """Translates to and from Chat Completions.

    `local` is for servers other than OpenAI's: they know the older name of the length limit. The templates of some of
    their models refuse a second system message: with `joined` both are said in one, the base prompt first.
    """

    path: Final = "/chat/completions"

    def __init__(self, *, local: bool = False, joined: bool = False) -> None:
        self._local = local
        self._joined = joined

    def message(self, message: Message, target: Target) -> bytes:
        """Return the message's JSON objects joined by commas: results of tools first; empty if there are no words.

        Thoughts are left out: this wire has no word for them.
        """
        del target
        if isinstance(message, UserMessage):
            return b",".join(encoded(said) for said in _user(message))
        said = _assistant(message)
        return encoded(said) if said else b""

    def request(self, request: Request, pieces: Sequence[bytes], target: Target) -> bytes:
        """Return the request's body; the base prompt stands first, in the same bytes every time."""
        fields: dict[str, object] = {"model": target.name}
        if target.stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        if request.tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
        if request.answer_schema is not None:
            strict = fits_strictly(request.answer_schema)
            schema = {"name": ANSWER, "schema": request.answer_schema, "strict": strict}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.effort:
            fields["reasoning_effort"] = request.effort
        if (most := most_tokens(request, target)) is not None:
            fields["max_tokens" if self._local else "max_completion_tokens"] = most
        return body(fields, "messages", [*self._system(request), *pieces])

    def reader(self, target: Target) -> "ChatReader":
        """Return a reader for one streamed reply."""
        return ChatReader(target)

    def whole(self, body: bytes, target: Target) -> Heard:
        """Return the reply that was sent in one piece; ModelTrouble, transient, if it cannot be read."""
        reader = ChatReader(target)
        reader.take(body)
        return reader.end()

    def _system(self, request: Request) -> list[bytes]:
        said = [text for text in (request.system, request.context) if text]
        if self._joined and said:
            said = ["\n\n".join(said)]
        return [encoded({"role": "system", "content": text}) for text in said]


def _user(message: UserMessage) -> list[dict[str, object]]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    said: list[dict[str, object]] = [
        {"role": "tool", "tool_call_id": wire_id(result.call_id, _ID), "content": result.content} for result in results
    ]
    content = _content([part for part in message.parts if not isinstance(part, ToolResult)])
    return [*said, {"role": "user", "content": content}] if content else said


def _content(parts: Sequence[Text | Image]) -> str | list[dict[str, object]]:
    """Return one text where there are no pictures, since many local servers know nothing else."""
    words = [part for part in parts if isinstance(part, Image) or part.text]
    if not any(isinstance(part, Image) for part in words):
        return "\n".join(part.text for part in words if isinstance(part, Text))
    return [
        {"type": "image_url", "image_url": {"url": data_url(part)}}
        if isinstance(part, Image)
        else {"type": "text", "text": part.text}
        for part in words
    ]


def _assistant(message: AssistantMessage) -> dict[str, object] | None:
    text = "\n".join(part.text for part in message.parts if isinstance(part, Text) and part.text)
    calls = [_call(call) for call in message.tool_calls]
    if not text and not calls:
        return None
    said: dict[str, object] = {"role": "assistant", "content": text or None}
    return said | {"tool_calls": calls} if calls else said


def _call(call: ToolCall) -> dict[str, object]:
    function = {"name": wire_name(call.name), "arguments": encoded(call.args).decode()}
    return {"id": wire_id(call.id, _ID), "type": "function", "function": function}


def _tool(tool: Tool) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}


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
        return [delta for choice in chunk.choices or () if not choice.index for delta in self._heard(choice)]

    def _heard(self, choice: _Choice) -> Sequence[Delta]:
        said = choice.delta or choice.message or _Said()
        deltas: list[Delta] = [*self._words.thought(said.reasoning_content or said.reasoning or "")]
        deltas += self._words.text(said.content or "")
        if said.refusal:
            self._refused = True
            deltas += self._words.text(said.refusal)
        deltas += [self._called(place, piece) for place, piece in enumerate(said.tool_calls or ())]
        if choice.finish_reason:
            self._finish = choice.finish_reason
            deltas += self._words.flush()
        return deltas

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
