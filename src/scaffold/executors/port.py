"""The port of executors: programs of others that work in a worktree, one process for each turn.

What a program says of its work is a claim. A turn is over when its process and all that it started have ended: only
then may the worktree be checked.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from scaffold.core.model import Usage
from scaffold.core.tool import ToolCategory
from scaffold.executors.program_lines import ProgramLines
from scaffold.llm.wire.provider_errors import ProviderErrorKind, provider_error_kind


class StartedSession(Struct, frozen=True, tag="session"):
    """The conversation has this id, told before the first model request: a turn that is cut off continues by it."""

    session: str


class SaidText(Struct, frozen=True, tag="text"):
    """The next piece of what the program says, or thinks."""

    text: str
    is_thinking: bool = False


class StartedTool(Struct, frozen=True, tag="tool"):
    """The program began to use a tool of its own."""

    id: str
    name: str
    args: Mapping[str, Any]


class EndedTool(Struct, frozen=True, tag="tool_result"):
    """A tool ended, with what it returned."""

    id: str
    content: str
    failed: bool = False


class ReportedUsage(Struct, frozen=True, tag="usage"):
    """What this turn has used so far: the latest report counts, reports are not added up.

    Its cost is None if the program names none.
    """

    usage: Usage


class Waits(Struct, frozen=True, tag="waits"):
    """The program waits for its provider and tries again by itself, in some seconds."""

    seconds: float
    reason: str


class Noticed(Struct, frozen=True, tag="notice"):
    """Something that people should know: a line that is no message, a mode that was set, a warning of the program."""

    text: str


ProgramEvent = StartedSession | SaidText | StartedTool | EndedTool | ReportedUsage | Waits | Noticed


class PermissionQuestion(Struct, frozen=True, kw_only=True):
    """What the program wants to do and asks about first. It waits for the answer without an end."""

    id: str
    tool: str
    title: str
    """As the program words it, for people."""
    category: ToolCategory
    """`network` if the program does not say what kind of tool it is: that is the most careful one."""
    args: Mapping[str, Any]
    reason: str = ""
    """Why it asks, as the program words it."""


class PermissionAnswer(Struct, frozen=True):
    """A permission for exactly this one call, or a denial with its reason for the model."""

    allowed: bool
    reason: str = ""


class TurnListener(Protocol):
    """Who started the turn."""

    def hear(self, event: ProgramEvent, /) -> None:
        """Receive an event as it comes; must be fast and must not raise."""

    async def permit(self, question: PermissionQuestion, /) -> PermissionAnswer:
        """Answer a question; what it raises ends the turn, and the program, and is raised from the turn."""


class ToolServer(Struct, frozen=True, kw_only=True):
    """An MCP server on standard input and output that is offered to the program: our own tools."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = {}


ProgramMode = Literal["edit", "read"]
"""It may change the worktree, and asks about what is not harmless | it only reads, and answers."""


class ProgramTurn(Struct, frozen=True, kw_only=True):
    """One prompt to a program."""

    prompt: str
    folder: Path
    """The worktree, absolute."""
    mode: ProgramMode = "edit"
    session: str = ""
    """The conversation to continue, as an earlier turn told it; empty for a new one."""
    trusted: bool = False
    """The user trusts the repository, and no agent could change it since: its own settings for the program count."""
    model: str = ""
    """The model's name as the program knows it; empty for its own choice."""
    system: str = ""
    """What is added to its own base prompt."""
    server: ToolServer | None = None
    budget_usd: float | None = None
    """What the turn may cost at most, for programs that can limit it; None for no limit."""
    answer_schema: Mapping[str, Any] | None = None
    """JSON schema of the final answer, for programs that can be held to one."""


TurnFailure = Literal["login", "quota", "overloaded", "context", "session", "model", "program", "limit"]
"""Not logged in, or refused | used up until a time | the provider is overloaded or out of reach | the conversation is
too long | the conversation of `ProgramTurn.session` is gone, and the prompt was not sent | the provider refused the
request otherwise | the program broke: an unknown mode, an end without a result | its own limit of
turns or money was reached."""
_FAILURES: Mapping[ProviderErrorKind, TurnFailure] = {
    "overflow": "context",
    "quota": "quota",
    "key": "login",
    "forbidden": "login",
    "unknown": "model",
    "busy": "overloaded",
    "passing": "overloaded",
    "final": "model",
}


def provider_failure(status: int, body: str) -> TurnFailure:
    """Return what the HTTP status and the body mean that a program got from its provider, and passes on."""
    return _FAILURES[provider_error_kind(status, body.encode())]


class ProgramEnd(Struct, frozen=True, kw_only=True):
    """How a turn ended, as the program says. Without a failure it says that it is done, which proves nothing."""

    text: str = ""
    """Its last words, whole."""
    session: str = ""
    """The conversation; empty if it cannot be continued."""
    usage: Usage | None = None
    """Of the whole turn; None if it was never reported."""
    model: str = ""
    """The model that answered, as the program names it; empty if it does not."""
    denied: tuple[str, ...] = ()
    """The tools whose calls were denied in this turn."""
    failure: TurnFailure | None = None
    why: str = ""
    """The failure in the program's words."""
    resets_at: float | None = None
    """When a quota is full again, in seconds since 1970; None if that is unknown."""


class ProgramProtocol(Protocol):
    """One family of programs: how they are started for a turn, and how they are talked to.

    An object serves one turn at a time, so `interrupt` knows what `converse` has begun.
    """

    def arguments(self, turn: ProgramTurn, /) -> Sequence[str]:
        """Return the arguments behind the program's command."""

    async def converse(self, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener, /) -> ProgramEnd:
        """Send the prompt and follow the turn to its end, or until this is cancelled.

        Raises ProgramBroken if the program ends, or says what its protocol does not allow, before a result.
        """

    async def interrupt(self, lines: ProgramLines, /) -> None:
        """Ask the program to end the turn now, and deny what it waits for; it is ended a moment later anyhow."""
