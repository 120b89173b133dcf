"""What becomes of an attempt whose worker process is gone, and of workers that give no sign of life any more."""

from itertools import takewhile

from scaffold.core.model import Attempt, Run
from scaffold.core.states import WORKER_PHASES, Outcome
from scaffold.orchestrator.engine import AttemptExit, Engine
from scaffold.orchestrator.recovery import put_back
from scaffold.orchestrator.starting import Starting
from scaffold.worker.lease import owned
from scaffold.worker.site import Site
from scaffold.worker.workspace import rescue

STOP_GRACE_S = 0.1
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

    async def settle(self, exited: AttemptExit) -> Outcome | None:
        """Account for a worker that ended, and return how its attempt did; None where nothing has ended.

        One that left its attempt open has died under it.
        """
        attempt = self._site.store.attempts.get(exited.attempt_id)
        if attempt is None or self._starting.died_early(attempt):
            return None
        if attempt.status == "ended" or attempt.phase not in WORKER_PHASES:
            await rescue(self._site, self._run, attempt.id)
            return attempt.outcome
        outcome = self._outcome(attempt, exited.code)
        error = self._last_words(attempt, exited.code)
        await put_back(self._site, self._run, attempt, outcome=outcome, error=error)
        return outcome

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
        since = self._site.clock.now() - (attempt.started_at or attempt.queued_at)
        return since.total_seconds() > self._run.settings.attempt_timeout_s + OVERTIME_S

    def _silent(self, attempt: Attempt) -> bool:
        return attempt.beat is not None and self._site.clock.monotonic() - attempt.beat > SILENCE_S

    def _last_words(self, attempt: Attempt, code: int) -> str:
        log = self._site.process_log(attempt.run_id, attempt.id)
        said = log.read_text(errors="replace").strip()[-1000:] if log.exists() else ""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the worker ended with {how} in phase {attempt.phase}. {said}".strip()
