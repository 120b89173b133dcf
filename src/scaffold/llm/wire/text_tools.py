"""Tools as text, for models whose server has none: described in the base prompt, called and answered in the text.

The format is the one that Hermes and Qwen models are trained on (docs/design/083-small-models.md). A text that only
quotes it, in a code block or with more text behind it, is not a call.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import structs

from scaffold.core.conversation import (
    Delta,
    Message,
    Request,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    UserMessage,
)
from scaffold.core.tool import is_nested_too_deeply
from scaffold.llm.wire.codec import Codec, ModelTarget, ReplyReader, ServerSentEvent, WireReply
from scaffold.llm.wire.format import encode_json, stable_id

OPEN, CLOSE = "<tool_call>", "</tool_call>"
FORM = f'{OPEN}\n{{"name": "NAME", "arguments": {{"ARGUMENT": "VALUE"}}}}\n{CLOSE}'
ABOUT = f"""# Tools

To call a tool, end your reply with a call in this form: valid JSON, not in a code block, with no text behind it.
{FORM}
Several calls follow each other. The next message has their results. The tools, with the schemas of their arguments:
"""
MALFORMED_CALL = (
    "Your last reply has a tool call that cannot be read, so nothing ran. End your reply with the call in this form:\n"
    f"{FORM}\nIf the text is your answer, send it once more."
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class CodeFences:
    """Follows the lines of a Markdown text into code blocks and out of them."""

    def __init__(self) -> None:
        self.fence = ""
        """The fence of the block that the next line is in; empty outside of code blocks."""

    def pass_line(self, line: str) -> None:
        """Go beyond a line, which is given without its end."""
        found = _FENCE.match(line)
        if found is None:
            return
        mark, rest = found.groups()
        if not self.fence:
            self.fence = mark if mark[0] == "~" or "`" not in rest else ""
        elif mark.startswith(self.fence) and not rest.strip():
            self.fence = ""


class TextToolsCodec:
    """A codec whose requests have no tools on the wire: another codec sends and reads the texts."""

    def __init__(self, inner: Codec) -> None:
        self._inner = inner
        self.path: Final = inner.path

    def message(self, message: Message, target: ModelTarget) -> bytes:
        """Return the message as the inner codec encodes it, with calls and results as text."""
        return self._inner.message(_message_as_text(message), target)

    def request(self, request: Request, pieces: Sequence[bytes], target: ModelTarget) -> bytes:
        """Return the body of the request, with the tools behind the base prompt."""
        described = (
            encode_json(
                {"name": tool.name, "description": tool.description}
                # Each schema is one of an object without other members.
                | {key: value for key, value in tool.schema.items() if key not in {"type", "additionalProperties"}}
            ).decode()
            for tool in request.tools
        )
        system = "\n\n".join(filter(None, (request.system, ABOUT + "\n".join(described) if request.tools else "")))
        messages = tuple(map(_message_as_text, request.messages))
        return self._inner.request(structs.replace(request, system=system, messages=messages, tools=()), pieces, target)

    def adapted(self, target: ModelTarget, error: str) -> ModelTarget | None:
        """Return the target that the inner codec returns."""
        return self._inner.adapted(target, error)

    def reader(self, target: ModelTarget) -> "TextToolsReader":
        """Return a reader for one streamed reply."""
        return TextToolsReader(self._inner.reader(target))


class TextToolsReader:
    """Reads one reply; text that may be a call is passed on as a piece of one."""

    def __init__(self, inner: ReplyReader) -> None:
        self._inner = inner
        self._fences = CodeFences()
        self._line = ""
        """The current line."""
        self._held = ""
        """Its end that may still become a call."""
        self._calling = False

    def feed(self, event: ServerSentEvent) -> Sequence[Delta]:
        """Return the deltas of the event; errors as of the inner reader."""
        deltas: list[Delta] = []
        for delta in self._inner.feed(event):
            deltas += self._split_text(delta.text) if isinstance(delta, TextDelta) else (delta,)
        return deltas

    @property
    def complete(self) -> bool:
        """Return True if the wire ended the reply."""
        return self._inner.complete

    def end(self) -> WireReply:
        """Return the complete reply; errors as of the inner reader."""
        return _with_calls(self._inner.end())

    def whole(self, body: bytes) -> WireReply:
        """Return a reply that was not streamed; errors as of the inner reader."""
        return _with_calls(self._inner.whole(body))

    def _split_text(self, words: str) -> Iterator[Delta]:
        shown = ""
        while words and not self._calling:
            piece, end, words = words.partition("\n")
            self._line, self._held = self._line + piece, self._held + piece
            self._calling = not self._fences.fence and _opens_call(self._line)
            if self._calling:
                words = self._held + end + words
            elif end:
                shown += self._held + end
                self._fences.pass_line(self._line)
                self._line = self._held = ""
            elif self._fences.fence or not OPEN.startswith(self._line.lstrip(" ")):
                shown, self._held = shown + self._held, ""
        if shown:
            yield TextDelta(shown)
        if words:
            yield ToolCallDelta(0, "", words)


def _message_as_text(message: Message) -> Message:
    if isinstance(message, UserMessage):
        return structs.replace(
            message,
            parts=tuple(
                Text(f"<tool_response>\n{part.content}\n</tool_response>") if isinstance(part, ToolResult) else part
                for part in message.parts
            ),
        )
    said = [message.text] if message.text else []
    for call in message.tool_calls:
        # Spaced as models write it, so that what the server has cached of their reply stays.
        written = json.dumps({"name": call.name, "arguments": call.args}, ensure_ascii=False, default=dict)
        said.append(f"{OPEN}\n{written}\n{CLOSE}")
    kept = tuple(part for part in message.parts if not isinstance(part, Text | ToolCall))
    return structs.replace(message, parts=(*kept, *([Text("\n".join(said))] if said else [])))


def _with_calls(reply: WireReply) -> WireReply:
    """Return the reply with the calls in its text as such, if it is complete and has none already."""
    message = reply.message
    start = -1 if message.tool_calls or reply.stop != "end" else _calls_start(message.text)
    if start < 0:
        return reply
    try:
        calls = tuple(_calls_in(message.text[start:]))
    except (ValueError, RecursionError):
        return structs.replace(reply, stop="malformed")
    text = message.text[:start].rstrip()
    kept = tuple(part for part in message.parts if not isinstance(part, Text))
    parts = (*kept, *([Text(text)] if text else []), *calls)
    return structs.replace(reply, message=structs.replace(message, parts=parts), stop="tool_calls")


def _calls_start(text: str) -> int:
    """Return where the first line outside of code blocks begins that begins a call; -1 if there is none."""
    fences, at = CodeFences(), 0
    for line in text.split("\n"):
        if not fences.fence and _opens_call(line):
            return at
        fences.pass_line(line)
        at += len(line) + 1
    return -1


def _opens_call(line: str) -> bool:
    # Indented further, a line is in a code block.
    return line.lstrip(" ").startswith(OPEN) and not line.startswith("    ")


def _calls_in(text: str) -> Iterator[ToolCall]:
    """Yield the calls that a text consists of; ValueError if it does not."""
    decoder, number = json.JSONDecoder(parse_constant=int), 0  # which refuses NaN
    while text := text.strip():
        # By the JSON, not by the closing tag: that may be in an argument.
        value, end = decoder.raw_decode(text.removeprefix(OPEN).lstrip())
        rest = text.removeprefix(OPEN).lstrip()[end:].lstrip()
        if not text.startswith(OPEN) or not rest.startswith(CLOSE) or not _is_call(value):
            raise ValueError
        yield ToolCall(stable_id(str(number), json.dumps(value)), value["name"], value["arguments"])
        text, number = rest.removeprefix(CLOSE), number + 1


def _is_call(value: Any) -> bool:
    is_object = isinstance(value, dict) and value.keys() == {"name", "arguments"}
    return (
        is_object
        and isinstance(value["name"], str)
        and isinstance(value["arguments"], dict)
        and not is_nested_too_deeply(value["arguments"])
    )
