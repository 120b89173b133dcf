"""Between a talk and the terminal it is held at: what the terminal shows of it, and what reaches it from there."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from scaffold.cli.repl.renderer import Renderer
from scaffold.cli.repl.status_line import StatusLineState
from scaffold.policy.permission.approval_gate import ApprovalAnswer, ApprovalQuestion


class InputSubmitted(Struct, frozen=True):
    """The user sent something."""

    words: str


class InterruptPressed(Struct, frozen=True):
    """The user pressed Ctrl-C."""


class QuitRequested(Struct, frozen=True):
    """The user wants to leave; `lost` if the terminal is gone."""

    lost: bool = False


class TurnFinished(Struct, frozen=True):
    """A turn is over."""


class NewsArrived(Struct, frozen=True):
    """There is news for an agent that is idle."""


UIEvent = InputSubmitted | InterruptPressed | QuitRequested | TurnFinished | NewsArrived
PostEvent = Callable[[UIEvent], None]


class ReplView(Protocol):
    """A talk as its terminal sees it; all of it is asked anew for each drawing."""

    def standing(self) -> StatusLineState:
        """Return what the status line tells."""
        ...

    def live(self) -> str:
        """Return what is not finished, drawn with colours; empty if there is nothing."""
        ...

    def hint(self) -> str:
        """Return a short word about the next key; empty if there is none."""
        ...

    def choices(self) -> str:
        """Return which answers there are to the question, and what they mean."""
        ...

    def question(self) -> ApprovalQuestion | None:
        """Return what the user is asked, None if nothing is."""
        ...

    def key(self) -> bool:
        """Take note that a key was pressed, and tell whether it may answer the question."""
        ...

    def answer(self, answer: ApprovalAnswer) -> None:
        """Answer the question."""
        ...


class TerminalUI(Protocol):
    """A terminal of some kind; also a `narrator.Page`."""

    echoes: bool
    """Whether what was typed stays where it was typed."""

    @property
    def pen(self) -> Renderer:
        """Return how to draw at the moment."""
        ...

    @property
    def typed(self) -> str:
        """Return what is in the line and was not sent."""
        ...

    async def run(self) -> None:
        """Take what is typed until cancelled or the terminal ends; the terminal is left as it was found."""
        ...

    def show(self, text: str) -> None:
        """Show lines for good, above the line that is typed in."""
        ...

    def refresh(self) -> None:
        """Draw the rest anew, soon."""
        ...

    def ready(self) -> None:
        """Take note that it is the user's turn."""
        ...

    def ring(self) -> None:
        """Ring the bell: a question was shown."""
        ...

    def replace(self, words: str) -> None:
        """Let the line hold these words and nothing else."""
        ...
