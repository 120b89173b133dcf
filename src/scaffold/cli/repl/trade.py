"""What a talk is for: who one talks with, what they may ask for, and commands that no other talk has."""

from collections.abc import Sequence
from typing import Protocol

from scaffold.cli.inquiry import Own
from scaffold.cli.repl.narrator import Narrator
from scaffold.cli.repl.questions import Questions
from scaffold.core.ids import ConversationId
from scaffold.core.tool import Tool


class Table(Protocol):
    """A talk, as who works in it sees it."""

    narrator: Narrator
    questions: Questions

    def later(self, command: str) -> None:
        """Carry a command out as soon as the turn that goes on is over."""
        ...


class Trade(Protocol):
    """What a talk is for."""

    name: str
    own: Sequence[Own]
    """Its own commands."""

    def sit_down(self, table: Table) -> None:
        """Take the talk it is at, before anything else."""
        ...

    def keeps(self, tool: Tool) -> bool:
        """Tell whether the agent has this one of the tools that every session has."""
        ...

    def tools(self) -> tuple[Tool, ...]:
        """Return what the agent has besides."""
        ...

    def answer(self, words: str) -> str | None:
        """Return what one of its own commands tells, None for words that are none of them."""
        ...

    def farewell(self, conversation: ConversationId | None) -> str:
        """Return what is said at the end, empty for nothing; `conversation` is None if nothing was said in it."""
        ...


class Ralph:
    """The trade of `ralph`: whatever it is asked to do."""

    name = "ralph"
    own: Sequence[Own] = ()

    def sit_down(self, table: Table) -> None:
        """Do without."""

    def keeps(self, tool: Tool) -> bool:  # noqa: ARG002 - whichever it is
        """Keep them all."""
        return True

    def tools(self) -> tuple[Tool, ...]:
        """Return none."""
        return ()

    def answer(self, words: str) -> str | None:  # noqa: ARG002 - whatever they are
        """Return None."""
        return None

    def farewell(self, conversation: ConversationId | None) -> str:
        """Return how to go on."""
        return f"go on with `ralph --resume {conversation}`" if conversation else ""


RALPH = Ralph()
