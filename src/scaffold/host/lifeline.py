"""The child's end of its lifeline: stdin, which ends when the parent does."""

import os
import signal
import threading
from collections.abc import Callable


def end_group() -> None:
    """Kill our process group, ourselves included, if we lead it; else just end, at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def hold(on_cut: Callable[[], None] = end_group) -> None:
    """Watch stdin from a thread that keeps nobody alive; call `on_cut` there once it ends. What it says is ignored."""
    threading.Thread(target=_watch, args=(on_cut,), name="lifeline", daemon=True).start()


def _watch(on_cut: Callable[[], None]) -> None:
    while os.read(0, 512):
        pass
    on_cut()
