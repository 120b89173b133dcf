"""Attempts: executions of primitive actions. One is open for an action at a time; fences refuse late writers."""

from collections.abc import Mapping

from scaffold.core.contract import Verification
from scaffold.core.errors import IllegalMove
from scaffold.core.events import AttemptAdvanced, AttemptEnded, AttemptQueued
from scaffold.core.ids import ActionId, AttemptId, Commit, GoalId, RunId
from scaffold.core.model import Attempt, ProcessIdentity, Score, Usage
from scaffold.core.states import OWN_FAILURES, PHASES, WORKER_PHASES, AttemptStatus, Outcome, Phase
from scaffold.store.columns import (
    PROCESS,
    SCORE,
    VERIFICATION,
    Calendar,
    moment,
    moment_if_any,
    stamp,
    usage_columns,
    usage_of,
)
from scaffold.store.connection import Connection, Row, Value
from scaffold.store.events import Events
from scaffold.store.refusals import illegal_move, stale_fence

OPEN = """
INSERT INTO attempt (id, run_id, action_id, number, fence, status, phase, outcome, executor, model, worker, worktree,
                     base_sha, head_sha, briefing, verification, score, result, input_tokens, cached_input_tokens,
                     output_tokens, cost_usd, requests, log_file, error, queued_at, queued_seq, started_at, ended_at)
VALUES (:id, :run_id, :action_id, :number, :fence, :status, :phase, :outcome, :executor, :model, :worker, :worktree,
        :base_sha, :head_sha, :briefing, :verification, :score, :result, :input_tokens, :cached_input_tokens,
        :output_tokens, :cost_usd, :requests, :log_file, :error, :queued_at, :queued_seq, :started_at, :ended_at)
ON CONFLICT (action_id) WHERE status <> 'ended' DO NOTHING
RETURNING id
"""
GET = "SELECT * FROM attempt WHERE id = :id"
HELD = "SELECT attempt.*, action.key FROM attempt JOIN action ON action.id = attempt.action_id WHERE attempt.id = :id"
NEXT_NUMBER = "SELECT COALESCE(MAX(number), 0) + 1 AS number FROM attempt WHERE action_id = :action_id"
OF_ACTION = "SELECT * FROM attempt WHERE action_id = :action_id ORDER BY number"
OF_RUN = "SELECT * FROM attempt WHERE run_id = :run_id ORDER BY queued_seq"
OPEN_OF_RUN = "SELECT * FROM attempt WHERE run_id = :run_id AND status IN ('queued', 'claimed') ORDER BY queued_seq"
WORKING = """
SELECT action.goal_id, COUNT(*) AS working FROM attempt JOIN action ON action.id = attempt.action_id
WHERE attempt.run_id = :run_id AND attempt.status IN ('queued', 'claimed')
      AND attempt.phase IN ('workspace', 'executing', 'verifying', 'critiquing')
GROUP BY action.goal_id
"""
CLAIM = """
UPDATE attempt SET status = 'claimed', worker = :worker, worktree = :worktree, log_file = :log_file, started_at = :at
WHERE id = :id AND status = 'queued' AND fence = :fence
"""
BEAT = "UPDATE attempt SET beat = :at WHERE id = :id"
# An attempt keeps its place in the queue for as long as it is a candidate; one that was sent back queues up anew.
ADVANCE = """
UPDATE attempt SET phase = :phase, head_sha = COALESCE(:head_sha, head_sha),
       verification = COALESCE(:verification, verification), score = COALESCE(:score, score),
       result = COALESCE(:result, result), iteration = COALESCE(:iteration, iteration),
       candidate_seq = CASE WHEN :phase = 'candidate' AND phase <> 'candidate'
                            THEN :seq ELSE candidate_seq END
WHERE id = :id AND status = 'claimed' AND fence = :fence AND phase = :was
"""
ACCOUNT = """
UPDATE attempt SET input_tokens = input_tokens + :input_tokens,
       cached_input_tokens = cached_input_tokens + :cached_input_tokens,
       output_tokens = output_tokens + :output_tokens, cost_usd = cost_usd + :cost_usd, requests = requests + :requests
WHERE id = :id
"""
END = """
UPDATE attempt SET status = 'ended', outcome = :outcome, error = :error, head_sha = COALESCE(:head_sha, head_sha),
       ended_at = :at
WHERE id = :id AND status <> 'ended' AND fence = :fence
"""
COUNT_FAILURE = "UPDATE action SET failures = failures + 1 WHERE id = :id"
WAITING_TO_LAND = """
SELECT * FROM attempt WHERE run_id = :run_id AND status = 'claimed' AND phase IN ('candidate', 'landing')
ORDER BY candidate_seq
"""


class Attempts:
    """The attempts at each action. Whoever gets StaleFence was overtaken and must stop writing."""

    def __init__(self, connection: Connection, clock: Calendar, events: Events) -> None:
        self._connection = connection
        self._clock = clock
        self._events = events

    def open(self, attempt: Attempt) -> None:
        """Store a new attempt; IllegalMove if the action has one that is not ended."""
        queued_seq = self._events.next_seq(attempt.run_id)
        if not self._connection.write_returning(OPEN, queued_seq=queued_seq, **_columns(attempt)):
            what = f"action {attempt.action_id!r} has an open attempt already"
            raise IllegalMove(what, "Wait for that attempt to end; `scaffold status` shows it.")
        key = self._held(attempt.id)["key"]
        self._events.append(attempt.run_id, AttemptQueued(key, attempt.number, attempt.base_sha))

    def get(self, attempt_id: AttemptId) -> Attempt | None:
        """Return the attempt, None if there is none."""
        row = self._connection.row(GET, id=attempt_id)
        return None if row is None else _attempt(row)

    def next_number(self, action_id: ActionId) -> int:
        """Return the number for the action's next attempt, from 1."""
        return int(self._connection.rows(NEXT_NUMBER, action_id=action_id)[0]["number"])

    def of_action(self, action_id: ActionId) -> tuple[Attempt, ...]:
        """Return the action's attempts by number."""
        return tuple(map(_attempt, self._connection.rows(OF_ACTION, action_id=action_id)))

    def of_run(self, run_id: RunId) -> tuple[Attempt, ...]:
        """Return the run's attempts in the order they were opened."""
        return tuple(map(_attempt, self._connection.rows(OF_RUN, run_id=run_id)))

    def open_of_run(self, run_id: RunId) -> tuple[Attempt, ...]:
        """Return the run's attempts that are not ended, in the order they were opened."""
        return tuple(map(_attempt, self._connection.rows(OPEN_OF_RUN, run_id=run_id)))

    def working(self, run_id: RunId) -> Mapping[GoalId, int]:
        """Return how many attempts of each goal are open and not handed in; goals without any are left out."""
        return {row["goal_id"]: int(row["working"]) for row in self._connection.rows(WORKING, run_id=run_id)}

    def waiting_to_land(self, run_id: RunId) -> tuple[Attempt, ...]:
        """Return the run's candidates, landing ones included, in the order they were handed in."""
        return tuple(map(_attempt, self._connection.rows(WAITING_TO_LAND, run_id=run_id)))

    def claim(
        self, attempt_id: AttemptId, *, fence: int, worker: ProcessIdentity, worktree: str, log_file: str
    ) -> None:
        """Give a queued attempt to a worker process, from now on; StaleFence if it is taken, ended or fenced off."""
        self._fenced(attempt_id, fence, "queued")
        at = stamp(self._clock.now())
        written = PROCESS.write(worker)
        self._connection.swap(
            CLAIM, "attempt", attempt_id, fence=fence, worker=written, worktree=worktree, log_file=log_file, at=at
        )

    def advance(
        self,
        attempt_id: AttemptId,
        *,
        fence: int,
        phase: Phase,
        head_sha: Commit | None = None,
        verification: Verification | None = None,
        score: Score | None = None,
        result: str | None = None,
        iteration: int | None = None,
    ) -> None:
        """Enter `phase`, or stay in it, with what is new; None keeps what is known.

        Phases only go on, but for the way back to `executing` while the worker has the attempt: IllegalMove.
        """
        row = self._fenced(attempt_id, fence, "claimed")
        if not _follows(row["phase"], phase):
            raise illegal_move("attempt", attempt_id, row["phase"], phase)
        self._connection.swap(
            ADVANCE,
            "attempt",
            attempt_id,
            fence=fence,
            was=row["phase"],
            phase=phase,
            seq=self._events.next_seq(row["run_id"]),
            head_sha=head_sha,
            verification=VERIFICATION.write(verification),
            score=SCORE.write(score),
            result=result,
            iteration=iteration,
        )
        if phase != row["phase"]:
            self._events.append(row["run_id"], AttemptAdvanced(row["key"], row["number"], phase))

    def beat(self, attempt_id: AttemptId, *, fence: int, at: float) -> None:
        """Give a sign of life at the monotonic time `at`; StaleFence if the attempt is over or another's."""
        self._fenced(attempt_id, fence, "claimed")
        self._connection.swap(BEAT, "attempt", attempt_id, at=at)

    def check(self, attempt_id: AttemptId, *, fence: int) -> None:
        """Return if the attempt is claimed and `fence` its own, else StaleFence."""
        self._fenced(attempt_id, fence, "claimed")

    def account(self, attempt_id: AttemptId, *, usage: Usage, fence: int | None = None) -> None:
        """Add what a request used; without a `fence` whatever became of the attempt, for what is spent is spent."""
        if fence is not None:
            self.check(attempt_id, fence=fence)
        self._connection.swap(ACCOUNT, "attempt", attempt_id, **usage_columns(usage))

    def end(
        self,
        attempt_id: AttemptId,
        *,
        outcome: Outcome,
        error: str | None = None,
        head_sha: Commit | None = None,
        fence: int | None = None,
    ) -> None:
        """End the attempt; if the outcome is its own failure, its action counts it. StaleFence if it is over."""
        row = self._fenced(attempt_id, fence, "queued", "claimed")
        at = stamp(self._clock.now())
        self._connection.swap(
            END, "attempt", attempt_id, fence=row["fence"], outcome=outcome, error=error, head_sha=head_sha, at=at
        )
        if outcome in OWN_FAILURES:
            self._connection.write(COUNT_FAILURE, id=row["action_id"])
        self._events.append(row["run_id"], AttemptEnded(row["key"], row["number"], outcome, error))

    def _held(self, attempt_id: AttemptId) -> Row:
        return self._connection.held(HELD, "attempt", attempt_id)

    def _fenced(self, attempt_id: AttemptId, fence: int | None, *statuses: AttemptStatus) -> Row:
        row = self._held(attempt_id)
        if fence is not None and row["fence"] != fence:
            raise stale_fence("attempt", attempt_id, f"its fence is {row['fence']}, not {fence}")
        if row["status"] not in statuses:
            raise stale_fence("attempt", attempt_id, f"it is {row['status']}, not {' or '.join(statuses)}")
        return row


def _follows(was: Phase, to: Phase) -> bool:
    sent_back = to == "executing" and was in WORKER_PHASES
    return sent_back or PHASES.index(to) >= PHASES.index(was)


def _columns(attempt: Attempt) -> dict[str, Value]:
    return {
        "id": attempt.id,
        "run_id": attempt.run_id,
        "action_id": attempt.action_id,
        "number": attempt.number,
        "fence": attempt.fence,
        "status": attempt.status,
        "phase": attempt.phase,
        "outcome": attempt.outcome,
        "executor": attempt.executor,
        "model": attempt.model,
        "worker": PROCESS.write(attempt.worker),
        "worktree": attempt.worktree,
        "base_sha": attempt.base_sha,
        "head_sha": attempt.head_sha,
        "briefing": attempt.briefing,
        "verification": VERIFICATION.write(attempt.verification),
        "score": SCORE.write(attempt.score),
        "result": attempt.result,
        **usage_columns(attempt.usage),
        "log_file": attempt.log_file,
        "error": attempt.error,
        "queued_at": stamp(attempt.queued_at),
        "started_at": stamp(attempt.started_at),
        "ended_at": stamp(attempt.ended_at),
    }


def _attempt(row: Row) -> Attempt:
    return Attempt(
        id=row["id"],
        run_id=row["run_id"],
        action_id=row["action_id"],
        number=row["number"],
        fence=row["fence"],
        status=row["status"],
        phase=row["phase"],
        outcome=row["outcome"],
        executor=row["executor"],
        model=row["model"],
        worker=PROCESS.read(row["worker"]),
        beat=row["beat"],
        iteration=row["iteration"],
        worktree=row["worktree"],
        base_sha=row["base_sha"],
        head_sha=row["head_sha"],
        briefing=row["briefing"],
        verification=VERIFICATION.read(row["verification"]),
        score=SCORE.read(row["score"]),
        result=row["result"],
        usage=usage_of(row),
        log_file=row["log_file"],
        error=row["error"],
        queued_at=moment(row["queued_at"]),
        started_at=moment_if_any(row["started_at"]),
        ended_at=moment_if_any(row["ended_at"]),
    )
