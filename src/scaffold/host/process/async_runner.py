"""Run a program's asynchronous main, notice the end of its parent, and put its terminal in order if it is killed."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

Result = TypeVar("Result")
RESTORE = (
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[<u\x1b[?2026l\x1b[?1049l\x1b[?25h\x1b[0m"
)
"""Ends mouse reports, bracketed paste, focus reports, the extended keyboard, synchronised output and the alternate
screen; shows the cursor, without colors."""
DONE = b"."


def run_async(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` like `asyncio.run`, but without child watcher threads on Linux, so the process stays single-threaded.

    Python 3.12 and later do that by default.
    """
    if sys.platform == "linux" and sys.version_info < (3, 12):
        with contextlib.suppress(OSError):  # a kernel without pidfds, which keeps the threads
            os.close(os.pidfd_open(os.getpid()))
            asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    return asyncio.run(main)


def kill_own_group() -> None:
    """Kill our process group, ourselves included, if we lead it; else exit at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def watch_lifeline(on_cut: Callable[[], None] = kill_own_group) -> None:
    """Read stdin in a daemon thread, ignoring its content; call `on_cut` in that thread at EOF."""
    threading.Thread(target=_watch_stdin, args=(on_cut,), name="lifeline", daemon=True).start()


def _watch_stdin(on_cut: Callable[[], None]) -> None:
    while os.read(0, 512):
        pass
    on_cut()


@contextlib.contextmanager
def kept_terminal(terminal: int) -> Iterator[None]:
    """Restore the terminal with this descriptor if this process dies in the block, even by SIGKILL.

    To be entered while there is one thread only, as it forks.
    """
    settings = termios.tcgetattr(terminal)
    alive, told = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        os.close(told)
        _wait_and_restore(alive, terminal, settings)
    os.close(alive)
    try:
        yield
    finally:
        os.write(told, DONE)
        os.close(told)
        os.waitpid(keeper, 0)


def _wait_and_restore(alive: int, terminal: int, settings: list[Any]) -> None:
    # In a session of its own: signals of the terminal do not reach it, and it may change its settings.
    try:
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if os.read(alive, 1) != DONE:
            with contextlib.suppress(OSError, termios.error):  # the terminal is gone, too
                os.write(terminal, RESTORE)
                termios.tcsetattr(terminal, termios.TCSANOW, settings)
    finally:
        os._exit(0)
