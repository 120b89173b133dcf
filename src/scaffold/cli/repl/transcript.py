"""Telling what an agent says and does, while it does: finished parts for good, the rest as it stands."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, assert_never

from scaffold.agent.journal import EntryKind
from scaffold.cli.repl.line_diff import LineDiff
from scaffold.cli.repl.markdown_stream import MarkdownBlocks, block_tail
from scaffold.cli.repl.renderer import Renderer, one_line
from scaffold.cli.repl.running_tools import FinishedCall
from scaffold.core.conversation import Delta, RetryWait, StreamReset, TextDelta, ThinkingDelta, ToolCallDelta
from scaffold.core.ports import Clock
from scaffold.core.todo import Todo

NEWS_LINES = 8
"""Lines of a message that people get to see."""
LIVE_CHARACTERS = 4_000
"""How much of an unfinished part is drawn."""
TranscriptPart = Literal["said", "text", "thinking", "call", "note", "question"]


class TranscriptOutput(Protocol):
    """Where finished things are shown, one below the other."""

    echoes: bool
    """Whether what was typed stays where it was typed."""

    @property
    def pen(self) -> Renderer:
        """Return how to draw at the moment."""
        ...

    def show(self, text: str) -> None:
        """Show lines for good."""
        ...


class Transcript:
    """Tells one talk; a `telling.Teller`, which is an agent's journal too."""

    for_people = True

    def __init__(
        self,
        page: TranscriptOutput,
        clock: Clock,
        *,
        queued: Callable[[], tuple[tuple[str, ...], str]],
        clean: Callable[[str], str] = str,
    ) -> None:
        """Tell on `page`; `queued` returns the user's words among the latest news, and what a model got of them.

        `clean` takes secrets out of whatever is shown.
        """
        self._page = page
        self._clock = clock
        self._queued = queued
        self._text, self._thought = MarkdownBlocks(), MarkdownBlocks()
        self._heard, self._mused = "", ""
        self._last: TranscriptPart | None = None
        self._calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._told: list[tuple[str, Mapping[str, Any]]] = []
        self._proposed: list[LineDiff] = []
        self._clean = clean
        self._writing: dict[int, tuple[str, int]] = {}
        self._until_s = 0.0

    @property
    def streamed_tokens(self) -> int:
        """Return about how many tokens of a reply that is not whole yet were heard."""
        written = sum(count for _, count in self._writing.values())
        return (len(self._heard) + len(self._mused) + written) // 4

    @property
    def activity(self) -> str:
        """Return what the agent is at: waiting, thinking, or what it writes."""
        left_s = self._until_s - self._clock.monotonic()
        if left_s > 0:
            return f"waiting {left_s:.0f} s"
        if self._writing:
            name, count = list(self._writing.values())[-1]
            return f"writing {name} ({count:,})"
        return "writing" if self._heard else "thinking"

    def live(self) -> str:
        """Return what is not finished yet, drawn; empty if there is nothing."""
        if rest := self._text.rest.strip("\n"):
            return f"\n{self._page.pen.markdown(self._clean(block_tail(rest, LIVE_CHARACTERS)))}"
        if rest := self._thought.rest.strip("\n")[-LIVE_CHARACTERS:]:
            return f"\n{self._page.pen.thinking(self._clean(rest))}"
        return ""

    def begin(self) -> None:
        """Take that another conversation begins."""
        self.finish_turn()

    def session(self, **fields: str) -> None:
        """Show nothing: the talk greets by itself."""

    def hear(self, delta: Delta) -> None:
        """Take what a model says while it says it."""
        self._until_s = 0.0
        match delta:
            case TextDelta(text=text):
                self._end_thought()
                self._heard += text
                for block in self._text.feed(text):
                    self._show("text", self._page.pen.markdown(block))
            case ThinkingDelta(text=text):
                self._mused += text
                for block in self._thought.feed(text):
                    self._show("thinking", self._page.pen.thinking(block))
            case ToolCallDelta(index=index, name=name, arguments=arguments):
                _, count = self._writing.get(index, ("", 0))
                self._writing[index] = (name, count + len(arguments))
            case StreamReset(reason=reason):
                self._break_off(reason)
            case RetryWait(seconds=seconds, reason=reason):
                self._until_s = self._clock.monotonic() + seconds
                self._show("note", self._page.pen.words(f"waiting {seconds:.0f} s: {reason}", "yellow"))
            case _:
                assert_never(delta)

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Take what was said and done."""
        match kind:
            case "text" | "thinking":
                self._whole(kind, fields["text"])
            case "tool_call":
                self._calls[fields["id"]] = (fields["name"], fields["args"])
            case "tool_result":
                self._result(fields)
            case "usage":
                self._count()
            case "notice":
                self.tell(fields["text"], "yellow")
            case "news":
                self._news(fields["text"])
            case "approval":
                if fields.get("agent") and fields["decision"] == "deny":
                    self.tell(f"{fields['agent']}: {fields['tool']} was denied: {fields['reason']}")
            case "prompt":
                pass
            case _:
                assert_never(kind)

    def result(self, shape: Mapping[str, object]) -> None:
        """Take the end of a one-shot, which a talk is not."""

    def say(self, words: str) -> None:
        """Show what the user said, unless it stands there already."""
        if self._page.echoes:
            self._last = "said"
            return
        self._show("said", self._page.pen.said(words))

    def tell(self, words: str, style: str = "dim") -> None:
        """Show a word of ours."""
        self._show("note", self._page.pen.words(words, style))

    def answer(self, words: str) -> None:
        """Show what a command tells."""
        self._show("text", self._page.pen.words(words))

    def trouble(self, what: str, fix: str) -> None:
        """Show what went wrong, and what to do about it."""
        self._show("text", self._page.pen.trouble(what, fix.replace("--model", "/model")))

    def question(self, drawn: str, change: LineDiff | str) -> None:
        """Show a question with the change it is about: made as it was proposed, it is not shown again."""
        self._proposed += [change] if isinstance(change, LineDiff) else []
        self._show("question", drawn)

    def done(self, done: FinishedCall) -> None:
        """Show a call that ran."""
        self._told.append((done.name, done.args))
        self._show_result(done.name, done.args, done.output.content, failed=done.output.failed)
        if done.patch is not None and done.patch not in self._proposed:
            self._show("call", self._page.pen.patch(done.patch))

    def todos(self, todos: tuple[Todo, ...]) -> None:
        """Show the agent's list, which changed."""
        self._show("call", self._page.pen.todos(todos))

    def finish_turn(self) -> None:
        """Show what was said until the turn ended, however it ended."""
        self._end_thought()
        self._end_text()
        self._until_s, self._heard, self._mused = 0.0, "", ""
        self._writing.clear()
        self._calls.clear()
        self._told.clear()
        self._proposed.clear()

    def _whole(self, kind: Literal["text", "thinking"], text: str) -> None:
        """Take a part of a reply that is whole; what was not heard in pieces is shown now."""
        heard = self._heard if kind == "text" else self._mused
        self._end_thought()
        if kind == "text":
            self._end_text()
        if text.strip() and text not in heard:
            pen = self._page.pen
            self._show(kind, pen.markdown(text) if kind == "text" else pen.thinking(text))

    def _end_thought(self) -> None:
        for block in self._thought.end():
            self._show("thinking", self._page.pen.thinking(block))

    def _end_text(self) -> None:
        for block in self._text.end():
            self._show("text", self._page.pen.markdown(block))

    def _break_off(self, reason: str) -> None:
        shown = bool(self._heard or self._mused)
        self._end_thought()
        self._end_text()
        self._heard, self._mused = "", ""
        self._writing.clear()
        void = "the reply broke off, what it said so far is void; " if shown else ""
        self._show("note", self._page.pen.words(f"⤺ {void}asking again: {reason}", "yellow"))

    def _result(self, fields: Mapping[str, Any]) -> None:
        """Show the result of a call that was not seen running: it was refused, or is another one's double."""
        name, args = self._calls.pop(fields["id"], (fields["name"], {}))
        if (name, args) in self._told:
            self._told.remove((name, args))
            return
        self._show_result(name, args, fields["content"], failed=fields["failed"])

    def _show_result(self, name: str, args: Mapping[str, Any], content: str, *, failed: bool) -> None:
        if name == "TodoWrite" and not failed:
            return  # the list itself was shown
        self._show("call", self._page.pen.result(name, args, content.replace("\r\n", "\n"), failed=failed))

    def _count(self) -> None:
        self._heard, self._mused = "", ""
        self._writing.clear()

    def _news(self, text: str) -> None:
        """Show what reached the agent: what others sent it, and the user's words that waited."""
        words, given = self._queued()
        others = text.removesuffix(given).strip() if given else text.strip()
        lines = [one_line(line, self._page.pen.width - 3) for line in others.split("\n") if line.strip()]
        for number, line in enumerate(lines[:NEWS_LINES]):
            self._show("note", self._page.pen.words(f"{' ' if number else '✉'} {line}", "" if number else "magenta"))
        for each in words:
            self.say(each)

    def _show(self, part: TranscriptPart, text: str) -> None:
        """Show something, apart from what is above it unless both are of one kind that comes in lines."""
        close = (self._last, part) in {("call", "call"), ("note", "note"), ("question", "note")}
        shown = self._clean(text)
        self._page.show(shown if close or self._last is None else f"\n{shown}")
        self._last = part
