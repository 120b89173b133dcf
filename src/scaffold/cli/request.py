"""What is to be done, as commands are told it: in words, in a file, or on standard input."""

import os
import stat
from pathlib import Path
from typing import TextIO

from scaffold.core.errors import UsageError

STDIN = "-"
MAX_BYTES = 500_000
"""More no model could read at once, beside the repository; 500 KB are about 125,000 tokens."""

NO_TASK = ("there is no task", 'Say it: `scaffold run "TASK"`, `--spec FILE`, or pass it on standard input.')


def read_request(task: str | None, spec: str | None, stdin: TextIO | None) -> str:
    """Return the request: `task`, or the content of the file `spec`, or of `stdin` where one of them is `-`.

    With neither, `stdin` (None if it was closed) is read if something is passed there. UsageProblem if there are no
    words, or too many.
    """
    if task is not None and spec is not None:
        raise UsageError("a task and a specification exclude each other", "Leave one of them out.")
    if task is not None and task != STDIN:
        return _checked(task.encode(errors="surrogateescape"), "the task")
    if spec is not None and spec != STDIN:
        return _checked(_file(spec), spec)
    if stdin is None or (task is None and spec is None and not is_piped(stdin)):
        raise UsageError(*NO_TASK)
    return _checked(stdin.buffer.read(MAX_BYTES + 1), "standard input")


def is_piped(stdin: TextIO | None) -> bool:
    """Tell whether somebody passes something on standard input: neither a terminal nor nothing."""
    if stdin is None or stdin.closed:
        return False
    mode = os.fstat(stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _file(spec: str) -> bytes:
    try:
        with Path(spec).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        what = f"{spec} cannot be read: {(error.strerror or str(error)).lower()}"
        raise UsageError(what, "Name a text file, or `-` for standard input.") from error


def _checked(content: bytes, name: str) -> str:
    if len(content) > MAX_BYTES:
        limit = f"{name} is longer than {MAX_BYTES // 1000:,} KB, more than a planner can read at once"
        raise UsageError(limit, "Shorten it; name files of the repository for the rest, agents read those.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is no UTF-8 text", "Pass a specification in plain text.") from error
    if "\0" in text:
        raise UsageError(f"{name} is no text: it holds a zero byte", "Pass a specification in plain text.")
    if not text.strip():
        raise UsageError(*NO_TASK)
    return text
