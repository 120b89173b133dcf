"""What Ctrl-C does to a run: the first one puts it down in good order, the second one ends the process at once."""

import asyncio
import os
import signal
from collections.abc import Callable

from scaffold.cli.exit_codes import INTERRUPTED

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def handle_interrupts(put_down: Callable[[], None]) -> None:
    """Call `put_down` at the first signal, in place of what was called before.

    At the second one nothing is left to be tidied: workers and checks hang on pipes that break with this process.
    """
    loop, seen = asyncio.get_running_loop(), 0

    def on_signal() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(INTERRUPTED)
        put_down()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)


def restore_interrupts() -> None:
    """Let signals do again what they do by themselves."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.remove_signal_handler(number)
