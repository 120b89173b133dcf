"""The differences between the chats of `ralph` and `scaffold`."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from scaffold.core.ids import ConversationId
from scaffold.core.tool import Tool
from scaffold.session.reporter import keep_every_tool
from scaffold.session.slash.syntax import CommandSyntax


def resume_hint(conversation: ConversationId | None) -> str:
    """Return the command that resumes the conversation; empty if it has no messages."""
    return f"resume with `ralph --resume {conversation}`" if conversation else ""


class ReplProfile(Struct, frozen=True, kw_only=True):
    """The differences between the REPLs of `ralph` and `scaffold`; the defaults are those of `ralph`."""

    name: str = "ralph"
    commands: Sequence[CommandSyntax]
    keeps_tool: Callable[[Tool], bool] = keep_every_tool
    """Returns whether the agent gets a tool that every session has."""
    extra_tools: tuple[Tool, ...] = ()
    exit_hint: Callable[[ConversationId | None], str] = resume_hint
    """Returns the last line, empty for none; the argument is None if the conversation has no messages."""
