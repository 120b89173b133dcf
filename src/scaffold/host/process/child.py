"""Child processes that notice by the end of their standard input that this process exits, and detached processes."""

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import subprocess  # noqa: TID251 - `host` starts processes
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from scaffold.core.errors import ScaffoldError
from scaffold.core.model import ProcessIdentity
from scaffold.host.process.command_runner import ProcessHandle, signal_group, wait_for_exit
from scaffold.host.process_identity import identify, is_alive

KILL_TIMEOUT_S = 10.0
LOG = logging.getLogger(__name__)


class ChildProcess:
    """A process in its own session. Its stdin is a pipe that closes when this process exits; see `watch_lifeline`.

    Keep a reference: garbage collection of this object closes the pipe, which tells the process to exit.
    """

    def __init__(self, process: ProcessHandle, lifeline: BinaryIO) -> None:
        self._process = process
        self._lifeline = lifeline
        self.identity = identify(process.pid) or ProcessIdentity(process.pid, "", "")
        """If the child exited before this could be read: its pid, and empty fields that match no running process."""

    async def wait(self) -> int:
        """Wait until it exits; return the exit code, or the negated signal number."""
        code = await self._process.wait()
        self._lifeline.close()
        return code

    def terminate(self) -> None:
        """Send SIGTERM to its process group; does nothing if it has exited."""
        self._signal_group(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to its process group; does nothing if it has exited."""
        self._signal_group(signal.SIGKILL)

    async def end(self, grace_s: float) -> int:
        """Send SIGTERM, kill what is left of its group after at most `grace_s`; return the exit code as `wait` does."""
        self.terminate()
        try:
            await wait_for_exit(self._process, grace_s)
        finally:
            # Even if the leader exited in time: other processes of its group may still run.
            signal_group(self._process.pid, signal.SIGKILL)
        return await self.wait()

    def _signal_group(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            signal_group(self._process.pid, number)


async def start_child(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, inherited_fds: Collection[int] = ()
) -> ChildProcess:
    """Start `argv` with stdout and stderr appended to `log`, whose folders are created. Raises OSError.

    The child also inherits the descriptors `inherited_fds`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    read_fd, write_fd = os.pipe()
    with contextlib.ExitStack() as on_failure, os.fdopen(read_fd, "rb") as child_stdin:
        lifeline = on_failure.enter_context(os.fdopen(write_fd, "wb", buffering=0))
        output = on_failure.enter_context(log.open("ab"))
        process = await asyncio.create_subprocess_exec(  # noqa: TID251 - `host` starts processes
            *argv,
            cwd=cwd,
            env=env,
            stdin=child_stdin,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=inherited_fds,
        )
        on_failure.pop_all()  # started: the lifeline stays open
        output.close()
    LOG.debug("started process %d: %s", process.pid, shlex.join(argv))
    return ChildProcess(process, lifeline)


async def kill_orphan(identity: ProcessIdentity, *, timeout_s: float = KILL_TIMEOUT_S) -> None:
    """Kill a process, with its group if it leads one, and wait until it has exited; its parent must be dead.

    Does nothing if it has exited already. Raises ScaffoldError if it still runs after `timeout_s` seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while is_alive(identity):
        if loop.time() >= deadline:
            raise ScaffoldError(
                f"process {identity.pid} is still running {timeout_s:g} s after SIGKILL",
                f"find out what blocks it (`ps -o pid,user,stat,wchan {identity.pid}`), end it, then retry",
            )
        signal_group(identity.pid, signal.SIGKILL)
        # A process that leads no group is not reached by the signal above.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(identity.pid, signal.SIGKILL)
        await asyncio.sleep(0.01)


def start_detached(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path) -> ProcessIdentity:
    """Start `argv` in its own session, append its output to `log`, and return its identity. Raises OSError.

    It has no terminal and no input; it gets no signals of this process and survives it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
        )
    LOG.debug("started process %d: %s", process.pid, shlex.join(argv))
    identity = identify(process.pid) or ProcessIdentity(process.pid, "", "")
    # Without a wait the process would stay a zombie for as long as we run.
    threading.Thread(target=process.wait, name="wait-for-detached", daemon=True).start()
    return identity
