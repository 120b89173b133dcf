"""Ports: what the house needs from outside, as Protocols. Each has a small real second implementation."""

from datetime import datetime
from typing import Protocol

from scaffold.core.conversation import Reply, Request
from scaffold.core.model import Usage


class Clock(Protocol):
    """Time, handed in."""

    def now(self) -> datetime:
        """Return the time of day, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...


class Model(Protocol):
    """Something that answers."""

    async def reply(self, request: Request) -> Reply:
        """Return one whole reply; raises ModelTrouble when none is to be had."""
        ...


class Budget(Protocol):
    """Money and tokens shared by all processes of a run."""

    def admit(self) -> None:
        """Return if another request may start; raises BudgetSpent if not."""
        ...

    def settle(self, usage: Usage) -> None:
        """Record what a finished request used."""
        ...
