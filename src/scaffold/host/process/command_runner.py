"""Run a command with a timeout and bounded output, leaving no process behind."""

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct, structs

from scaffold.host.process.forked_reapers import ForkedReaper, reaper_server
from scaffold.host.process.pipes import HeadTailBuffer, OutputPipe, OutputSink, ReaperPipe
from scaffold.host.sandbox.confinement import UNCONFINED_LIMITS, ResourceLimits, SandboxSpec
from scaffold.host.sandbox.launch import LaunchSpec, prepare_launch

TERM_GRACE_S = 1.0
REAPER_GRACE_S = 60.0
DRAIN_S = 1.0
MAX_PROCESSES = UNCONFINED_LIMITS.processes
LOG = logging.getLogger(__name__)


class CommandResult(Struct, frozen=True, kw_only=True):
    """How a command ended, and its output."""

    exit_code: int | None
    """None after a signal, the timeout or too many processes; 127: program not found, 126: not executable."""
    signal: int | None
    """The signal that ended it, from any sender; None if it exited."""
    timed_out: bool
    stdout: bytes
    """All of it, or head and tail, `limit_bytes` in total, with a line between them that counts the omitted bytes."""
    stderr: bytes
    """Bounded like stdout."""
    stdout_sha256: str
    """Hex digest of the complete stdout."""
    truncated: bool
    """True if part of stdout or stderr was omitted."""
    duration_s: float
    too_many_processes: bool = False
    """True if we ended it because it had too many processes."""
    stdout_bytes: int = 0
    """Length of the complete stdout."""
    stderr_bytes: int = 0


class OutputCapture(Struct, frozen=True, kw_only=True):
    """What is kept of a command's output."""

    limit_bytes: int = 1_000_000
    """The most of stdout and of stderr that the result contains."""
    keep: Path | None = None
    """A file that is overwritten with stdout and stderr in order of arrival."""
    sinks: tuple[OutputSink, OutputSink] | None = None
    """Receive all of stdout and stderr; not together with `keep`."""
    one_stream: bool = False
    """Read both through one pipe, so that they stay in order; all of it is then stdout."""


class CommandControl:
    """Lets another task ask a contained command to end by itself, while `run_command` waits for it."""

    def __init__(self) -> None:
        self._reaper: ReaperPipe | None = None

    def attach(self, reaper: ReaperPipe) -> None:
        """Control the command of this reaper."""
        self._reaper = reaper

    def terminate(self) -> bool:
        """Send SIGTERM to the command's process group; return False if it has not started yet."""
        if self._reaper is None:
            return False
        self._reaper.terminate()
        return True


class Containment(Struct, frozen=True, kw_only=True):
    """A reaper around a command: everything that the command started, daemons included, ends with it.

    It also ends when we end (even by SIGKILL) and, on Linux, when it has more than `max_processes` descendants.
    """

    max_processes: int = MAX_PROCESSES
    """Only without a sandbox, which has its own limits."""
    sandbox: SandboxSpec | None = None
    """Run the command in this sandbox, with TMPDIR and cache variables that point to writable folders."""
    control: CommandControl | None = None


class ProcessHandle(Protocol):
    """A child process with the interface of asyncio's processes."""

    @property
    def pid(self) -> int:
        """Return its pid, which is not reused while `returncode` is None."""

    @property
    def returncode(self) -> int | None:
        """Return the exit code or negated signal; None while unknown."""

    async def wait(self) -> int:
        """Wait for and return the `returncode`."""


_DEFAULT_OUTPUT = OutputCapture()


async def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float | None,
    stdin: bytes | int = b"",
    output: OutputCapture = _DEFAULT_OUTPUT,
    containment: Containment | None = None,
) -> CommandResult:
    """Run `argv` in its own session and return how it ended; it is ended after `timeout_s`, if that is not None.

    Without `containment` only its process group is ended, and only on timeout or cancellation. Output that another
    process still holds open is read for DRAIN_S more. If the sandbox cannot be set up, the exit code is 126. A
    descriptor as `stdin` is closed by the caller. OSError if `output.keep` cannot be written; its failures never raise.
    """
    sandbox = containment.sandbox if containment else None
    started = asyncio.get_running_loop().time()
    if containment and LOG.isEnabledFor(logging.DEBUG):
        LOG.debug("running %s in %s", shlex.join(argv), cwd)
    with contextlib.ExitStack() as stack:
        out, err = output.sinks or _kept_output(output.keep, stack)
        stdout = stack.enter_context(contextlib.closing(OutputPipe(output.limit_bytes, out)))
        stderr = stdout
        if not output.one_stream:
            stderr = stack.enter_context(contextlib.closing(OutputPipe(output.limit_bytes, err)))
        stdio = _Stdio(_stdin_descriptor(stdin, stack), stdout.entrance, stderr.entrance)
        reaper: ReaperPipe | None = None
        try:
            launch = _prepared_launch(sandbox, argv, cwd, env, stack)
            if containment:
                limits, wrapped = _resource_limits(containment), launch.status is not None
                reaper = ReaperPipe(launch.argv, limits, launch.held, wrapped=wrapped)
                stack.callback(reaper.close)
                if containment.control:
                    containment.control.attach(reaper)
            code, timed_out = await _run_to_end(launch, cwd, timeout_s, stdio, reaper)
        except _StartFailed as problem:
            code, timed_out = problem.code, False
            stdio.hand_over()
            stderr.take(problem.reason)
        await _drain_pipes(stdout, stderr)
        too_many_processes = reaper is not None and reaper.too_many_processes
        errors = HeadTailBuffer(0) if output.one_stream else stderr.excerpt
        result = _command_result(stdout.excerpt, errors, code, unfinished=timed_out or too_many_processes)
        took_s = asyncio.get_running_loop().time() - started
        if LOG.isEnabledFor(logging.DEBUG):
            end = "timed out" if timed_out else f"signal {-code}" if code < 0 else f"exit {code}"
            LOG.debug("%s: %s after %.3f s", shlex.join(argv), end, took_s)
        return structs.replace(result, timed_out=timed_out, too_many_processes=too_many_processes, duration_s=took_s)


def _kept_output(path: Path | None, stack: contextlib.ExitStack) -> tuple[OutputSink | None, OutputSink | None]:
    if path is None:
        return None, None
    path.parent.mkdir(parents=True, exist_ok=True)
    sink = stack.enter_context(path.open("wb", buffering=0))
    return sink, sink  # one file, so that both streams are in order of arrival


def signal_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to the process group that `leader` leads; does nothing if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _command_result(stdout: HeadTailBuffer, stderr: HeadTailBuffer, code: int, *, unfinished: bool) -> CommandResult:
    """Return the result for an exit code (or negated signal) and the captured output."""
    return CommandResult(
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
        """Close our copies of the command's write ends, so that the streams end when it does."""
        self.stdout.close()
        self.stderr.close()


class _StartFailed(Exception):
    """The system did not start the command; reported like a shell does: exit code and a line on stderr."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error)
        self.code = 127 if isinstance(error, FileNotFoundError) else 126
        self.reason = f"{error.strerror}: {error.filename}\n".encode(errors="surrogateescape")


def _resource_limits(containment: Containment) -> ResourceLimits:
    if containment.sandbox:
        return containment.sandbox.confinement.limits
    return structs.replace(UNCONFINED_LIMITS, processes=containment.max_processes)


def _prepared_launch(
    sandbox: SandboxSpec | None, argv: Sequence[str], cwd: Path, env: Mapping[str, str], stack: contextlib.ExitStack
) -> LaunchSpec:
    if sandbox is None:
        return LaunchSpec(argv=tuple(argv), env=env)
    try:
        return stack.enter_context(prepare_launch(sandbox, argv, cwd, env))
    except OSError as error:
        raise _StartFailed(error) from error


async def _run_to_end(
    launch: LaunchSpec, cwd: Path, timeout_s: float | None, stdio: _Stdio, reaper: ReaperPipe | None
) -> tuple[int, bool]:
    """Return the exit code, or the negated signal, and whether it timed out."""
    try:
        process = await _start_process(launch, cwd, stdio, reaper)
    except OSError as error:
        raise _StartFailed(error) from error
    finally:
        stdio.hand_over()
        launch.hand_over()
        if reaper:
            reaper.hand_over()
    try:
        if reaper and not isinstance(process, ForkedReaper):
            reaper.begin()
        timed_out = not await wait_for_exit(process, timeout_s)
    finally:
        if process.returncode is None:
            await _end_process(process, reaper)
    try:
        code = reaper.code() if reaper else await process.wait()
        # A bubblewrap that was killed has reported no exit code, which `launch.code` would take for a failed set-up.
        return (code if timed_out or (reaper and reaper.too_many_processes) else launch.code(code)), timed_out
    except OSError as error:
        raise _StartFailed(error) from error


async def _start_process(launch: LaunchSpec, cwd: Path, stdio: _Stdio, reaper: ReaperPipe | None) -> ProcessHandle:
    passed = [end.fileno() for end in launch.passed]
    if reaper:
        streams = (stdio.source, stdio.stdout.fileno(), stdio.stderr.fileno())
        if forked := reaper_server().fork(reaper, streams, passed, cwd=cwd, env=launch.env):
            return forked
    return await asyncio.create_subprocess_exec(  # noqa: TID251 - `host` starts processes
        *(reaper.argv if reaper else launch.argv),
        cwd=cwd,
        env=launch.env,
        stdin=stdio.source,
        stdout=stdio.stdout,
        stderr=stdio.stderr,
        start_new_session=True,
        pass_fds=(*reaper.passed, *passed) if reaper else (),
    )


async def wait_for_exit(process: ProcessHandle, seconds: float | None) -> bool:
    """Wait for the end of `process`; return True if it came within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return False
    return True


async def _end_process(process: ProcessHandle, reaper: ReaperPipe | None) -> None:
    # SIGTERM first, so that git removes its lock files.
    try:
        if reaper:
            reaper.cut()
            await _wait_for_reaper(process)
        else:
            signal_group(process.pid, signal.SIGTERM)
            await wait_for_exit(process, TERM_GRACE_S)
    finally:
        if isinstance(process, ForkedReaper):
            process.kill()
        else:
            signal_group(process.pid, signal.SIGKILL)
    await process.wait()


async def _wait_for_reaper(reaper: ProcessHandle) -> None:
    # Even if cancelled: only the reaper finds all the processes it has to end.
    try:
        await wait_for_exit(reaper, REAPER_GRACE_S)
    except asyncio.CancelledError:
        await _wait_for_reaper(reaper)
        raise


async def _drain_pipes(*streams: OutputPipe) -> None:
    # Not for longer: another process may hold them open forever.
    await asyncio.wait([stream.closed for stream in streams], timeout=DRAIN_S)
    for stream in streams:
        if stream.error:
            raise stream.error


def _stdin_descriptor(stdin: bytes | int, stack: contextlib.ExitStack) -> int:
    # A file, so that a command that does not read cannot block us.
    if isinstance(stdin, int):
        return stdin
    if not stdin:
        return stack.enter_context(Path(os.devnull).open("rb", buffering=0)).fileno()
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stack`
    stack.callback(file.close)
    file.write(stdin)
    file.seek(0)
    return file.fileno()
