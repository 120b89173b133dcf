"""Reject a TASK that was not meant as one: a file name, or a mistyped command."""

import sys
from collections.abc import Collection
from pathlib import Path
from shlex import quote

from scaffold.cli.render.terminal.style import is_terminal
from scaffold.cli.render.terminal.text_layout import confirm
from scaffold.core.errors import UsageError
from scaffold.plan.message_text import quoted
from scaffold.plan.spelling_hints import SpellingHints

TASKS_FILE = "tasks.md"  # in a folder of spec-kit or Kiro
PLAN_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
LOOKS_LIKE = 0.8  # similarity from which a word counts as a mistyped command, from 0 to 1


def reject_file(task: str, fix: str) -> None:
    """Raise UsageError with `fix` if the task is the path of a file, or of a folder with a list of tasks."""
    path = Path(task)
    try:
        is_file, has_tasks = path.is_file(), (path / TASKS_FILE).is_file()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return
    if is_file:
        raise UsageError(f"the task {quoted(task)} is the name of a file", fix)
    if has_tasks:
        raise UsageError(f"the task {quoted(task)} is the name of a folder with a list of tasks", fix)


def reject_command(task: str, prefix: str, commands: Collection[str]) -> None:
    """Raise UsageError if the task equals or resembles one of the `commands`, which follow `prefix`."""
    if meant := SpellingHints(commands).closest(task.strip(), LOOKS_LIKE):
        fix = f"Did you mean `{prefix} {meant}`? Use more words if it is a task."
        raise UsageError(f"the task {quoted(task)} looks like a command", fix)


def check_task(task: str, *, yes: bool) -> None:
    """Check that the TASK of `scaffold run` or `scaffold plan` is meant as one, before it costs anything.

    A task of one word is confirmed at a terminal, unless the user said `yes`; elsewhere it is taken as it is.
    Raises UsageError if it was not meant as a task.
    """
    as_spec = f"`--spec {quote(task)}`"
    is_plan = Path(task).suffix in PLAN_SUFFIXES
    reject_file(
        task,
        f"If it is a plan, `scaffold run --plan {quote(task)}`; if it describes the task, {as_spec}."
        if is_plan
        else f"Pass a file that describes the task as {as_spec}.",
    )
    is_doubtful = len(task.split()) == 1 and not yes and is_terminal(sys.stdin)
    if is_doubtful and not confirm(f"The task is only one word, {quoted(task)}. Go on?"):
        raise UsageError("nothing was started", "Describe the task in a sentence.")
