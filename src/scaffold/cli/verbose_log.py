"""The log of `--verbose`: what this process and those of its run do, on standard error as it happens."""

import asyncio
import atexit
import logging
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from scaffold.cli.global_options import LOG_VARIABLE
from scaffold.core.printable_text import printable
from scaffold.policy.secret.sources import redactor_for

LOOK_S = 0.2
"""How often the lines of other processes are looked for."""


class LineHandler(logging.Handler):
    """Formats records as lines with local time and process, without secrets."""

    def __init__(self) -> None:
        super().__init__()
        self._redactor = redactor_for(os.environ, Path.cwd())

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record as one line."""
        at = datetime.fromtimestamp(record.created, tz=UTC).astimezone()
        text = printable(self._redactor.clean(record.getMessage()).replace("\n", "\\n"))
        self.write_line(f"{at:%H:%M:%S}.{at.microsecond // 1000:03} [{record.process}] {text}")

    def write_line(self, line: str) -> None:
        """Print the line on standard error."""
        click.echo(line, err=True)


class SharedFileHandler(LineHandler):
    """Appends lines to a file, which the process that began the log prints."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def write_line(self, line: str) -> None:
        """Append the line; does nothing if the file is gone, because nobody reads it any more."""
        with suppress(OSError):
            target = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(target, f"{line}\n".encode(errors="replace"))
            finally:
                os.close(target)


def begin_log() -> None:
    """Log on standard error from now on; processes that are started get a file for their lines."""
    if LOG_VARIABLE in os.environ:
        return
    descriptor, name = tempfile.mkstemp(prefix="scaffold-log-")
    os.close(descriptor)
    atexit.register(Path(name).unlink, missing_ok=True)
    os.environ[LOG_VARIABLE] = name
    _install(LineHandler())


def join_log() -> None:
    """Log to the file of the process that began the log and started this one."""
    _install(SharedFileHandler(Path(os.environ[LOG_VARIABLE])))


def _install(handler: logging.Handler) -> None:
    logger = logging.getLogger("scaffold")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)


@asynccontextmanager
async def showing_others() -> AsyncIterator[None]:
    """Print what other processes log while the block runs, if there is a log."""
    if LOG_VARIABLE not in os.environ:
        yield
        return
    reader = _FileReader(Path(os.environ[LOG_VARIABLE]))
    showing = asyncio.create_task(_show(reader))
    try:
        yield
    finally:
        showing.cancel()
        await asyncio.wait([showing])
        reader.show()


async def _show(reader: "_FileReader") -> None:
    while True:
        reader.show()
        await asyncio.sleep(LOOK_S)


class _FileReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def show(self) -> None:
        """Print the whole lines since the last call."""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
            if newline:
                self._offset += len(whole) + 1
                click.echo(whole.decode(errors="replace"), err=True)
