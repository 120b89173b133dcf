"""Commands that the user runs in a conversation with `!`: not asked about, not sandboxed, shown to the agent."""

from collections.abc import Mapping
from pathlib import Path

from scaffold.agent.context.attachments import ATTACHMENT_PREFIX
from scaffold.core.conversation import Text
from scaffold.core.tool import ToolOutput
from scaffold.tools.command.shell import command_answer
from scaffold.tools.command.spooled_output import CommandSpec, run_spooled

TIMEOUT_S = 86_400.0
# Shells whose `-c` takes a command as a POSIX shell does; another one is replaced by `sh`.
SHELLS = frozenset({"bash", "dash", "ksh", "sh", "zsh"})


def is_user_command(line: str) -> bool:
    """Return whether a line that the user typed is a command of their own; a space before it makes it a message."""
    return line.startswith("!") and bool(user_command(line))


def user_command(line: str) -> str:
    """Return the command in such a line."""
    return line[1:].strip()


async def run_user_command(command: str, cwd: Path, environ: Mapping[str, str]) -> ToolOutput:
    """Run a command in the user's shell, without input; return how it ended and its output, cut in the middle."""
    shell = Path(environ.get("SHELL", ""))
    argv = [str(shell) if shell.name in SHELLS else "/bin/sh", "-c", command]
    spec = CommandSpec(argv=argv, cwd=cwd, env=environ, timeout_s=TIMEOUT_S, together=True)
    return command_answer(await run_spooled(spec))


def command_note(command: str, answer: str) -> tuple[Text, Text]:
    """Return the note for the agent about a command of the user: the command, and its output as an attachment."""
    ran = Text(f"[The user ran this command, not you: {command}]", "command")
    return ran, Text(f"{ATTACHMENT_PREFIX}how it ended\n{answer}", "output")


def stopped_note(command: str) -> Text:
    """Return the note for the agent about a command that the user stopped."""
    return Text(f"[The user ran this command, not you, and stopped it before it ended: {command}]", "command")


def noted_command(note: Text) -> str:
    """Return the line that the user typed, of a text that one of these two made."""
    return f"!{note.text.partition(': ')[2].removesuffix(']')}"
