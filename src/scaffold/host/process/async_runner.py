"""Run a program's asynchronous main."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


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
