"""The child's end of the lifeline: its stdin, which reaches EOF when the parent exits."""

import os
import signal
import threading
from collections.abc import Callable


def kill_own_group() -> None:
    """Kill our process group, ourselves included, if we lead it; else exit at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def watch_lifeline(on_cut: Callable[[], None] = kill_own_group) -> None:
    """Read stdin in a daemon thread, ignoring its content; call `on_cut` in that thread at EOF."""
    threading.Thread(target=_watch, args=(on_cut,), name="lifeline", daemon=True).start()


def _watch(on_cut: Callable[[], None]) -> None:
    while os.read(0, 512):
        pass
    on_cut()
