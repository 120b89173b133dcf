"""Starting a process for each attempt that was queued, whoever queued it."""

from collections import Counter

from scaffold.core.ids import AttemptId, RunId
from scaffold.core.model import Attempt
from scaffold.orchestrator.engine import Engine
from scaffold.store.database import Store

MOST_STARTUP_RETRIES = 2
"""How often a worker that died before it took its attempt is started again, without anybody being told."""


class Starting:
    """Starts each queued attempt of a run once; one whose worker never took it is started again."""

    def __init__(self, store: Store, run_id: RunId, engine: Engine) -> None:
        self._store = store
        self._run_id = run_id
        self._engine = engine
        self._started: Counter[AttemptId] = Counter()
        self._waiting: set[AttemptId] = set()

    async def start_queued(self) -> None:
        """Start what is queued and has no process; raises OSError if none can be had."""
        for attempt in self._store.attempts.open_of_run(self._run_id):
            if attempt.status == "queued" and attempt.id not in self._waiting:
                self._waiting.add(attempt.id)
                self._started[attempt.id] += 1
                await self._engine.start_attempt(attempt)

    def begun(self, attempt: Attempt) -> bool:
        """Tell whether an open attempt has a worker, or had one."""
        return attempt.status != "queued" or attempt.id in self._waiting

    def died_early(self, attempt: Attempt) -> bool:
        """Tell whether a worker that is gone never took its attempt, and may be started again; then it will be."""
        if attempt.status != "queued" or self._started[attempt.id] > MOST_STARTUP_RETRIES:
            return False
        self._waiting.discard(attempt.id)
        return True
