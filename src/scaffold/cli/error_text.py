"""Error texts and tracebacks without the secrets that they may quote."""

import os
import traceback
from collections.abc import Collection
from pathlib import Path
from shlex import quote

from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.core.errors import UsageError
from scaffold.plan.message_text import quoted
from scaffold.plan.spelling_hints import SpellingHints
from scaffold.policy.secret.sources import redactor_for


def redact(text: str) -> str:
    """Return `text` without the secrets of this process, the current folder and the user."""
    try:
        folder = Path.cwd()
    except OSError:  # it was deleted
        folder = Path(os.devnull)
    return redactor_for(os.environ, folder).clean(text)


def print_redacted(text: str) -> None:
    """Print lines on standard error without secrets, as wide as the terminal.

    A server's message or a name may have escape sequences: they are shown, not sent to the terminal.
    """
    print_text(redact(text), err=True)


def unknown_command(word: str, commands: Collection[str]) -> UsageError:
    """Return the error for an unknown `scaffold` command; `commands` are the known ones."""
    hint = SpellingHints(commands).hint(word)
    if not hint and len(word.split()) > 1:
        hint = f"To start a task: `scaffold run {quote(word)}`. "
    return UsageError(f"there is no command {quoted(word)}", f"{hint}`scaffold --help` lists all of them.")


def redacted_traceback(error: Exception) -> str:
    """Return the traceback of an error without secrets."""
    return redact("".join(traceback.format_exception(error)))
