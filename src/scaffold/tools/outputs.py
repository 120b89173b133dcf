"""Output of commands that is longer than a model sees, kept on disk while it comes so that it can be looked into."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from scaffold.host.ids import new_id
from scaffold.host.process import MOST_PROCESSES, Finished, run
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.tools.workspace import ANSWER_LIMIT, nobody

KEPT_BYTES = 1 << 30
"""Of each of stdout and stderr; what comes after that is not kept."""
KEPT_FILES = 20
KEPT_TOTAL_BYTES = 2 << 30
"""Of all files together; a single answer's files stay even if they are longer."""
FREE_BYTES = 1 << 30
"""What is left free on the disk; less, and no more is kept."""
_SHARES = {"stdout": ANSWER_LIMIT * 2 // 3, "stderr": ANSWER_LIMIT // 3}
_HELD_BYTES = 2 * ANSWER_LIMIT
_CLEANED_BYTES = 1 << 20
_LOOK_EVERY_BYTES = 1 << 23


class Command(Struct, frozen=True, kw_only=True):
    """What is run where, with an end; `outputs` is a folder for what is too long to be shown, None: it is lost."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    timeout_s: float
    outputs: Path | None = None
    stdin: bytes = b""
    enclosure: Enclosure | None = None
    """What holds it; None: nothing does."""
    clean: Callable[[str], str] = str
    """Takes secrets out of what is kept."""
    heard: Callable[[], object] = nobody
    """Is told whenever it prints something."""


class Told(Struct, frozen=True):
    """How a command ended, what a model is shown of its output, and a line on each stream that was cut."""

    finished: Finished
    stdout: str
    stderr: str
    kept: tuple[str, ...] = ()
    """Where all of it is, or why it is lost."""


class Spool:
    """A stream that is kept in a new file of `folder` once it has more than `shown_bytes`, up to `limit_bytes`.

    It stops where the disk has less than `free_bytes` left. Nothing is raised: `problem` says why not all of it is
    kept, and `file` is None if nothing is.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        shown_bytes: int,
        *,
        limit_bytes: int = KEPT_BYTES,
        free_bytes: int = FREE_BYTES,
    ) -> None:
        self._path = folder / f"output-{name}.txt"
        self._short: bytearray | None = bytearray()
        self._shown_bytes = shown_bytes
        self._limit_bytes = limit_bytes
        self._free_bytes = free_bytes
        self._writing: BinaryIO | None = None
        self._looked_at = -_LOOK_EVERY_BYTES
        self.kept = 0
        """How many bytes are in the file."""
        self.problem = ""

    @property
    def file(self) -> Path | None:
        """Return the file, None if there is none."""
        return self._path if self._writing else None

    def write(self, data: bytes, /) -> None:
        """Take the next bytes."""
        if self._short is not None:
            self._short += data
            if len(self._short) <= self._shown_bytes:
                return
            data, self._short = bytes(self._short), None
        if not self.problem:
            try:
                self._put(data)
            except OSError as error:
                self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Write no more; safe to repeat."""
        if self._writing:
            self._writing.close()

    def remove(self) -> None:
        """Write no more, and keep nothing."""
        self.close()
        if self._writing:
            self._path.unlink(missing_ok=True)

    def _put(self, data: bytes) -> None:
        if self.kept - self._looked_at >= _LOOK_EVERY_BYTES:
            self._looked_at = self.kept
            self._path.parent.mkdir(parents=True, exist_ok=True)
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < self._free_bytes:
                self.problem = f"less than {self._free_bytes} bytes of the disk are free"
                return
        if self._writing is None:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self._writing = os.fdopen(fd, "wb", buffering=0)
        rest = memoryview(data)[: self._limit_bytes - self.kept]
        if len(rest) < len(data):
            self.problem = f"at most {self._limit_bytes} bytes of a stream are kept"
        while rest:
            written = self._writing.write(rest)
            self.kept += written
            rest = rest[written:]


class _Overheard:
    """Output on its way to where it is kept, if it is, told of as it comes."""

    def __init__(self, heard: Callable[[], object], spool: Spool | None) -> None:
        self._heard = heard
        self._spool = spool

    def write(self, data: bytes, /) -> None:
        """Take the next bytes."""
        if data:
            self._heard()
        if self._spool is not None:
            self._spool.write(data)


async def run_told(command: Command) -> Told:
    """Run a command on a leash, and keep what is too long to be shown; if it is cancelled, nothing is kept."""
    with _spools(command.outputs) as spools:
        finished = await run(
            command.argv,
            cwd=command.cwd,
            env=command.env,
            timeout_s=command.timeout_s,
            stdin=command.stdin,
            limit_bytes=_HELD_BYTES,
            sinks=(_Overheard(command.heard, spools.get("stdout")), _Overheard(command.heard, spools.get("stderr"))),
            leash=True,
            enclosure=command.enclosure,
        )
        files = {spool.file for spool in spools.values() if spool.file}
        if command.outputs and files:
            await asyncio.to_thread(_clean_all, files, command.clean)
            await asyncio.to_thread(_retire, command.outputs, files)
        return Told(
            finished,
            cut(finished.stdout, finished.stdout_bytes, _SHARES["stdout"]).rstrip("\n"),
            cut(finished.stderr, finished.stderr_bytes, _SHARES["stderr"]).rstrip("\n"),
            tuple(_kept(finished, spools)),
        )


def ending(finished: Finished, if_late: str = "") -> str:
    """Return how a command ended and how long it took; `if_late` says what to do if its time was over."""
    if finished.crowded:
        how = f"stopped: it started more than {MOST_PROCESSES} processes"
    elif finished.timed_out:
        how = "stopped at its time limit" + (f" ({if_late})" if if_late else "")
    elif finished.signal == signal.SIGXFSZ:
        how = "stopped: it made a file longer than a file may be here"
    elif finished.signal is not None:
        how = f"killed by signal {finished.signal}"
    else:
        how = f"exit code {finished.exit_code}"
    return f"{how} after {finished.duration_s:.1f} s"


def cut(data: bytes, total: int, limit: int) -> str:
    """Return text of `total` bytes, or its head and tail with a note on what is missing between them.

    `data` is all of it, or begins and ends as it does for at least `limit` bytes each.
    """
    if total <= limit:
        return data.decode(errors="replace")
    head, tail = data[: limit * 2 // 3], data[-(limit // 3) :]
    missing = total - len(head) - len(tail)
    return f"{head.decode(errors='replace')}\n... {missing} bytes left out ...\n{tail.decode(errors='replace')}"


@contextlib.contextmanager
def _spools(outputs: Path | None) -> Iterator[Mapping[str, Spool]]:
    """Yield one for each stream, none without a folder; if what is done meanwhile fails, their files are removed."""
    name = new_id()
    spools = {each: Spool(outputs, f"{name}-{each}", _SHARES[each]) for each in _SHARES} if outputs else {}
    with contextlib.ExitStack() as undo:
        for spool in spools.values():
            undo.callback(spool.remove)
        yield spools
        undo.pop_all()
        for spool in spools.values():
            spool.close()


def _kept(finished: Finished, spools: Mapping[str, Spool]) -> Iterator[str]:
    lengths = {"stdout": finished.stdout_bytes, "stderr": finished.stderr_bytes}
    for name, spool in spools.items():
        if lengths[name] <= _SHARES[name]:
            continue
        if not spool.kept:
            yield f"--- {name} is not kept on disk: {spool.problem}"
        elif spool.kept < lengths[name]:
            yield f"--- the first {spool.kept} of {lengths[name]} bytes of {name} are in {spool.file} ({spool.problem})"
        else:
            yield f"--- all {lengths[name]} bytes of {name} are in {spool.file}"


def _clean_all(files: Iterable[Path], clean: Callable[[str], str]) -> None:
    """Take secrets out of files, some at a time; what cannot be cleaned is not kept."""
    for file in files:
        draft = file.with_suffix(".draft")
        try:
            if _cleaned(file, draft, clean):
                draft.replace(file)
        except OSError:
            file.unlink(missing_ok=True)
        finally:
            draft.unlink(missing_ok=True)


def _cleaned(file: Path, draft: Path, clean: Callable[[str], str]) -> bool:
    """Write `file` without secrets to `draft`, and tell whether they differ; its bytes need not be text."""
    changed = False
    with file.open("rb") as dirty, open(draft, "wb", opener=_for_us_alone) as fresh:
        while part := dirty.read(_CLEANED_BYTES) + dirty.readline(_CLEANED_BYTES):
            text = part.decode(errors="surrogateescape")
            cleaned = clean(text)
            changed = changed or cleaned is not text
            fresh.write(part if cleaned is text else cleaned.encode(errors="surrogateescape"))
    return changed


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, 0o600)


def _retire(outputs: Path, new: Collection[Path]) -> None:
    """Remove the oldest files beyond those that are kept; the `new` ones stay."""
    number, room = 0, KEPT_TOTAL_BYTES
    for file, size in sorted(_by_age(outputs), key=lambda each: each[0] not in new):
        number, room = number + 1, room - size
        if file not in new and (number > KEPT_FILES or room < 0):
            with contextlib.suppress(OSError):  # what cannot be removed is no reason to lose what was said
                file.unlink()


def _by_age(outputs: Path) -> Sequence[tuple[Path, int]]:
    """Return the files that are kept and how long they are, the latest first."""
    found = []
    for file in outputs.glob("output-*.txt"):
        with contextlib.suppress(FileNotFoundError):  # another command's end removed it
            status = file.lstat()
            found.append((status.st_mtime_ns, file, status.st_size))
    return [(file, size) for _, file, size in sorted(found, reverse=True)]
