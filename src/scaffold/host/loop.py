"""Running a program's asynchronous part."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_async(main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` as `asyncio.run` does; on Linux no thread waits for a child, so that this process stays a single one.

    From Python 3.12 on that is so by itself.
    """
    if sys.platform == "linux" and sys.version_info < (3, 12) and _has_descriptors():
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    return asyncio.run(main)


def _has_descriptors() -> bool:
    """Tell whether this system gives out descriptors of processes."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True
