"""Start a worker process for each queued attempt."""

from collections import Counter

from scaffold.core.ids import AttemptId, RunId
from scaffold.core.model import Attempt
from scaffold.orchestrator.owner.processes.engine import Engine
from scaffold.store.database import Store

MAX_STARTUP_RETRIES = 2
"""How often a worker that died before it claimed its attempt is silently started again."""


class AttemptLauncher:
    """Starts each queued attempt of a run once, and again if its worker died before claiming it."""

    def __init__(self, store: Store, run_id: RunId, engine: Engine) -> None:
        self._store = store
        self._run_id = run_id
        self._engine = engine
        self._started: Counter[AttemptId] = Counter()
        self._waiting: set[AttemptId] = set()

    async def start_queued(self) -> None:
        """Start a worker for each queued attempt without one; raises OSError if a process cannot be started."""
        for attempt in self._store.attempts.queued(self._run_id):
            # A started worker takes a moment to claim its attempt, which stays `queued` until then.
            if attempt.id not in self._waiting:
                # Before the start, which awaits: another wake-up meanwhile must not start a second worker.
                self._waiting.add(attempt.id)
                self._started[attempt.id] += 1
                try:
                    await self._engine.start_attempt(attempt)
                except OSError:
                    # The machine may have room for a process later.
                    self._started[attempt.id] -= 1
                    self._waiting.discard(attempt.id)
                    raise

    def has_started(self, attempt: Attempt) -> bool:
        """Return whether a worker was started for the open attempt."""
        return attempt.status != "queued" or attempt.id in self._waiting

    def restart_if_unclaimed(self, attempt: Attempt) -> bool:
        """Requeue an attempt whose worker exited before claiming it; False if it was claimed or no retries are left."""
        if attempt.status != "queued" or self._started[attempt.id] > MAX_STARTUP_RETRIES:
            return False
        self._waiting.discard(attempt.id)
        return True
