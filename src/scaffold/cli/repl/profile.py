"""What a talk is for: who one talks with, what they may ask for, and commands that no other talk has."""

from collections.abc import Sequence
from typing import Protocol

from scaffold.cli.repl.approval_queue import ApprovalQueue
from scaffold.cli.repl.transcript import Transcript
from scaffold.core.ids import ConversationId
from scaffold.core.tool import Tool
from scaffold.session.slash_queries import ExtraCommand


class ReplHandle(Protocol):
    """A talk, as who works in it sees it."""

    narrator: Transcript
    questions: ApprovalQueue

    def run_after_turn(self, command: str) -> None:
        """Carry a command out as soon as the turn that goes on is over."""
        ...


class ReplProfile(Protocol):
    """What a talk is for."""

    name: str
    own: Sequence[ExtraCommand]
    """Its own commands."""

    def attach(self, table: ReplHandle) -> None:
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


class RalphProfile:
    """The trade of `ralph`: whatever it is asked to do."""

    name = "ralph"
    own: Sequence[ExtraCommand] = ()

    def attach(self, table: ReplHandle) -> None:
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


RALPH_PROFILE = RalphProfile()
