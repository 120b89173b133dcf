"""The log of `--verbose`: what this process and its child processes do, on standard error as it happens."""

import asyncio
import atexit
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from scaffold.core.printable_text import printable
from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.host.leftovers import temporary_prefix
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.sources import redactor_for

LOOK_S = 0.2  # between looks for lines of other processes
LOGGER = "scaffold"
SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""For the shared file: at its known path others could put a link, or a pipe that blocks."""


class LineHandler(logging.Handler):
    """Formats records as lines with local time and process, without secrets."""

    def __init__(self) -> None:
        super().__init__()
        self._elsewhere: tuple[Path, ...] = ()
        self._redactor: Redactor | None = None

    def work_in(self, folder: Path) -> None:
        """Redact the secrets of `folder`, too."""
        self._elsewhere, self._redactor = (*self._elsewhere, folder), None

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record as one line; a line that cannot be written is lost, and the logged work goes on."""
        at = datetime.fromtimestamp(record.created, tz=UTC).astimezone()
        with suppress(OSError):
            # Not before the first record: the option -C, which says where the command works, may follow --verbose.
            if self._redactor is None:
                checkouts = (find_checkout(each) for each in (Path.cwd(), *self._elsewhere))
                folders = (Path.cwd(), *self._elsewhere, *(each for each in checkouts if each is not None))
                self._redactor = redactor_for(os.environ, *dict.fromkeys(each.resolve() for each in folders))
            text = printable(self._redactor.clean(record.getMessage()).replace("\n", "\\n"))
            self.write_line(f"{at:%H:%M:%S}.{at.microsecond // 1000:03} [{record.process}] {text}")

    def write_line(self, line: str) -> None:
        """Print the line on standard error; raises OSError."""
        _print_lines(line)


class SharedFileHandler(LineHandler):
    """Appends lines to a file, which the process that began the log prints."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def write_line(self, line: str) -> None:
        """Append the line; raises OSError, also if its reader has removed the file."""
        target = os.open(self._path, os.O_WRONLY | os.O_APPEND | SAFELY)
        try:
            os.write(target, f"{line}\n".encode(errors="replace"))
        finally:
            os.close(target)


def begin_log() -> Path:
    """Log on standard error from now on, and return a new file for the lines of the processes that are started."""
    # The name tells whose it is, so that recovery and cleanup remove it if this process is killed.
    descriptor, name = tempfile.mkstemp(prefix=temporary_prefix("log"))
    os.close(descriptor)
    atexit.register(Path(name).unlink, missing_ok=True)
    _install_handler(LineHandler())
    return Path(name)


def join_log(file: Path) -> None:
    """Log to the file of the process that began the log and started this one."""
    _install_handler(SharedFileHandler(file))


def work_elsewhere(folder: Path) -> None:
    """Redact the secrets of `folder`, too, in which this process works although it is not its current folder."""
    for handler in logging.getLogger(LOGGER).handlers:
        if isinstance(handler, LineHandler):
            handler.work_in(folder)


def _install_handler(handler: logging.Handler) -> None:
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)


@asynccontextmanager
async def showing_others(file: Path | None) -> AsyncIterator[None]:
    """Print what other processes log to `file` while the block runs; None if there is no log."""
    if file is None:
        yield
        return
    reader = _FileReader(file)

    async def show_new_lines() -> None:
        while True:
            reader.show()
            await asyncio.sleep(LOOK_S)

    showing = asyncio.create_task(show_new_lines())
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait([showing])
        reader.show()


class _FileReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def show(self) -> None:
        """Print the whole lines since the last call."""
        with suppress(OSError), open(os.open(self._path, os.O_RDONLY | SAFELY), "rb") as file:  # noqa: PTH123 - flags
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
            if newline:
                self._offset += len(whole) + 1
                # Any process of the user can write to the file.
                _print_lines(printable(whole.decode(errors="replace")))


def _print_lines(text: str) -> None:
    if sys.stderr is None or sys.stderr.isatty():  # at a terminal they appear above the rows of a run
        click.echo(text, err=True)
    else:
        # Text that stays in Python's buffer because it cannot be written would become the exit code 120.
        os.write(sys.stderr.fileno(), f"{text}\n".encode(errors="replace"))
