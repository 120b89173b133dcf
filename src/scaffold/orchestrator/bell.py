"""A bell that wakes everybody who listens."""

import asyncio


class Bell:
    """Rings for whoever listened before; a ring between listening and waiting is not missed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def listen(self) -> asyncio.Event:
        """Return an event that the next ring sets; listen first, then look, then wait."""
        return self._next

    def ring(self) -> None:
        """Wake all listeners."""
        self._next.set()
        self._next = asyncio.Event()
