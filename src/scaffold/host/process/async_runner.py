"""Run a program's asynchronous main."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_async(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` like `asyncio.run`, but without child watcher threads on Linux, so the process stays single-threaded.

    Python 3.12 and later do that by default.
    """
    if sys.platform == "linux" and sys.version_info < (3, 12) and _has_descriptors():
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    return asyncio.run(main)


def _has_descriptors() -> bool:
    """Return True if this system supports pidfds."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True
