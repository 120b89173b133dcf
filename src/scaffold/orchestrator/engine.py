"""The engine port: what starts attempts and supervisors, and tells when they are over."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from scaffold.core.ids import AttemptId, GoalId
from scaffold.core.model import Attempt


class AttemptExit(Struct, frozen=True):
    """The process of an attempt is gone; the store, not this, tells how far it came."""

    attempt_id: AttemptId
    code: int
    """Exit code; negative for the signal that ended it."""


class Engine(Protocol):
    """Runs attempts and supervisors somewhere; every child ends with its engine."""

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a worker for a queued attempt; raises OSError if no process can be had."""
        ...

    async def start_supervisor(self, goal: GoalId, main: Callable[[], Awaitable[None]]) -> None:
        """Start the supervisor of a goal."""
        ...

    async def next_exit(self) -> AttemptExit:
        """Wait for a worker to end and return which; each exit is told once."""
        ...

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:
        """TERM, `grace_s`, KILL: on return the worker and all it started are gone. No error if it is not there."""
        ...

    async def close(self, *, grace_s: float) -> None:
        """Stop every worker and supervisor, and wait until they are gone."""
        ...
