"""Read a request: an argument, a file, or standard input."""

import os
import stat
from pathlib import Path
from typing import TextIO

from scaffold.core.errors import UsageError

STDIN = "-"
MAX_BYTES = 500_000  # about 125,000 tokens; with the repository, a model could not read more

NO_TASK = ("there is no task", 'Pass one: `scaffold run "TASK"`, `--spec FILE`, or on standard input.')


def read_request(task: str | None, spec: str | None, stdin: TextIO) -> str:
    """Return the request: `task`, the content of the file `spec`, or `stdin` if one of them is `-`.

    With neither, `stdin` is read if something is piped in. Raises UsageError if the request is empty, too long or not
    text.
    """
    if task is not None and spec is not None:
        raise UsageError("a task and a specification cannot be combined", "Pass only one of them.")
    if task is not None and task != STDIN:
        return _checked_text(task.encode(errors="surrogateescape"), "the task")
    if spec is not None and spec != STDIN:
        try:
            with Path(spec).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            what = f"{spec} cannot be read: {(error.strerror or str(error)).lower()}"
            raise UsageError(what, "Pass a text file, or `-` for standard input.") from error
        return _checked_text(content, spec)
    if task is None and spec is None and not is_piped(stdin):
        raise UsageError(*NO_TASK)
    return _checked_text(stdin.buffer.read(MAX_BYTES + 1), "standard input")


def is_piped(stdin: TextIO) -> bool:
    """Return whether standard input is a pipe, a file or a socket."""
    mode = os.fstat(stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _checked_text(content: bytes, name: str) -> str:
    if len(content) > MAX_BYTES:
        limit = f"{name} is longer than {MAX_BYTES // 1000:,} KB, more than a planner can read at once"
        raise UsageError(limit, "Shorten it; refer to files of the repository, which agents can read.")
    try:
        # Editors on Windows begin a file with a byte order mark.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text", "Pass a specification in plain text.") from error
    if "\0" in text:
        raise UsageError(f"{name} is not text: it contains a NUL byte", "Pass a specification in plain text.")
    if not text.strip():
        raise UsageError(*NO_TASK)
    return text
