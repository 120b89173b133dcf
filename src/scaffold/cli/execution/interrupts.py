"""Ctrl-C during a run: the first one stops the run cleanly, the second one ends the process at once."""

import asyncio
import os
import signal
from collections.abc import Callable

from scaffold.cli.exit_codes import INTERRUPTED

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def handle_interrupts(stop: Callable[[], None]) -> None:
    """Call `stop` at the first signal, instead of an earlier handler; end the process at the second one.

    No clean-up is needed then: workers and checks end when their pipes to this process break.
    """
    loop, seen = asyncio.get_running_loop(), 0

    def on_signal() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(INTERRUPTED)
        stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)


def restore_interrupts() -> None:
    """Restore the default signal handlers."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.remove_signal_handler(number)
