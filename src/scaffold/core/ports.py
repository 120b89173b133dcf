"""Ports: what the house needs from outside, as Protocols. Each has a small real second implementation."""

from collections.abc import Callable
from datetime import datetime
from typing import Literal, Protocol

from scaffold.core.conversation import Hear, Message, Reply, Request, unheard
from scaffold.core.ids import ReservationId, Ticket
from scaffold.core.model import Usage

NOTHING = Usage()


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
    """Something that answers. One object serves one conversation at a time."""

    @property
    def window_tokens(self) -> int | None:
        """Return how many tokens a request and its reply may have together; None where nobody knows."""
        ...

    def estimate(self, request: Request) -> Usage:
        """Return what the request is likely to use; its cost is None where no price is known."""
        ...

    async def reply(self, request: Request, hear: Hear = unheard) -> Reply:
        """Return one whole reply, told to `hear` as it comes; raises ModelTrouble when none is to be had."""
        ...


class Budget(Protocol):
    """Money shared by all processes of a run or session: set aside before a request, settled after it."""

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Set aside what a request may cost, as soon as what others have set aside allows it.

        Raises BudgetSpent once the limit is used up.
        """
        ...

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book what the request really used, with what of it broke off, and free what was set aside.

        Nothing was used if nothing was heard.
        """
        ...


Verdict = Literal["ok", "limited", "failed"]
"""How a request to an endpoint ended: answered, refused because there were too many, or otherwise."""


Parked = Callable[[float], None]


def untold(parked_s: float, /) -> None:
    """Ignore how long it takes."""


class Throttle(Protocol):
    """The way to an endpoint, shared by all agents of a user: one that is told to wait parks them all."""

    async def enter(self, endpoint: str, *, patience_s: float, parked: Parked = untold) -> Ticket:
        """Return when a request may start; raises ModelTrouble at once if that will take more than `patience_s`.

        `parked` is told once, in seconds, how long the endpoint is parked, if it is.
        """
        ...

    def wait_s(self, endpoint: str) -> float:
        """Return how long the endpoint is parked from now, in seconds; 0 if it is not."""
        ...

    def leave(self, ticket: Ticket, verdict: Verdict, *, retry_after_s: float | None = None) -> None:
        """Tell how the request ended; `retry_after_s` is the endpoint's own wish after `limited`."""
        ...


class History(Protocol):
    """Where a conversation is kept while it goes on, so that no completed step is lost with the process."""

    def add(self, message: Message, usage: Usage = NOTHING) -> None:
        """Keep the conversation's next message and what it cost; both are safe when this returns."""
        ...

    def compact(self, kept: int, summary: str) -> None:
        """From now on `summary` and the last `kept` messages stand for the conversation; nothing is deleted."""
        ...
