"""Ports: the external services the package needs, as Protocols. Each has a small real second implementation."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal, Protocol

from scaffold.core.conversation import DeltaHandler, Message, Reply, Request, ignore_delta
from scaffold.core.ids import ReservationId, Ticket
from scaffold.core.landing.conflict import MergeAnswer, MergeQuestion
from scaffold.core.model import Usage
from scaffold.core.spending import Amount

NO_USAGE = Usage()


class Clock(Protocol):
    """The time of day, a monotonic clock and sleep; passed in so that tests control time."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back; its zero is arbitrary."""

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""


class Model(Protocol):
    """A language model. One object serves one conversation at a time."""

    @property
    def window_tokens(self) -> int | None:
        """Return the context window: the most tokens a request and its reply may have together. None if unknown."""

    @property
    def is_small(self) -> bool:
        """Return whether it works better with few tools and a short prompt."""

    def estimate(self, request: Request) -> Usage:
        """Return the estimated usage of the request; its cost is None if the price is unknown."""

    async def reply(self, request: Request, on_delta: DeltaHandler = ignore_delta) -> Reply:
        """Return one complete reply and pass its deltas to `on_delta` as they arrive; raise ModelError on failure."""


class Budget(Protocol):
    """A budget shared by all processes of a run or session: reserve before a request, settle after it."""

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Reserve the estimated usage; waits while other reservations leave too little.

        Raises BudgetExceeded once a limit is used up.
        """

    def left_for(self, reservation: ReservationId) -> Amount:
        """Return what is left for the request besides what others have reserved; infinite without a limit."""

    def set_tries(self, reservation: ReservationId, tries: int, estimate: Usage | None = None) -> None:
        """Say how many tries of the request may have been billed by now, the one under way included.

        It is 1 from the reservation on, and 0 while the request waits and nothing was sent. A process that is killed is
        booked so many estimates; `estimate` takes the place of the one reserved, if a reply has grown beyond that.
        """

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book the actual usage, including aborted tries, and release the reservation.

        A request that received nothing used nothing.
        """


RequestOutcome = Literal["ok", "limited", "unavailable", "failed"]
"""How a request ended: answered | rejected because of a rate limit or load | the endpoint was down, out of reach, or
broke off its reply | failed otherwise, which says nothing about the endpoint."""


CooldownHandler = Callable[[float], None]
"""Receives the seconds that a request waits for its endpoint; 0 if it waits for other requests to end."""


def ignore_cooldown(cooldown_s: float, /) -> None:
    """Ignore the cooldown's length."""


class Throttle(Protocol):
    """Admission to endpoints, shared by all agents of a user: one rate-limited request pauses all of them.

    So do some requests in a row that find the endpoint unavailable. Then one request a period asks for all.
    """

    async def enter(
        self,
        endpoint: str,
        *,
        timeout_s: float,
        on_cooldown: CooldownHandler = ignore_cooldown,
        most: int | None = None,
    ) -> Ticket:
        """Return when a request may start; raise ModelUnavailable at once if that takes more than `timeout_s`.

        If it has to wait, `on_cooldown` is called once, and at the first cooldown once with its length in seconds.
        `most` is how many requests the endpoint works on at once, None if that is unknown.
        """

    def wait_s(self, endpoint: str) -> float:
        """Return the seconds left of the endpoint's cooldown; 0 if there is none."""

    def lift(self, endpoint: str) -> None:
        """End the endpoint's cooldown, for all of the user's agents, and keep its limit of requests."""

    def leave(self, ticket: Ticket, verdict: RequestOutcome, *, retry_after_s: float | None = None) -> None:
        """Report how the request ended; `retry_after_s` is the wait the endpoint asked for with `limited`, or None."""


class History(Protocol):
    """Storage of a running conversation, so that a crash loses no completed step."""

    def add(self, message: Message, usage: Usage = NO_USAGE) -> None:
        """Store the next message and its usage; both are durable when this returns."""

    def draft(self, message: Message) -> None:
        """Store what is the next message if the process dies now; the next draft or `add` takes its place."""

    def spend(self, usage: Usage) -> None:
        """Store usage that no message came of; durable when this returns."""

    def compact(self, kept: int, summary: str) -> None:
        """Replace all but the last `kept` messages with `summary` from now on; the stored messages stay."""


class ReplyMemory(Protocol):
    """Replies that were paid before a crash, so that nobody pays twice for the same request."""

    def find(self, request: Request) -> Reply | None:
        """Return the reply to an equal request; None if there is none."""

    def keep(self, request: Request, reply: Reply) -> None:
        """Store a reply."""


MergeCheck = Callable[[Mapping[str, str]], str]
"""Return why the texts of files, by path, are not a valid merge; empty if they are."""


class Merger(Protocol):
    """An agent that merges files by what both sides' changes mean."""

    async def merge(self, question: MergeQuestion, check: MergeCheck, /) -> MergeAnswer:
        """Return the merged files, or why there are none; an answer with a problem may be asked for again."""
