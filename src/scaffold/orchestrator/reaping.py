"""What becomes of an attempt whose worker process is gone, and of workers that give no sign of life any more."""

from itertools import takewhile

from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, Run
from scaffold.core.states import WORKER_PHASES, Outcome
from scaffold.orchestrator.engine import STOP_GRACE_S, AttemptExit, Engine, in_words
from scaffold.orchestrator.recovery import put_back
from scaffold.orchestrator.starting import Starting
from scaffold.worker.lease import owned
from scaffold.worker.site import Site
from scaffold.worker.workspace import AT_WORK, rescue

LOST_IN_A_ROW = 20
OVERTIME_S = 120.0
"""Beyond its deadline, for a worker to put its work away before it is ended."""
SILENCE_S = 60.0
"""How long a worker may miss its beats before it is held to hang: stopped, or stuck in a computation."""


class Reaping:
    """Accounts for workers that ended, and ends those that will not by themselves."""

    def __init__(self, site: Site, run: Run, engine: Engine, starting: Starting) -> None:
        self._site = site
        self._run = run
        self._engine = engine
        self._starting = starting
        self._seen: dict[AttemptId, float] = {}
        """When each attempt was first looked at, on the monotonic clock: the time of day may jump."""

    async def settle(self, exited: AttemptExit) -> Outcome | None:
        """Account for a worker that ended, and return how its attempt did; None where nothing has ended.

        One that left its attempt open has died under it.
        """
        attempt = self._site.store.attempts.get(exited.attempt_id)
        if attempt is None or self._starting.died_early(attempt):
            return None
        if attempt.status == "ended" or attempt.phase not in WORKER_PHASES:
            await self._put_away(attempt)
            return attempt.outcome
        outcome = self._outcome(attempt, exited.code)
        error = self._last_words(attempt, exited.code)
        await put_back(self._site, self._run, attempt, outcome=outcome, error=error)
        return outcome

    async def _put_away(self, attempt: Attempt) -> None:
        """Remove the worktree that a worker left, if it did; what is in it and nowhere else is pinned first."""
        folder = self._site.attempt_folder(attempt.run_id, attempt.id)
        if attempt.phase in AT_WORK or folder.exists():  # who handed in has given it back
            await rescue(self._site, self._run, attempt.id)

    async def end_overdue(self) -> None:
        """End workers that do not notice their deadline themselves, and those that do not stir."""
        for attempt in self._site.store.attempts.open_of_run(self._run.id):
            if attempt.phase in WORKER_PHASES and (self._overdue(attempt) or self._silent(attempt)):
                await self._engine.stop_attempt(attempt.id, grace_s=STOP_GRACE_S)

    def close_what_expired(self) -> bool:
        """Let who waited in vain for a decision ask anew; tell whether anybody did."""
        store = self._site.store
        overdue = bool(store.inbox.overdue(self._run.id))
        if overdue:
            with owned(store, self._run):
                store.inbox.expire(self._run.id)
        return overdue

    def _outcome(self, attempt: Attempt, code: int) -> Outcome:
        """Return whose fault the end of a worker is: a signal is nobody's, unless it was ours, or comes every time."""
        if self._overdue(attempt):
            return "timeout"
        earlier = reversed(self._site.store.attempts.of_action(attempt.action_id)[:-1])
        lost = sum(1 for _ in takewhile(lambda each: each.outcome == "lost", earlier))
        return "lost" if code < 0 and lost + 1 < LOST_IN_A_ROW else "executor_failed"

    def _overdue(self, attempt: Attempt) -> bool:
        """Tell whether a worker has missed its own deadline, and the time to put its work away, too."""
        now = self._site.clock.monotonic()
        return now - self._seen.setdefault(attempt.id, now) > self._run.settings.attempt_timeout_s + OVERTIME_S

    def _silent(self, attempt: Attempt) -> bool:
        return attempt.beat is not None and self._site.clock.monotonic() - attempt.beat > SILENCE_S

    def _last_words(self, attempt: Attempt, code: int) -> str:
        said = self._site.last_words(attempt.run_id, attempt.id)
        return f"the worker ended with {in_words(code)} in phase {attempt.phase}. {said}".strip()
