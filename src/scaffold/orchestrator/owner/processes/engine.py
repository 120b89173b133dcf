"""The engine port: starts worker and supervisor processes and reports their exits."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from scaffold.core.ids import AttemptId, GoalId
from scaffold.core.model import Attempt, ProcessIdentity

STOP_GRACE_S = 0.1
"""Seconds between TERM and KILL when a worker or supervisor is stopped."""
GoalGroup = tuple[GoalId, ...]
"""The goals that share a process of supervisors, at least one."""


class AttemptExit(Struct, frozen=True):
    """The process of an attempt has exited; how far the attempt got is in the store."""

    attempt_id: AttemptId
    code: int
    """Exit code; negative: the number of the signal that killed it."""


class SupervisorExit(Struct, frozen=True):
    """A process of supervisors has exited; whether its goals continue is in the store."""

    goals: GoalGroup
    code: int
    """Exit code; negative: the number of the signal that killed it."""


ProcessExit = AttemptExit | SupervisorExit


def describe_exit_code(code: int) -> str:
    """Return an exit code as text: `exit code 1`, `signal 9`."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class Engine(Protocol):
    """Runs attempts and supervisors; no child outlives its engine."""

    @property
    def workers(self) -> Sequence[AttemptId]:
        """The attempts whose workers have not exited."""
        ...

    async def start_attempt(self, attempt: Attempt) -> None:
        """Start a worker for a queued attempt; raises OSError if the process cannot be started."""
        ...

    async def start_supervisor(self, goals: GoalGroup) -> ProcessIdentity:
        """Start a process that supervises the goals and return its identity; raises OSError if it cannot be started."""
        ...

    async def next_exit(self) -> ProcessExit:
        """Wait until a worker or supervisor exits and return that exit; each one is reported once."""
        ...

    async def stop_attempt(self, attempt: AttemptId, *, grace_s: float) -> None:
        """Send TERM, then KILL after `grace_s` seconds; return once the worker and its children have exited.

        Does nothing if the worker is not running.
        """
        ...

    async def stop_supervisor(self, goals: GoalGroup, *, grace_s: float) -> None:
        """Stop the process that supervises these goals, as `stop_attempt` does."""
        ...

    async def close(self, *, grace_s: float) -> None:
        """Stop all workers and supervisors and wait until they have exited."""
        ...
