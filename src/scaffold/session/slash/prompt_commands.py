"""Commands that the user has written: a message by its name, with what it is about."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from scaffold.agent.agent_spec import TurnResult
from scaffold.agent.context.attachments import ATTACHMENT_PREFIX
from scaffold.agent.context.text_size import cut_middle
from scaffold.core.conversation import Image
from scaffold.core.extension_set import PromptCommand
from scaffold.core.printable_text import truncate_text
from scaffold.core.tool import Tool
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.agent_session import Session
from scaffold.session.slash.syntax import ALIASES, COMMANDS, AgentCommand, CommandSyntax, SendPrompt, StartReview
from scaffold.session.working_tree import change_to_review

_PARTS = re.compile(r"!`([^`\n]+)`")
_ARGUMENTS = re.compile(r"\$ARGUMENTS\b|\$(\d)\b")
MAX_OUTPUT_CHARS = 30_000
MAX_REVIEWED = 200_000
"""Bytes of a change that the reviewing agent gets at once; of a longer one it reads the middle itself."""


def all_commands(
    given: Sequence[PromptCommand], known: Sequence[CommandSyntax] = COMMANDS
) -> tuple[CommandSyntax, ...]:
    """Return the `known` commands, and the user's own unless a known one has the same name and cannot be replaced."""
    own = [each for each in given if each.name not in _taken_names(known)]
    names = {each.name for each in own}
    return (*(each for each in known if each.name not in names), *map(_command_syntax, own))


def hidden_commands(given: Sequence[PromptCommand], known: Sequence[CommandSyntax] = COMMANDS) -> Iterator[str]:
    """Yield a line about each command that has the name of a `known` one which it cannot replace."""
    for each in given:
        if each.name in _taken_names(known):
            yield f"{each.source} has no effect: `/{each.name}` is a command of ralph"


def _taken_names(known: Sequence[CommandSyntax]) -> frozenset[str]:
    return frozenset({*ALIASES, *(each.name for each in known if not each.replaceable)})


async def prompt_text(command: SendPrompt, tools: Sequence[Tool]) -> str:
    """Return the message of a command, with its arguments, and what its shell commands print.

    These run as if the agent had called them: by its tool, through the gate and the hooks.
    """
    template, typed = command.command.text, command.arguments.strip()
    try:
        words = shlex.split(typed)
    except ValueError:  # an open quote
        words = typed.split()

    def value(found: re.Match[str]) -> str:
        if found[1] is None:
            return typed
        at = int(found[1]) - 1
        return words[at] if 0 <= at < len(words) else ""

    # Only what the command itself says is looked at: neither arguments nor output are expanded.
    parts = _PARTS.split(template)
    filled = [_ARGUMENTS.sub(value, part) for part in parts]
    shell = next((tool for tool in tools if tool.name == "shell"), None)
    for at in range(1, len(filled), 2):
        ran = await shell.run({"command": filled[at]}) if shell else None
        output = ran.content if ran else "Not run: there is no shell here."
        filled[at] = truncate_text(output, MAX_OUTPUT_CHARS)
    text = "".join(filled)
    if typed and not _ARGUMENTS.search(template):
        text += f"\n\nArguments: {typed}"
    return text


async def send_command(
    session: Session, command: AgentCommand, material: str = "", images: Sequence[Image] = ()
) -> TurnResult:
    """Take one turn about a command that is one; `material` and `images` are passed on. Raises what `say` does."""
    if isinstance(command, SendPrompt):
        return await session.say(await prompt_text(command, session.tools), material, images)
    cwd = session.options.cwd
    change = await change_to_review(command.change, session.file_history, cwd)
    # Cut after the redaction, which has to see secrets whole.
    shown = cut_middle(redactor_for(os.environ, cwd).clean(change), MAX_REVIEWED)
    with session.modes.during("review"):
        return await session.say(
            _review_request(command), f"{ATTACHMENT_PREFIX}the change\n{shown}\n{material}", images
        )


def _review_request(command: StartReview) -> str:
    what = f"`{command.change}`" if command.change else "what is not committed"
    more = f" Look above all at this: {command.focus}" if command.focus else ""
    return (
        f"Review {what}; the change is attached. Files that are only named as untracked are new as a whole: read "
        f"them, and whatever else the change touches.{more}"
    )


def _command_syntax(command: PromptCommand) -> CommandSyntax:
    return CommandSyntax(
        name=command.name,
        words=command.hint,
        summary=f"{command.description} ({command.source})",
        read=lambda words: SendPrompt(command, words[0] if words else ""),
        in_oneshot=True,
        whole=True,
    )
