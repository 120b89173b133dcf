"""User input: the events a terminal posts, the meaning of keys, pasted texts, and messages for a busy agent."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.conversation import Image, Text
from scaffold.session.slash.syntax import CommandSyntax, parse_slash
from scaffold.session.user_command import is_user_command

EXIT_WARNING_S = 2.0
"""Seconds in which another Ctrl-C leaves."""
InterruptEffect = Literal["deny", "stop", "end", "clear", "warn", "leave"]
EnterEffect = Literal["send", "continue", "ignore"]
REASON_KEY = "r"
"""The key that begins the reason of a denial."""
RETRY_KEY = "r"
"""The key that sends a waiting request again at once; alone in the line, as it may begin a message."""
MIN_LINES = 8
MIN_CHARACTERS = 1_500
"""A shorter paste stays in the line as it is."""
_MARK = re.compile(r"\[pasted [\d,]+ (?:lines|characters)(?: #\d+)?\]")


class InputSubmitted(Struct, frozen=True):
    """The user sent a line."""

    words: str


class InterruptPressed(Struct, frozen=True):
    """The user pressed Ctrl-C."""


class ModeCycled(Struct, frozen=True):
    """The user wants the next mode."""


class QuitRequested(Struct, frozen=True):
    """The user wants to leave; `lost` if the terminal is gone."""

    lost: bool = False


class TurnFinished(Struct, frozen=True):
    """A turn is over."""


class NewsArrived(Struct, frozen=True):
    """Messages wait for an idle agent."""


UIEvent = InputSubmitted | InterruptPressed | ModeCycled | QuitRequested | TurnFinished | NewsArrived
PostEvent = Callable[[UIEvent], None]


class InterruptContext(Struct, frozen=True, kw_only=True):
    """The situation in which Ctrl-C is pressed; times are seconds of one monotonic clock."""

    now_s: float
    asked: bool
    """Whether a question is open."""
    busy: bool
    stopping: bool
    """Whether the turn is being stopped."""
    typed: bool
    """Whether there is text in the line."""
    warned_s: float | None
    """The time of the latest warning that another Ctrl-C leaves."""


def on_interrupt(context: InterruptContext) -> InterruptEffect:
    """Return the effect of Ctrl-C: deny the question, stop the turn, end everything; when idle: clear, warn, leave."""
    # First of all, so that a second Ctrl-C always ends everything, even if the stopping turn asks a question.
    if context.stopping:
        return "end"
    if context.asked:
        return "deny"
    if context.busy:
        return "stop"
    if context.typed:
        return "clear"
    warned = context.warned_s is not None and context.now_s - context.warned_s <= EXIT_WARNING_S
    return "leave" if warned else "warn"


def on_enter(before_cursor: str, after_cursor: str) -> EnterEffect:
    """Return the effect of Enter: a backslash before the cursor continues on a new line, an empty line is ignored."""
    if before_cursor.endswith("\\") and not after_cursor.strip():
        return "continue"
    return "send" if (before_cursor + after_cursor).strip() else "ignore"


class PendingInput:
    """Messages sent while the agent works: an `Incoming` that its next request takes."""

    def __init__(self, user_content: Callable[[str], Sequence[Text | Image]]) -> None:
        """`user_content` returns a message with its attachments."""
        self._user_content = user_content
        self.waiting: list[str] = []
        """Messages that have not reached the agent, oldest first."""
        self.given: tuple[str, ...] = ()
        """The messages of the last `peek`."""
        self.text = ""
        """The text of the last `peek`, attachments included."""

    def add(self, words: str) -> None:
        """Add a message."""
        self.waiting.append(words)

    def peek(self) -> Sequence[Text | Image]:
        """Return the waiting messages."""
        self.given = tuple(self.waiting)
        parts = tuple(part for words in self.given for part in self._user_content(words))
        self.text = "\n".join(part.text for part in parts if isinstance(part, Text))
        return parts

    def take(self) -> None:
        """Remove the messages of the last `peek`."""
        # Not `clear`: the user may have sent more since the last `peek`, which the agent has not seen.
        del self.waiting[: len(self.given)]
        self.given = ()

    def take_back(self) -> str:
        """Remove and return all waiting messages as one text."""
        words = "\n".join(self.waiting)
        self.waiting.clear()
        return words


class InputQueue:
    """Messages for the agent's next request, and lines for the end of its turn."""

    def __init__(self, pending: PendingInput, later: deque[str], commands: Sequence[CommandSyntax]) -> None:
        """`later` receives the lines for the end of the turn: commands, and all that was typed after the first one."""
        self._pending = pending
        self._later = later
        self._commands = commands

    def add_message(self, words: str) -> None:
        """Add a message; it waits behind a command that waits, as it may be meant for what the command changes."""
        if self._later:
            self._later.append(words)
        else:
            self._pending.add(words)

    def is_message(self, words: str) -> bool:
        """Return whether a line is for the agent, not a command."""
        return not is_user_command(words) and parse_slash(words, self._commands) is None

    def next_line(self) -> str:
        """Remove and return the next line: a command, or all messages before the next one; empty if there is none."""
        if words := self._pending.take_back():
            return words
        words = self._later.popleft() if self._later else ""
        while self._later and self.is_message(words) and self.is_message(self._later[0]):
            words += f"\n{self._later.popleft()}"
        return words

    @property
    def waiting(self) -> Sequence[str]:
        """The lines that wait, oldest first."""
        return (*self._pending.waiting, *self._later)

    def take_back_newest(self) -> str:
        """Remove and return the newest line; empty if there is none."""
        lines = self._later or self._pending.waiting
        return lines.pop() if lines else ""

    def take_back_messages(self) -> str:
        """Remove and return all messages as one text; commands stay."""
        lines = [self._pending.take_back(), *self._later]
        self._later.clear()
        self._later.extend(words for words in lines if not self.is_message(words))
        return "\n".join(words for words in lines if words and self.is_message(words))


class PastedTexts:
    """The long pasted texts of a session, by their marks."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, pasted: str, *, at_start: bool = False) -> str:
        """Return what to insert for a paste: the text itself, or a mark for a long one.

        `at_start` says that it begins the line. A `!` there is no command, as it was not typed: a space precedes it.
        """
        text = pasted.replace("\r\n", "\n").replace("\r", "\n")
        return (" " if at_start and text.startswith("!") else "") + self._add_mark(text)

    def _add_mark(self, text: str) -> str:
        lines = text.rstrip("\n").count("\n") + 1
        if lines < MIN_LINES and len(text) < MIN_CHARACTERS:
            return text
        if known := next((mark for mark, each in self._texts.items() if each == text), ""):
            return known
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        mark = f"[pasted {size}{f' #{len(self._texts) + 1}' if self._texts else ''}]"
        self._texts[mark] = text
        return mark

    def expand(self, line: str) -> str:
        """Return the line with the pasted texts instead of their marks."""
        # In one pass: a pasted text may itself contain something like a mark.
        return _MARK.sub(lambda mark: self._texts.get(mark[0], mark[0]), line)

    def fold(self, words: str) -> str:
        """Return what `expand` made of a line as that line again, to be edited."""
        for mark, text in self._texts.items():
            words = words.replace(text, mark)
        return words

    def mark_before(self, text: str) -> str:
        """Return the mark that `text` ends with; empty if it ends with none."""
        return next((mark for mark in self._texts if text.endswith(mark)), "")
