"""Commands that end: run one, keep its output in bounds, leave no process behind."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct, structs

from scaffold.host.leash import Leash
from scaffold.host.output import Excerpt, Sink, Stream
from scaffold.host.sandbox.confinement import FREE, Enclosure
from scaffold.host.sandbox.entry import Entry, entrance

TERM_GRACE_S = 1.0
KEEPER_GRACE_S = 60.0
DRAIN_S = 1.0
MOST_PROCESSES = FREE.processes


class Finished(Struct, frozen=True, kw_only=True):
    """How a command ended and what it said."""

    exit_code: int | None
    """None when a signal, the deadline or its crowd ended it; 127: no such program, 126: one that cannot be run."""
    signal: int | None
    """The signal that ended it, whoever sent it."""
    timed_out: bool
    stdout: bytes
    """The whole, or head and tail of together `limit_bytes`, and a line between that says how much is left out."""
    stderr: bytes
    """Bounded like stdout."""
    stdout_sha256: str
    """Of all of stdout, in hex."""
    truncated: bool
    """Whether something of stdout or stderr was left out."""
    duration_s: float
    crowded: bool = False
    """Whether we ended it because it had too many processes."""
    stdout_bytes: int = 0
    """How long all of stdout was."""
    stderr_bytes: int = 0


class Offspring(Protocol):
    """A process of ours, as asyncio tells of those that it started."""

    @property
    def pid(self) -> int:
        """Return its number; nobody else has it as long as `returncode` is None."""
        ...

    @property
    def returncode(self) -> int | None:
        """Return how it ended, None as long as that is not known."""
        ...

    async def wait(self) -> int:
        """Return how it ended, as soon as that is known."""
        ...


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    limit_bytes: int = 1_000_000,
    keep: Path | None = None,
    sinks: tuple[Sink, Sink] | None = None,
    leash: bool = False,
    most_processes: int = MOST_PROCESSES,
    enclosure: Enclosure | None = None,
) -> Finished:
    """Run `argv` in a session of its own and return how it ended, after `timeout_s` by our hand.

    `keep` is overwritten with all output, stdout and stderr in the order they come; or `sinks` take all of stdout and
    all of stderr. With `leash` all that the command started, daemons included, ends when it does, and when we do, even
    by SIGKILL, and as soon as there are more than `most_processes` at once (on Linux). Without, its process group is
    ended, and only on timeout or cancellation. Output that somebody else still holds open is read for a second more.
    With `enclosure`, for which a leash is needed, the command is held to it; its own limits count then, and a sandbox
    that cannot be set up is a command that cannot be run. TMPDIR and the places of caches lead to where it may write.
    What the command does raises nothing; OSError if `keep` cannot be written.
    """
    if enclosure and not leash:
        raise ValueError("a sandbox needs a leash: nobody else ends what is in it")
    limits = enclosure.confinement.limits if enclosure else structs.replace(FREE, processes=most_processes)
    loop = asyncio.get_running_loop()
    started = loop.time()
    with contextlib.ExitStack() as held:
        sink = held.enter_context(_overwritten(keep)) if keep else None
        out, err = sinks or (sink, sink)
        stdout = held.enter_context(contextlib.closing(Stream(limit_bytes, out)))
        stderr = held.enter_context(contextlib.closing(Stream(limit_bytes, err)))
        stdio = _Stdio(_source(stdin, held), stdout.entrance, stderr.entrance)
        tether = None
        try:
            entry = _entered(enclosure, argv, cwd, env, held)
            tether = held.enter_context(contextlib.closing(Leash(entry.argv, limits, entry.held))) if leash else None
            code, timed_out = await _run_to_end(entry, cwd, timeout_s, stdio, tether)
        except _Unstartable as problem:
            code, timed_out = problem.code, False
            stdio.hand_over()
            stderr.take(problem.reason)
        await _drain(stdout, stderr)
        crowded = tether is not None and tether.crowded
        told = _told(stdout.excerpt, stderr.excerpt, code, unfinished=timed_out or crowded)
        return structs.replace(told, timed_out=timed_out, crowded=crowded, duration_s=loop.time() - started)


def signal_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to the process group that `leader` leads; nothing happens if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _told(stdout: Excerpt, stderr: Excerpt, code: int, *, unfinished: bool) -> Finished:
    """Return what is known by the exit code, or the signal negated, and by what was said."""
    return Finished(
        exit_code=None if unfinished or code < 0 else code,
        signal=-code if code < 0 else None,
        timed_out=False,
        stdout=stdout.content(),
        stderr=stderr.content(),
        stdout_sha256=stdout.sha256,
        truncated=stdout.left_out + stderr.left_out > 0,
        duration_s=0,
        stdout_bytes=stdout.total,
        stderr_bytes=stderr.total,
    )


class _Stdio(Struct):
    source: int
    stdout: BinaryIO
    stderr: BinaryIO

    def hand_over(self) -> None:
        """Close our copies of the ends the command writes to, so that the streams end when it does."""
        self.stdout.close()
        self.stderr.close()


class _Unstartable(Exception):
    """The system would not start the command; told to the caller as a shell would."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.code = 127 if isinstance(error, FileNotFoundError) else 126
        self.reason = f"{error.strerror}: {error.filename}\n".encode(errors="surrogateescape")


def _entered(
    enclosure: Enclosure | None, argv: Sequence[str], cwd: Path, env: Mapping[str, str], held: contextlib.ExitStack
) -> Entry:
    if enclosure is None:
        return Entry(argv=tuple(argv), env=env)
    try:
        return held.enter_context(entrance(enclosure, argv, cwd, env))
    except OSError as error:
        raise _Unstartable(error) from error


async def _run_to_end(
    entry: Entry, cwd: Path, timeout_s: float, stdio: _Stdio, leash: Leash | None
) -> tuple[int, bool]:
    """Return the exit code, or the signal negated, and whether the time ran out."""
    try:
        process = await asyncio.create_subprocess_exec(  # noqa: TID251 - `host` starts processes
            *(leash.argv if leash else entry.argv),
            cwd=cwd,
            env=entry.env,
            stdin=stdio.source,
            stdout=stdio.stdout,
            stderr=stdio.stderr,
            start_new_session=True,
            pass_fds=(*leash.passed, *[end.fileno() for end in entry.passed]) if leash else (),
        )
    except OSError as error:
        raise _Unstartable(error) from error
    finally:
        stdio.hand_over()
        entry.hand_over()
        if leash:
            leash.hand_over()
    try:
        if leash:
            leash.begin()
        timed_out = not await ends_within(process, timeout_s)
    finally:
        if process.returncode is None:
            await _end(process, leash)
    try:
        code = leash.code() if leash else await process.wait()
        return (code if timed_out or (leash and leash.crowded) else entry.code(code)), timed_out
    except OSError as error:
        raise _Unstartable(error) from error


async def ends_within(process: Offspring, seconds: float) -> bool:
    """Wait for the end of `process`; return whether it came within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return False
    return True


async def _end(process: asyncio.subprocess.Process, leash: Leash | None) -> None:
    """End the command and reap it: ask first (git removes its lock files then), insist later."""
    try:
        if leash:
            leash.cut()
            await _keeper_ends(process)
        else:
            signal_group(process.pid, signal.SIGTERM)
            await ends_within(process, TERM_GRACE_S)
    finally:
        signal_group(process.pid, signal.SIGKILL)
    await process.wait()


async def _keeper_ends(keeper: asyncio.subprocess.Process) -> None:
    """Wait for the end of a keeper, also when cancelled meanwhile: nobody else finds all that it has to end."""
    try:
        await ends_within(keeper, KEEPER_GRACE_S)
    except asyncio.CancelledError:
        await _keeper_ends(keeper)
        raise


async def _drain(*streams: Stream) -> None:
    """Read what is still in the pipes; others may hold them open for ever, so not for long."""
    await asyncio.wait([stream.closed for stream in streams], timeout=DRAIN_S)
    for stream in streams:
        if stream.error:
            raise stream.error


def _overwritten(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb", buffering=0)


def _source(stdin: bytes, held: contextlib.ExitStack) -> int:
    """Return a descriptor to read `stdin` from; a file, so that a command that does not read cannot block us."""
    if not stdin:
        return asyncio.subprocess.DEVNULL
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `held`
    held.callback(file.close)
    file.write(stdin)
    file.seek(0)
    return file.fileno()
