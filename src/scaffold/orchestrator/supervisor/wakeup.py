"""Wake-ups for the tasks of one process."""

import asyncio


class Wakeup:
    """Wakes all tasks that hold its next event; a wake-up between getting the event and waiting is not missed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next_event(self) -> asyncio.Event:
        """Return the event that the next `notify_all` sets: get it first, then check the state, then wait."""
        return self._next

    def notify_all(self) -> None:
        """Set the current event and start a new one."""
        self._next.set()
        self._next = asyncio.Event()
