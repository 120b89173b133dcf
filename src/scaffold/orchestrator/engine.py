"""The engine port: what starts attempts and supervisors, and tells when they are over."""

from typing import Protocol

from msgspec import Struct

from scaffold.core.ids import AttemptId, GoalId
from scaffold.core.model import Attempt, ProcessIdentity

STOP_GRACE_S = 0.1
"""What a worker or a supervisor that is stopped has between TERM and KILL."""


class AttemptExit(Struct, frozen=True):
    """The process of an attempt is gone; the store, not this, tells how far it came."""

    attempt_id: AttemptId
    code: int
    """Exit code; negative for the signal that ended it."""


class SupervisorExit(Struct, frozen=True):
    """The process of a supervisor is gone; whether its goal goes on, the store tells."""

    goal_id: GoalId
    code: int
    """Exit code; negative for the signal that ended it."""


Exit = AttemptExit | SupervisorExit


def in_words(code: int) -> str:
    """Return an exit code in words: `exit code 1`, `signal 9`."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class Engine(Protocol):
    """Runs attempts and supervisors somewhere; every child ends with its engine."""

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a worker for a queued attempt; raises OSError if no process can be had."""
        ...

    async def start_supervisor(self, goal: GoalId) -> ProcessIdentity:
        """Start the supervisor of a goal, and tell who it is; raises OSError if no process can be had."""
        ...

    async def next_exit(self) -> Exit:
        """Wait for a worker or a supervisor to end and return which; each exit is told once."""
        ...

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:
        """TERM, `grace_s`, KILL: on return the worker and all it started are gone. No error if it is not there."""
        ...

    async def stop_supervisor(self, goal: GoalId, *, grace_s: float) -> None:
        """Do the same to a supervisor."""
        ...

    async def close(self, *, grace_s: float) -> None:
        """Stop every worker and supervisor, and wait until they are gone."""
        ...
