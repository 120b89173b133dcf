"""The transcript of a session: finished parts are printed, the unfinished rest is redrawn."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, assert_never

from scaffold.agent.journal import EntryKind
from scaffold.cli.repl.renderer import MarkdownBlocks, Renderer, block_tail, clipped_line
from scaffold.cli.repl.user_input import RETRY_KEY, PendingInput
from scaffold.core.conversation import (
    AssistantMessage,
    Delta,
    Image,
    Message,
    RetryWait,
    StreamReset,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Todo,
    ToolCall,
    ToolCallDelta,
    ToolResult,
)
from scaffold.core.ports import Clock
from scaffold.core.printable_text import count_of
from scaffold.core.tool import ToolOutput
from scaffold.policy.secret.redaction import MIN_SECRET_CHARS
from scaffold.session.running_tools import FinishedCall
from scaffold.session.user_command import noted_command
from scaffold.tools.content.line_diff import LineDiff
from scaffold.views.text_format import waiting_text

NEWS_LINES = 8
"""Lines shown of an incoming message."""
COMMAND_LINES = 60
"""Lines shown of the output of a command of the user's own."""
LIVE_CHARACTERS = 4_000
"""Characters drawn of an unfinished part."""
_LONG_WORD = re.compile(rf"[\w+/=.~-]{{{MIN_SECRET_CHARS},}}\Z", re.ASCII)
"""A last word that may still grow into a secret; it is drawn once it is complete."""
TranscriptPart = Literal["user", "text", "thinking", "call", "note", "question"]
_CLOSE = {("call", "call"), ("note", "note"), ("question", "note")}
"""Pairs of parts without a blank line between them."""


class TranscriptOutput(Protocol):
    """Shows finished parts, one below the other."""

    echoes: bool
    """Whether typed lines stay on the screen."""

    @property
    def renderer(self) -> Renderer:
        """How to draw at the moment."""
        ...

    def show(self, text: str) -> None:
        """Show lines for good."""
        ...


class Transcript:
    """Shows one session; a `Reporter`, which is an agent's journal too."""

    for_people = True

    def __init__(self, output: TranscriptOutput, clock: Clock, *, pending: PendingInput) -> None:
        """`pending` identifies the user's messages in the news."""
        self._output = output
        self._clock = clock
        self._pending = pending
        self._text, self._thinking = MarkdownBlocks(), MarkdownBlocks()
        self._streamed_text, self._streamed_thinking = "", ""
        self._last: TranscriptPart | None = None
        self._calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._shown_calls: list[tuple[str, Mapping[str, Any]]] = []
        self._proposed: list[LineDiff] = []
        self._written_calls: dict[int, tuple[str, int]] = {}
        """Calls that the model writes: name and characters so far, by their index in the reply."""
        self._waits_until_s = 0.0

    @property
    def streamed_tokens(self) -> int:
        """The approximate number of tokens of the reply that is streamed."""
        written = sum(count for _, count in self._written_calls.values())
        return (len(self._streamed_text) + len(self._streamed_thinking) + written) // 4

    @property
    def waits_s(self) -> float:
        """The seconds until a request is sent again; 0 if none waits."""
        return max(0.0, self._waits_until_s - self._clock.monotonic())

    @property
    def activity(self) -> str:
        """The model's current activity: waiting, thinking, writing."""
        if self.waits_s > 0:
            return f"waiting {math.ceil(self.waits_s)} s"
        if self._written_calls:
            name, count = list(self._written_calls.values())[-1]
            return f"writing {name} ({count:,})"
        return "writing" if self._streamed_text else "thinking"

    def end_wait(self) -> None:
        """Show that the user does not want to wait any longer."""
        self._waits_until_s = 0.0
        self.notice("asking again now")

    def live(self) -> str:
        """Return the unfinished part, drawn; empty if there is none."""
        # Secrets are removed from twice as much as is drawn: the cut could leave the end of one.
        if rest := self._finished_words(block_tail(self._text.rest, 2 * LIVE_CHARACTERS)):
            return f"\n{self._renderer.markdown(block_tail(rest, LIVE_CHARACTERS))}"
        if rest := self._finished_words(self._thinking.rest[-2 * LIVE_CHARACTERS :]):
            return f"\n{self._renderer.thinking(rest[-LIVE_CHARACTERS:])}"
        return ""

    def _finished_words(self, text: str) -> str:
        # The last word may be the beginning of a secret.
        return self._renderer.clean(_LONG_WORD.sub("", text)).strip("\n")

    def session(self, **fields: str) -> None:
        """Show nothing: the REPL shows its own greeting."""

    def on_delta(self, delta: Delta) -> None:
        """Add a piece of a reply."""
        self._waits_until_s = 0.0
        match delta:
            case TextDelta(text=text):
                self._end_thinking()
                self._streamed_text += text
                for block in self._text.feed(text):
                    self._show_part("text", self._renderer.markdown(block))
            case ThinkingDelta(text=text):
                self._streamed_thinking += text
                for block in self._thinking.feed(text):
                    self._show_part("thinking", self._renderer.thinking(block))
            case ToolCallDelta(index=index, name=name, arguments=arguments):
                _, count = self._written_calls.get(index, ("", 0))
                self._written_calls[index] = (name, count + len(arguments))
            case StreamReset(reason=reason):
                streamed = bool(self._streamed_text or self._streamed_thinking)
                self._end_thinking()
                self._end_text()
                self._forget_stream()
                void = "the reply was cut off, its text so far is discarded; " if streamed else ""
                self.notice(f"⤺ {void}asking again: {reason}", "yellow")
            case RetryWait(seconds=seconds, reason=reason):
                self._waits_until_s = self._clock.monotonic() + seconds
                lines = f" ({RETRY_KEY}: ask again now, Ctrl-C: give up)" if seconds and self._output.echoes else ""
                self.notice(f"{waiting_text(seconds)}: {reason}{lines}", "yellow")
            case _:
                assert_never(delta)

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Add a journal entry."""
        match kind:
            case "text" | "thinking":
                self._finish_part(kind, fields["text"])
            case "tool_call":
                self._calls[fields["id"]] = (fields["name"], fields["args"])
            case "tool_result":
                self._show_refused_result(fields)
            case "usage":
                self._forget_stream()
            case "notice":
                self.notice(fields["text"], "yellow")
            case "news":
                self._show_news(fields["text"])
            case "approval":
                if fields.get("agent") and fields["decision"] == "deny":
                    self.notice(f"{fields['agent']}: {fields['tool']} was denied: {fields['reason']}")
            case "prompt":
                pass
            case _:
                assert_never(kind)

    def result(self, shape: Mapping[str, object]) -> None:
        """Show nothing: only one-shot calls have a result."""

    def user_message(self, words: str) -> None:
        """Show a message of the user, unless the terminal shows it already."""
        if self._output.echoes:
            self._last = "user"
            return
        self._show_part("user", self._renderer.user_message(words))

    def notice(self, words: str, style: str = "dim") -> None:
        """Show a notice of the program."""
        self._show_part("note", self._renderer.words(words, style))

    def answer(self, words: str) -> None:
        """Show the answer to a command."""
        self._show_part("text", self._renderer.words(words))

    def command_output(self, ran: ToolOutput) -> None:
        """Show how a command of the user's own ended, and the head and the tail of its output."""
        lines = ran.content.strip("\n").split("\n")
        if len(lines) > COMMAND_LINES:
            omitted = f"... {len(lines) - COMMAND_LINES + 1:,} lines that are not shown; the agent has them"
            lines = [*lines[: COMMAND_LINES // 3], omitted, *lines[len(lines) - (COMMAND_LINES * 2 // 3 - 1) :]]
        self._show_part("text", self._renderer.words("\n".join(lines), "red" if ran.failed else ""))

    def error(self, what: str, fix: str) -> None:
        """Show an error and what to do about it."""
        said = (text.replace("--model", "/model") for text in (what, fix))
        self._show_part("text", self._renderer.error(*said))

    @property
    def ends_with_question(self) -> bool:
        """Whether a question is what was shown last."""
        return self._last == "question"

    def question(self, drawn: str, change: LineDiff | str) -> None:
        """Show a question; the diff of its change is not shown again when the change is made."""
        self._proposed += [change] if isinstance(change, LineDiff) else []
        self._show_part("question", drawn)

    def call_finished(self, call: FinishedCall) -> None:
        """Show a finished call and its change."""
        self._shown_calls.append((call.name, call.args))
        self._show_result(call.name, call.args, call.output.content, failed=call.output.failed)
        if call.diff is not None and call.diff not in self._proposed:
            self._show_part("call", self._renderer.diff(call.diff))

    def todos(self, todos: tuple[Todo, ...]) -> None:
        """Show the agent's changed todo list."""
        self._show_part("call", self._renderer.todos(todos))

    def replay(self, messages: Sequence[Message], earlier: int) -> None:
        """Show stored messages as they were shown when they were new; `earlier` ones are only counted."""
        self._last = self._last or "text"
        if earlier:
            self.notice(f"{count_of(earlier, 'earlier message')} not shown: `/export` writes all of them to a file")
        for message in messages:
            says = self._replay_reply if isinstance(message, AssistantMessage) else self._replay_input
            for part in message.parts:
                says(part)
            self.note("usage")
        self.finish_turn()

    def _replay_reply(self, part: Text | Image | Thinking | ToolCall | ToolResult) -> None:
        # As if it was streamed, so that it is split into the same blocks.
        if isinstance(part, Text):
            self.on_delta(TextDelta(part.text))
            self.note("text", text=part.text)
        elif isinstance(part, Thinking):
            self.on_delta(ThinkingDelta(part.text))
            self.note("thinking", text=part.text)
        elif isinstance(part, ToolCall):
            self.note("tool_call", id=part.id, name=part.name, args=part.args)

    def _replay_input(self, part: Text | Image | Thinking | ToolCall | ToolResult) -> None:
        match part:
            case ToolResult(call_id=call_id, name=name, content=content, failed=failed):
                self.note("tool_result", id=call_id, name=name, content=content, failed=failed)
            case Image():
                self.notice("  [an image]")
            case Text(text=text, origin="file"):
                self.notice(f"  {clipped_line(text.partition(chr(10))[0], self._renderer.width - 2)}")
            case Text(text=text, origin="output"):
                self.command_output(ToolOutput(text.partition("\n")[2]))
            case Text(text=text, origin="agent"):
                self._show_news(text)
            case Text(text=text, origin="command"):
                self._show_part("user", self._renderer.user_message(noted_command(part)))
            case Text(text=text, origin="") if text.strip():
                self._show_part("user", self._renderer.user_message(text))

    def finish_turn(self) -> None:
        """Show the rest of a turn that has ended, successfully or not."""
        self._end_thinking()
        self._end_text()
        self._waits_until_s = 0.0
        self._forget_stream()
        self._calls.clear()
        self._shown_calls.clear()
        self._proposed.clear()

    @property
    def _renderer(self) -> Renderer:
        return self._output.renderer

    def _finish_part(self, kind: Literal["text", "thinking"], text: str) -> None:
        # Text that was streamed is shown already.
        streamed = self._streamed_text if kind == "text" else self._streamed_thinking
        self._end_thinking()
        if kind == "text":
            self._end_text()
        if text.strip() and text not in streamed:
            self._show_part(kind, self._renderer.markdown(text) if kind == "text" else self._renderer.thinking(text))

    def _end_thinking(self) -> None:
        for block in self._thinking.end():
            self._show_part("thinking", self._renderer.thinking(block))

    def _end_text(self) -> None:
        for block in self._text.end():
            self._show_part("text", self._renderer.markdown(block))

    def _forget_stream(self) -> None:
        self._streamed_text, self._streamed_thinking = "", ""
        self._written_calls.clear()

    def _show_refused_result(self, fields: Mapping[str, Any]) -> None:
        """Show the result of a call that did not run: it was refused, or it repeats another one."""
        name, args = self._calls.pop(fields["id"], (fields["name"], {}))
        # A call that ran was shown by `call_finished`, which knows its diff; the journal reports every call.
        if (name, args) in self._shown_calls:
            self._shown_calls.remove((name, args))
            return
        self._show_result(name, args, fields["content"], failed=fields["failed"])

    def _show_result(self, name: str, args: Mapping[str, Any], content: str, *, failed: bool) -> None:
        if name == "TodoWrite" and not failed:
            return  # the list itself was shown
        self._show_part("call", self._renderer.result(name, args, content.replace("\r\n", "\n"), failed=failed))

    def _show_news(self, text: str) -> None:
        """Show messages of others, and the user's own messages that waited."""
        # The news are one text, and the user's own messages are its end; those
        # are shown like messages that were not queued.
        given = self._pending.text
        others = self._renderer.clean(text.removesuffix(given) if given else text).strip()
        lines = [clipped_line(line, self._renderer.width - 3) for line in others.split("\n") if line.strip()]
        for number, line in enumerate(lines[:NEWS_LINES]):
            self.notice(f"{' ' if number else '✉'} {line}", "" if number else "magenta")
        for words in self._pending.given:
            self.user_message(words)

    def _show_part(self, part: TranscriptPart, text: str) -> None:
        # A blank line separates a part from the previous one, unless they belong together.
        self._output.show(text if self._last is None or (self._last, part) in _CLOSE else f"\n{text}")
        self._last = part
