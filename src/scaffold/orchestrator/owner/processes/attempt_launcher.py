"""Start a worker process for each queued attempt."""

from collections import Counter
from collections.abc import Callable, Sequence

from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, Run
from scaffold.orchestrator.owner.processes.engine import Engine
from scaffold.store.database import Store
from scaffold.store.spending.run_budget import budget_use

MAX_STARTUP_RETRIES = 2
"""How often a worker that died before it claimed its attempt is silently started again."""


class AttemptLauncher:
    """Starts each queued attempt of a run once, and again if its worker died before claiming it."""

    def __init__(self, store: Store, run: Run, engine: Engine, on_budget_end: Callable[[], None]) -> None:
        """`on_budget_end` is called in place of a start that the budget would end at once."""
        self._store = store
        self._run = run
        self._engine = engine
        self._on_budget_end = on_budget_end
        self._started: Counter[AttemptId] = Counter()
        self._waiting: set[AttemptId] = set()

    async def start_queued(self) -> None:
        """Start a worker for each queued attempt without one; raises OSError if a process cannot be started."""
        # A started worker takes a moment to claim its attempt, which stays `queued` until then.
        queued = [each for each in self._store.attempts.queued(self._run.id) if each.id not in self._waiting]
        if self._is_out_of_budget(queued):
            self._on_budget_end()
            return
        for attempt in queued:
            # Another wake-up, during a start, may have started it; and must not start a second worker now.
            if attempt.id not in self._waiting:
                self._waiting.add(attempt.id)
                self._started[attempt.id] += 1
                try:
                    await self._engine.start_attempt(attempt)
                except OSError:
                    # The machine may have room for a process later.
                    self._started[attempt.id] -= 1
                    self._waiting.discard(attempt.id)
                    raise

    def _is_out_of_budget(self, queued: Sequence[Attempt]) -> bool:
        """Return whether the budget is used up and an attempt is queued whose predecessor ended for that.

        It would end at once. Others may need no request, and so are started.
        """
        again = [each for each in queued if each.number > 1]
        if not again or budget_use(self._store, self._run).reached is None:
            return False
        earlier = (self._store.attempts.of_action(each.action_id) for each in again)
        return any(attempts[-2].outcome == "budget" for attempts in earlier if len(attempts) > 1)

    def has_started(self, attempt: Attempt) -> bool:
        """Return whether a worker was started for the open attempt."""
        return attempt.status != "queued" or attempt.id in self._waiting

    def restart_if_unclaimed(self, attempt: Attempt) -> bool:
        """Requeue an attempt whose worker exited before claiming it; False if it was claimed or no retries are left."""
        if attempt.status != "queued" or self._started[attempt.id] > MAX_STARTUP_RETRIES:
            return False
        self._waiting.discard(attempt.id)
        return True
