"""Read Chat Completions replies, streamed or complete."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.conversation import AssistantMessage, Delta, StopReason, Thinking, ToolCallDelta
from scaffold.core.model import Usage
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent, WireReply
from scaffold.llm.wire.format import decode_json, read_usage
from scaffold.llm.wire.openai_json import WireToolCall, arguments_text, build_tool_calls, error_in_stream
from scaffold.llm.wire.provider_errors import truncated_stream, unreadable_reply
from scaffold.llm.wire.think_tags import ThinkTagSplitter

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


class _ChatFunction(Struct):
    name: str | None = None
    arguments: Any = None


class _ChatToolCall(Struct):
    index: int | None = None
    id: str | None = None
    function: _ChatFunction | None = None


class _ChatMessage(Struct):
    """A delta, or a complete message."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_ChatToolCall] | None = None


class _ChatChoice(Struct):
    index: int | None = None
    delta: _ChatMessage | None = None
    message: _ChatMessage | None = None
    finish_reason: str | None = None


class _PromptTokenDetails(Struct):
    cached_tokens: int | None = None


class _ChatUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptTokenDetails | None = None


class _ChatChunk(Struct):
    """One event or a complete body; `error`, or `object` and `message`, report an error after status 200."""

    id: str | None = None
    object: str | None = None
    choices: list[_ChatChoice] | None = None
    usage: Any = None
    """A `_ChatUsage`, if it can be read."""
    error: Any = None
    message: Any = None
    type: Any = None
    code: Any = None


_CHUNK = msgspec.json.Decoder(_ChatChunk)


class _PartialToolCall:
    """A tool call being streamed; `number` is its position in the reply."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self._arguments: list[str] = []

    def add(self, id_: str, name: str, words: str) -> None:
        """Add the next piece; some servers repeat id and name in every piece."""
        self.id = self.id or id_
        if name != self.name:
            self.name += name
        self._arguments.append(words)

    def ends_before(self, id_: str, name: str) -> bool:
        """Return True if a piece with this id and name belongs to another call, despite the same index."""
        if id_ and self.id and id_ != self.id:
            return True
        if not name or not self.name:
            return False
        try:
            return isinstance(msgspec.json.decode("".join(self._arguments)), dict)
        except (msgspec.DecodeError, RecursionError):
            return False

    @property
    def written(self) -> WireToolCall:
        """The call as received so far."""
        return WireToolCall(self.id, self.name, "".join(self._arguments))


class ChatReader:
    """Reads one reply; `[DONE]` ends it, and it is complete if a finish reason was given."""

    def __init__(self, target: ModelTarget) -> None:
        self._target = target
        self._words = ThinkTagSplitter(tags=target.thinking_tags)
        self._thought_field = ""
        self._calls: list[_PartialToolCall] = []
        self._open: dict[int, _PartialToolCall] = {}
        self._reply = ""
        self._usage = _ChatUsage()
        self._refused = False
        self._finish = ""
        self._done = False

    def feed(self, event: ServerSentEvent) -> Sequence[Delta]:
        """Return the deltas of the event; ModelError if it reports an error or cannot be parsed."""
        data = event.data.strip()
        if data == "[DONE]":
            self._done = True
        return self._add_chunk(decode_json(_CHUNK, data)) if data and not self._done else ()

    def take(self, body: bytes) -> None:
        """Read a reply that was not streamed; ModelError if it is invalid or an error."""
        chunk = decode_json(_CHUNK, body)
        # First, so that a body that reports an error raises that error and not the one about missing choices.
        self._add_chunk(chunk)
        if not chunk.choices:
            raise unreadable_reply("the response has no `choices`")

    @property
    def complete(self) -> bool:
        """Return True after `[DONE]`. Not every server sends it; the end of the stream can end the reply too."""
        return self._done

    def end(self) -> WireReply:
        """Return the complete reply; ModelError, transient, if the finish reason is missing or unknown."""
        if not self._finish:
            raise truncated_stream()
        stop = self._stop_reason()
        written = [call.written for call in self._calls]
        calls = build_tool_calls(written, reply=self._reply, cut=stop == "max_tokens") if stop != "refused" else ()
        # Thoughts that had a field of their own keep its name.
        parts = [
            msgspec.structs.replace(part, field=self._thought_field) if isinstance(part, Thinking) else part
            for part in self._words.parts
        ]
        details = self._usage.prompt_tokens_details or _PromptTokenDetails()
        input_tokens = self._usage.prompt_tokens or 0
        usage = Usage(
            input_tokens=input_tokens,
            cached_input_tokens=details.cached_tokens or 0,
            # Some providers count thoughts only in the total.
            output_tokens=max(self._usage.completion_tokens or 0, (self._usage.total_tokens or 0) - input_tokens),
            cost_usd=None,
            requests=1,
        )
        return WireReply(AssistantMessage((*parts, *calls), self._target.model), usage, stop)

    def _add_chunk(self, chunk: _ChatChunk) -> Sequence[Delta]:
        if chunk.error:
            raise error_in_stream(chunk.error)
        if chunk.object == "error":
            raise error_in_stream({"message": chunk.message, "type": chunk.type, "code": chunk.code})
        self._reply = self._reply or chunk.id or ""
        # A running total, in any chunk.
        self._usage = read_usage(_ChatUsage, chunk.usage) or self._usage
        deltas: list[Delta] = []
        for choice in chunk.choices or ():
            # Only one choice is requested; servers that leave out its index mean the first.
            if not choice.index:
                self._read_choice(choice, deltas)
        return deltas

    def _read_choice(self, choice: _ChatChoice, deltas: list[Delta]) -> None:
        message = choice.delta or choice.message or _ChatMessage()
        if thought := message.reasoning_content or message.reasoning:
            self._thought_field = "reasoning_content" if message.reasoning_content else "reasoning"
            deltas += self._words.thought(thought)
        if message.content:
            deltas += self._words.text(message.content)
        if message.refusal:
            self._refused = True
            deltas += self._words.text(message.refusal)
        if message.tool_calls:
            deltas += [self._add_call_piece(position, piece) for position, piece in enumerate(message.tool_calls)]
        if choice.finish_reason:
            self._finish = choice.finish_reason
            deltas += self._words.flush()

    def _add_call_piece(self, position: int, piece: _ChatToolCall) -> ToolCallDelta:
        """Add a piece of a call; if it has no index, its position in the chunk identifies the call."""
        function = piece.function or _ChatFunction()
        id_, name, words = piece.id or "", function.name or "", arguments_text(function.arguments)
        index = position if piece.index is None else piece.index
        call = self._open.get(index)
        if call is None or call.ends_before(id_, name):
            call = self._open[index] = _PartialToolCall(len(self._calls))
            self._calls.append(call)
        call.add(id_, name, words)
        return ToolCallDelta(call.number, call.name, words)

    def _stop_reason(self) -> StopReason:
        stop = _STOPS.get(self._finish)
        if stop is None:
            raise unreadable_reply(f"its finish reason `{self._finish}` is unknown")
        if stop in {"max_tokens", "refused"}:
            return stop
        if self._calls:
            return "tool_calls"
        return "refused" if self._refused else "end"
