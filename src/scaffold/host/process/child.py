"""Child processes that never outlive us, and detached processes that do."""

import asyncio
import contextlib
import os
import signal
import subprocess  # noqa: TID251 - `host` starts processes
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from scaffold.core.errors import ScaffoldError
from scaffold.core.model import ProcessIdentity
from scaffold.host.identity import identify, is_alive
from scaffold.host.process.command import ProcessHandle, signal_group, wait_for_exit

KILL_TIMEOUT_S = 10.0


class ChildProcess:
    """A process in its own session, whose stdin is a pipe that closes when we exit; see `lifeline`.

    Keep a reference: garbage collection of this object closes the pipe, which ends the process.
    """

    def __init__(self, process: ProcessHandle, lifeline: BinaryIO) -> None:
        self._process = process
        self._lifeline = lifeline
        self.identity = identify(process.pid) or ProcessIdentity(process.pid, "", "")
        """If the child exited before we could look: its pid and empty fields that match no running process."""

    async def wait(self) -> int:
        """Wait for its end; return the exit code, or the negated signal number."""
        code = await self._process.wait()
        self._lifeline.close()
        return code

    def terminate(self) -> None:
        """Send SIGTERM to its process group; does nothing if it has exited."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to its process group; does nothing if it has exited."""
        self._signal(signal.SIGKILL)

    async def end(self, grace_s: float) -> int:
        """Send SIGTERM, kill the rest of its group after at most `grace_s`, and return like `wait`."""
        self.terminate()
        try:
            await wait_for_exit(self._process, grace_s)
        finally:
            signal_group(self._process.pid, signal.SIGKILL)
        return await self.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            signal_group(self._process.pid, number)


async def start_child(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, passed: Collection[int] = ()
) -> ChildProcess:
    """Start `argv` with stdout and stderr appended to `log`, creating its folders; OSError on failure.

    The child inherits the descriptors `passed`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    source, hold = os.pipe()
    with contextlib.ExitStack() as undo, os.fdopen(source, "rb") as cut, log.open("ab") as sink:
        lifeline = undo.enter_context(os.fdopen(hold, "wb", buffering=0))
        process = await asyncio.create_subprocess_exec(  # noqa: TID251 - `host` starts processes
            *argv, cwd=cwd, env=env, stdin=cut, stdout=sink, stderr=sink, start_new_session=True, pass_fds=passed
        )
        undo.pop_all()
    return ChildProcess(process, lifeline)


async def kill_orphan(identity: ProcessIdentity, *, timeout_s: float = KILL_TIMEOUT_S) -> None:
    """Kill a child whose parent is dead, with its group if it leads one, and wait until it is gone.

    Does nothing if it is gone already; ScaffoldError if it is still running after `timeout_s` seconds.
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
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(identity.pid, signal.SIGKILL)
        await asyncio.sleep(0.01)


def start_detached(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path) -> ProcessIdentity:
    """Start `argv` in its own session, append its output to `log`, and return its identity; OSError on failure.

    It has no terminal and no input, and our signals and our end do not reach it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
        )
    identity = identify(process.pid) or ProcessIdentity(process.pid, "", "")
    threading.Thread(target=process.wait, name="reaper", daemon=True).start()
    return identity
