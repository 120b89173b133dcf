"""Run a command and save output too long for a model in files, as it arrives; remove expired files."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from msgspec import Struct

from scaffold.host.atomic_files import delete_folder_if_possible
from scaffold.host.folder_tree import walk
from scaffold.host.process.command_runner import MAX_PROCESSES, CommandResult, Containment, OutputCapture, run_command
from scaffold.host.random_ids import new_id
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.tools.workspace import MAX_ANSWER_CHARS, ignore_output

MAX_AGE = timedelta(days=7)
"""How long the saved output of a conversation is kept after its last change."""
MAX_KEPT_BYTES = 8 << 30
"""The most bytes of all conversations together; the oldest are removed first."""


class _ConversationOutput(Struct, frozen=True):
    folder: Path
    size: int
    changed: datetime


MAX_STREAM_BYTES = 1 << 30
"""The most bytes saved of each of stdout and stderr; the rest is discarded."""
MAX_FILES = 20
MAX_TOTAL_BYTES = 2 << 30
"""The most bytes of all files together; the newest answer's files stay even if they are larger."""
MIN_FREE_BYTES = 1 << 30
"""Saving stops when the disk has less than this free."""
_FIND = "(search_files finds lines in it)"
_SHOWN_APART = {"stdout": MAX_ANSWER_CHARS * 2 // 3, "stderr": MAX_ANSWER_CHARS // 3}
_SHOWN_TOGETHER = {"output": MAX_ANSWER_CHARS}
"""The characters shown of each stream."""
_BUFFER_BYTES = 2 * MAX_ANSWER_CHARS
_CLEAN_CHUNK_BYTES = 1 << 20
_DISK_CHECK_BYTES = 1 << 23


class CommandSpec(Struct, frozen=True, kw_only=True):
    """A command to run with a timeout; output too long to show goes to the folder `outputs` (None: discarded)."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    timeout_s: float
    outputs: Path | None = None
    stdin: bytes = b""
    sandbox: SandboxSpec | None = None
    """The sandbox; None: no sandbox."""
    clean: Callable[[str], str] = str
    """Removes secrets from saved output."""
    on_output: Callable[[], object] = ignore_output
    """Called whenever the command prints something."""
    together: bool = False
    """Whether stdout and stderr are one stream, in the order in which they were written."""

    @property
    def shown_chars(self) -> Mapping[str, int]:
        """The characters shown of each stream, by its name."""
        return _SHOWN_TOGETHER if self.together else _SHOWN_APART


class CommandReport(Struct, frozen=True):
    """How a command ended, its output as shown to a model, and a line for each stream that was cut."""

    finished: CommandResult
    stdout: str
    """With stderr in it if they are one stream."""
    stderr: str
    kept: tuple[str, ...] = ()
    """For each cut stream: where the whole of it was saved, or why it was not."""


class Spool:
    """A stream saved in a new file of `folder` once it exceeds `shown_bytes`, up to `limit_bytes`.

    Saving stops when the disk has less than `free_bytes` free. Nothing is raised: `problem` says why saving stopped,
    and `file` is None if nothing was saved.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        shown_bytes: int,
        *,
        limit_bytes: int = MAX_STREAM_BYTES,
        free_bytes: int = MIN_FREE_BYTES,
    ) -> None:
        self._path = folder / f"output-{name}.txt"
        self._short: bytearray | None = bytearray()
        self._shown_bytes = shown_bytes
        self._limit_bytes = limit_bytes
        self._free_bytes = free_bytes
        self._writing: BinaryIO | None = None
        self._looked_at = -_DISK_CHECK_BYTES
        self.kept = 0
        """Bytes in the file."""
        self.problem = ""

    @property
    def file(self) -> Path | None:
        """Return the file; None if nothing was saved."""
        return self._path if self._writing else None

    def write(self, data: bytes, /) -> None:
        """Take the next bytes."""
        if self._short is not None:
            self._short += data
            if len(self._short) <= self._shown_bytes:
                return
            # The file then contains the stream from its first byte.
            data, self._short = bytes(self._short), None
        if not self.problem:
            try:
                self._write_chunk(data)
            except OSError as error:
                self.problem = error.strerror or str(error)

    def close(self) -> None:
        """Close the file; safe to repeat."""
        if self._writing:
            self._writing.close()

    def remove(self) -> None:
        """Close and delete the file."""
        self.close()
        if self._writing:
            self._path.unlink(missing_ok=True)

    def _write_chunk(self, data: bytes) -> None:
        if self.kept - self._looked_at >= _DISK_CHECK_BYTES:
            self._looked_at = self.kept
            self._path.parent.mkdir(parents=True, exist_ok=True)
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < self._free_bytes:
                self.problem = f"the disk has less than {self._free_bytes} bytes free"
                return
        if self._writing is None:
            # O_EXCL and O_NOFOLLOW: nothing that another user put at this path is written to.
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self._writing = os.fdopen(fd, "wb", buffering=0)
        rest = memoryview(data)[: self._limit_bytes - self.kept]
        if len(rest) < len(data):
            self.problem = f"at most {self._limit_bytes} bytes of a stream are saved"
        while rest:
            written = self._writing.write(rest)
            self.kept += written
            rest = rest[written:]


class _OutputTap:
    """Calls `on_output` for each piece of output and passes it to the spool, if there is one."""

    def __init__(self, on_output: Callable[[], object], spool: Spool | None) -> None:
        self._on_output = on_output
        self._spool = spool

    def write(self, data: bytes, /) -> None:
        """Take the next bytes."""
        if data:
            self._on_output()
        if self._spool is not None:
            self._spool.write(data)


async def run_spooled(command: CommandSpec) -> CommandReport:
    """Run a contained command and save output too long to show; nothing is saved on cancellation."""
    shown = command.shown_chars
    with _open_spools(command.outputs, shown) as spools:
        finished = await run_command(
            command.argv,
            cwd=command.cwd,
            env=command.env,
            timeout_s=command.timeout_s,
            stdin=command.stdin,
            output=OutputCapture(
                limit_bytes=_BUFFER_BYTES,
                sinks=(
                    _OutputTap(command.on_output, spools.get("output" if command.together else "stdout")),
                    _OutputTap(command.on_output, spools.get("stderr")),
                ),
                one_stream=command.together,
            ),
            containment=Containment(sandbox=command.sandbox),
        )
        files = {spool.file for spool in spools.values() if spool.file}
        if command.outputs and files:
            # Before anyone learns the files' names.
            await asyncio.to_thread(_clean_all, files, command.clean)
            await asyncio.to_thread(_remove_old, command.outputs, files)
        return CommandReport(
            finished,
            head_and_tail(finished.stdout, finished.stdout_bytes, next(iter(shown.values()))).rstrip("\n"),
            head_and_tail(finished.stderr, finished.stderr_bytes, _SHOWN_APART["stderr"]).rstrip("\n"),
            tuple(_saved_lines(finished, spools, shown)),
        )


def describe_exit(finished: CommandResult, if_late: str = "") -> str:
    """Return a line with the command's end and duration; `if_late` is the advice shown after a timeout."""
    if finished.too_many_processes:
        how = f"stopped: it started more than {MAX_PROCESSES} processes"
    elif finished.timed_out:
        how = "stopped at its time limit" + (f" ({if_late})" if if_late else "")
    elif finished.signal == signal.SIGXFSZ:
        how = "stopped: it exceeded the file size limit"
    elif finished.signal is not None:
        how = f"killed by signal {finished.signal}"
    else:
        how = f"exit code {finished.exit_code}"
    return f"{how} after {finished.duration_s:.1f} s"


def head_and_tail(data: bytes, total: int, limit: int) -> str:
    """Return a text of `total` bytes; if longer than `limit`, its head and tail with a note between them.

    `data` is the whole text, or agrees with it for at least `limit` bytes at both ends.
    """
    if total <= limit:
        return data.decode(errors="replace")
    head, tail = data[: limit * 2 // 3], data[-(limit // 3) :]
    missing = total - len(head) - len(tail)
    return f"{head.decode(errors='replace')}\n... {missing} bytes omitted ...\n{tail.decode(errors='replace')}"


@contextlib.contextmanager
def _open_spools(outputs: Path | None, shown: Mapping[str, int]) -> Iterator[Mapping[str, Spool]]:
    # If the block raises, no answer names the files, so they go.
    name = new_id()
    spools = {each: Spool(outputs, f"{name}-{each}", shown[each]) for each in shown} if outputs else {}
    with contextlib.ExitStack() as undo:
        for spool in spools.values():
            undo.callback(spool.remove)
        yield spools
        undo.pop_all()
        for spool in spools.values():
            spool.close()


def _saved_lines(finished: CommandResult, spools: Mapping[str, Spool], shown: Mapping[str, int]) -> Iterator[str]:
    lengths = {"output": finished.stdout_bytes, "stdout": finished.stdout_bytes, "stderr": finished.stderr_bytes}
    for name, spool in spools.items():
        if lengths[name] <= shown[name]:
            continue
        if not spool.kept:
            yield f"--- {name} was not saved: {spool.problem}"
        elif spool.kept < lengths[name]:
            part = f"the first {spool.kept} of {lengths[name]} bytes of {name} {_FIND}"
            yield f"--- {part} are in {spool.file} ({spool.problem})"
        else:
            yield f"--- all {lengths[name]} bytes of {name} {_FIND} are in {spool.file}"


def _clean_all(files: Iterable[Path], clean: Callable[[str], str]) -> None:
    # A file that cannot be cleaned may hold a secret, so it goes.
    for file in files:
        draft = file.with_suffix(".draft")
        try:
            if _write_redacted(file, draft, clean):
                draft.replace(file)
        except OSError:
            file.unlink(missing_ok=True)
        finally:
            draft.unlink(missing_ok=True)


def _write_redacted(file: Path, draft: Path, clean: Callable[[str], str]) -> bool:
    changed = False
    with file.open("rb") as dirty, open(draft, "wb", opener=_open_private) as fresh:
        # Each part ends with a line, so that a secret is not cut in two; a line without end is bounded.
        while part := dirty.read(_CLEAN_CHUNK_BYTES) + dirty.readline(_CLEAN_CHUNK_BYTES):
            text = part.decode(errors="surrogateescape")
            cleaned = clean(text)
            changed = changed or cleaned is not text
            fresh.write(part if cleaned is text else cleaned.encode(errors="surrogateescape"))
    return changed


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, 0o600)


def _remove_old(outputs: Path, new: Collection[Path]) -> None:
    found = []
    for file in outputs.glob("output-*.txt"):
        with contextlib.suppress(FileNotFoundError):  # another command removed it at its end
            status = file.lstat()
            found.append((status.st_mtime_ns, file, status.st_size))
    number, room = 0, MAX_TOTAL_BYTES
    # The new files come first and use up the room first.
    for _, file, size in sorted(sorted(found, reverse=True), key=lambda each: each[1] not in new):
        number, room = number + 1, room - size
        if file not in new and (number > MAX_FILES or room < 0):
            with contextlib.suppress(OSError):  # a failed removal must not lose the command's answer
                file.unlink()


def remove_expired(outputs: Path, *, conversation: str, now: datetime) -> None:
    """Remove expired folders of conversations from `outputs`, but never of `conversation` and its subagents.

    `outputs` may be missing; folders that cannot be removed stay.
    """
    own = PurePosixPath(conversation).parts[0]
    room = MAX_KEPT_BYTES
    for kept in sorted(_saved_conversations(outputs), key=lambda each: each.changed, reverse=True):
        room -= kept.size
        if kept.folder.name != own and (room < 0 or now - kept.changed > MAX_AGE):
            delete_folder_if_possible(kept.folder)


def _saved_conversations(outputs: Path) -> Iterator[_ConversationOutput]:
    # Another process may remove a folder meanwhile; it goes on from there.
    with contextlib.suppress(OSError):
        for folder in list(outputs.iterdir()):
            inside = (Path(parent, name) for parent, folders, files in walk(folder) for name in (*folders, *files))
            status = [path.lstat() for path in (folder, *inside)]
            changed = datetime.fromtimestamp(max(each.st_mtime for each in status), UTC)
            yield _ConversationOutput(folder, sum(each.st_size for each in status), changed)
