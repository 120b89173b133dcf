"""User input: the events a terminal posts, the meaning of keys, and messages that wait for a busy agent."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.conversation import Image, Text

EXIT_WARNING_S = 2.0
"""How long the warning holds that another Ctrl-C leaves."""

InterruptEffect = Literal["deny", "stop", "end", "clear", "warn", "leave"]
EnterEffect = Literal["send", "continue", "ignore"]
REASON_KEY = "r"
"""Begins the reason of a denial, where keys answer."""


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
