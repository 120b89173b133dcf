"""Attempts: executions of primitive actions. Each action has at most one open attempt; fences stop late writers."""

from collections.abc import Mapping

from msgspec import Struct

from scaffold.core.errors import IllegalTransition
from scaffold.core.events import AttemptEnded, AttemptPhaseChanged, AttemptQueued, AttemptWaitChanged
from scaffold.core.ids import ActionId, AttemptId, Commit, GoalId, RunId
from scaffold.core.model import Attempt, CriticScore, ProcessIdentity, Usage
from scaffold.core.proof.contract import Verification
from scaffold.core.states import (
    COUNTED_FAILURES,
    CUT_OFF,
    DEATHLESS_OUTCOMES,
    PHASES,
    WORKER_PHASES,
    AttemptOutcome,
    AttemptPhase,
    AttemptStatus,
    Escalation,
)
from scaffold.plan.failures.worker_deaths import ASK_AFTER, TELL_AFTER
from scaffold.plan.slot_shares import SlotDemand, SlotUse
from scaffold.store.driver.columns import (
    PROCESS,
    SCORE,
    VERIFICATION,
    read_struct,
    struct_columns,
    usage_columns,
    usage_of,
)
from scaffold.store.driver.connection import Row
from scaffold.store.row_errors import illegal_transition, stale_fence
from scaffold.store.run.agent_questions import FORGET_REPLIES, FORGET_TURNS
from scaffold.store.run.event_log import RunTableGateway

OPEN = """
INSERT INTO attempt (id, run_id, action_id, number, fence, status, phase, outcome, executor, executor_version, model,
                     worker, kind, workspace, worktree, base_sha, start_sha, head_sha, briefing, verification, score,
                     result, edits, input_tokens, cached_input_tokens, output_tokens, cost_usd, requests, log_file,
                     error, alternative, fingerprint, escalation, queued_at, queued_seq, started_at, ended_at)
VALUES (:id, :run_id, :action_id, :number, :fence, :status, :phase, :outcome, :executor, :executor_version, :model,
        :worker, :kind, :workspace, :worktree, :base_sha, :start_sha, :head_sha, :briefing, :verification, :score,
        :result, :edits, :input_tokens, :cached_input_tokens, :output_tokens, :cost_usd, :requests, :log_file, :error,
        :alternative, :fingerprint, :escalation, :queued_at, :queued_seq, :started_at, :ended_at)
ON CONFLICT DO NOTHING
RETURNING id
"""
GET = "SELECT * FROM attempt WHERE id = :id"
LAST_IN_WORKSPACE = """
SELECT * FROM attempt WHERE id = :name OR (workspace = :name AND workspace <> '') ORDER BY queued_seq DESC LIMIT 1
"""
OF_WORKSPACE = "SELECT * FROM attempt WHERE workspace = :name AND workspace <> '' ORDER BY queued_seq"
# The conditions are those of the index `attempt_open_in_workspace`.
OPEN_IN_WORKSPACE = "SELECT 1 FROM attempt WHERE workspace = :name AND workspace <> '' AND status <> 'ended' LIMIT 1"
RECORDED_IN_WORKSPACE = """
SELECT * FROM attempt WHERE workspace = :name AND workspace <> '' AND outcome = 'recorded' ORDER BY queued_seq
"""
GET_WITH_KEY = (
    "SELECT attempt.*, action.key FROM attempt JOIN action ON action.id = attempt.action_id WHERE attempt.id = :id"
)
NEXT_NUMBER = "SELECT COALESCE(MAX(number), 0) + 1 AS number FROM attempt WHERE action_id = :action_id"
OF_ACTION = "SELECT * FROM attempt WHERE action_id = :action_id ORDER BY number"
OF_RUN = "SELECT * FROM attempt WHERE run_id = :run_id ORDER BY queued_seq"
OPEN_OF_RUN = "SELECT * FROM attempt WHERE run_id = :run_id AND status IN ('queued', 'claimed') ORDER BY queued_seq"
QUEUED = "SELECT * FROM attempt WHERE run_id = :run_id AND status = 'queued' ORDER BY queued_seq"
# An attempt that waits for an open item takes no slot. Once the item is closed, the next free slot is for it.
# A step that was handed in keeps its slot until it is recorded, so that the next step of the same work gets it.
SLOTS = """
SELECT action.goal_id, COUNT(works) AS working, COUNT(works) - COUNT(CASE WHEN works = 1 THEN waits_for END) AS held,
       COUNT(works) - COUNT(CASE WHEN inbox.state = 'open' THEN 1 END) AS taken, COUNT(is_candidate) AS candidates
FROM (
    SELECT action_id, waits_for,
           CASE WHEN phase IN ('workspace', 'executing', 'verifying', 'critiquing')
                     OR (phase = 'candidate' AND kind = 'step') THEN 1 END AS works,
           CASE WHEN status = 'claimed' AND phase IN ('candidate', 'landing') THEN 1 END AS is_candidate
    FROM attempt WHERE run_id = :run_id AND status IN ('queued', 'claimed')
) AS attempt JOIN action ON action.id = attempt.action_id LEFT JOIN inbox ON inbox.id = waits_for AND works = 1
GROUP BY action.goal_id
"""
# A row for each active goal, in which no more ready primitives are counted than there are free slots. The order makes
# SQLite use the index of ready actions; otherwise it reads all pending ones.
SLOT_DEMANDS = """
SELECT goal.id, goal.worker_cap, goal.served_seq, goal.deaths, (
    SELECT COUNT(*) FROM (
        SELECT 1 FROM action WHERE action.goal_id = goal.id AND status = 'pending' AND unmet = 0 AND kind = 'primitive'
        ORDER BY position, id LIMIT :free
    ) AS first_ready
) AS ready
FROM goal WHERE run_id = :run_id AND status = 'active' AND deaths < :ask_after
                AND (rests_until IS NULL OR rests_until <= :now OR rests_from > :now)
ORDER BY position
"""
GOAL_OF = """
SELECT goal.id, worker_cap, goal.deaths FROM goal JOIN action ON action.goal_id = goal.id WHERE action.id = :id
"""
WAIT_FOR = "UPDATE attempt SET waits_for = :item_id WHERE id = :id"
CLAIM = """
UPDATE attempt SET status = 'claimed', worker = :worker, worktree = :worktree, log_file = :log_file, started_at = :at
WHERE id = :id AND status = 'queued' AND fence = :fence
"""
HEARTBEAT = "UPDATE attempt SET heartbeat_at = :at, ends_at = :ends_at WHERE id = :id"
# A candidate keeps its queue position; one that was sent back to work gets a new one.
MARK_CONFLICT = "UPDATE attempt SET outcome = 'conflict', error = :error WHERE id = :id AND outcome = 'landed'"
LEAVE_WORKSPACE = "UPDATE attempt SET workspace = '' WHERE workspace = :name"
KEEP_EDITS = "UPDATE attempt SET edits = :edits WHERE id = :id"
FORGET_EDITS = "UPDATE attempt SET edits = NULL WHERE id = :id"
RELOCATE = "UPDATE attempt SET head_sha = :head_sha WHERE id = :id AND outcome = 'landed'"
ADVANCE = """
UPDATE attempt SET phase = :phase, head_sha = COALESCE(:head_sha, head_sha),
       verification = COALESCE(:verification, verification),
       settles_tests = COALESCE(:settles_tests, settles_tests), score = COALESCE(:score, score),
       result = COALESCE(:result, result), edits = COALESCE(:edits, edits), iteration = COALESCE(:iteration, iteration),
       candidate_seq = CASE WHEN :phase = 'candidate' AND phase <> 'candidate'
                            THEN :seq ELSE candidate_seq END
WHERE id = :id AND status = 'claimed' AND fence = :fence AND phase = :was
"""
ADD_USAGE = """
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
CLASSIFY = "UPDATE attempt SET fingerprint = :fingerprint, escalation = :escalation WHERE id = :id"
COUNT_DEATH = "UPDATE action SET deaths = deaths + 1 WHERE id = :id"
# Whatever kills several workers at once is one death of their goal.
COUNT_DEATH_OF_GOAL = """
UPDATE goal SET deaths = deaths + 1, died_seq = :seq
WHERE id = (SELECT goal_id FROM action WHERE id = :id) AND died_seq < :queued_seq
"""
FORGET_DEATHS = "UPDATE action SET deaths = 0 WHERE id = :id AND deaths > 0"
FORGET_DEATHS_OF_GOAL = """
UPDATE goal SET deaths = 0, rests_from = NULL, rests_until = NULL
WHERE id = (SELECT goal_id FROM action WHERE id = :id) AND deaths > 0
"""
COUNT_FAILURE = "UPDATE action SET failures = failures + 1 WHERE id = :id"
IDS_WAITING_TO_LAND = """
SELECT id FROM attempt WHERE run_id = :run_id AND status = 'claimed' AND phase IN ('candidate', 'landing')
ORDER BY candidate_seq
"""
WAITING_TO_LAND = """
SELECT * FROM attempt WHERE run_id = :run_id AND status = 'claimed' AND phase IN ('candidate', 'landing')
ORDER BY candidate_seq
"""


class AgentAnswer(Struct, frozen=True):
    """An agent's final answer in one iteration of an attempt."""

    text: str
    iteration: int
    edits: str | None = None
    """What it asks to change in the steps of its story; None keeps what it asked for before."""


class Attempts(RunTableGateway):
    """The attempts of each action. A caller that gets StaleFence must stop writing."""

    def open(self, attempt: Attempt) -> None:
        """Store a new attempt; raise IllegalTransition if its action or its shared worktree already has an open one."""
        # The number of the event appended below: it orders the attempts even if the wall clock goes back.
        queued_seq = self._events.next_seq(attempt.run_id)
        columns = struct_columns(
            attempt,
            worker=PROCESS.write(attempt.worker),
            verification=VERIFICATION.write(attempt.verification),
            score=SCORE.write(attempt.score),
            escalation=attempt.escalation or "",
            **usage_columns(attempt.usage),
        )
        if not self._connection.write_returning(OPEN, queued_seq=queued_seq, **columns):
            what = f"action {attempt.action_id!r}, or the worktree that it shares, already has an open attempt"
            raise IllegalTransition(what, "Wait for that attempt to end; `scaffold status` shows it.")
        key = self._require_attempt(attempt.id)["key"]
        self._events.append(attempt.run_id, AttemptQueued(key, attempt.number, attempt.base_sha))

    def get(self, attempt_id: AttemptId) -> Attempt | None:
        """Return the attempt; None if there is none."""
        row = self._connection.row(GET, id=attempt_id)
        return None if row is None else _read_attempt(row)

    def is_in_use(self, workspace: str) -> bool:
        """Return whether an attempt in this shared worktree has not ended."""
        return bool(workspace) and self._connection.row(OPEN_IN_WORKSPACE, name=workspace) is not None

    def last_in_workspace(self, name: str) -> Attempt | None:
        """Return the latest attempt whose worktree has this name; None if there is none."""
        row = self._connection.row(LAST_IN_WORKSPACE, name=name)
        return None if row is None else _read_attempt(row)

    def for_workspace(self, name: str) -> tuple[Attempt, ...]:
        """Return the attempts in a shared worktree, oldest first."""
        return tuple(map(_read_attempt, self._connection.rows(OF_WORKSPACE, name=name)))

    def recorded_in_workspace(self, name: str) -> tuple[Attempt, ...]:
        """Return the recorded attempts in a shared worktree, oldest first: the next one begins where the last ended."""
        return tuple(map(_read_attempt, self._connection.rows(RECORDED_IN_WORKSPACE, name=name)))

    def next_number(self, action_id: ActionId) -> int:
        """Return the number for the action's next attempt, from 1."""
        return int(self._connection.rows(NEXT_NUMBER, action_id=action_id)[0]["number"])

    def for_action(self, action_id: ActionId) -> tuple[Attempt, ...]:
        """Return the action's attempts by number."""
        return tuple(map(_read_attempt, self._connection.rows(OF_ACTION, action_id=action_id)))

    def for_run(self, run_id: RunId) -> tuple[Attempt, ...]:
        """Return the run's attempts in the order they were opened."""
        return tuple(map(_read_attempt, self._connection.rows(OF_RUN, run_id=run_id)))

    def open_of_run(self, run_id: RunId) -> tuple[Attempt, ...]:
        """Return the run's attempts that have not ended, in the order they were opened."""
        return tuple(map(_read_attempt, self._connection.rows(OPEN_OF_RUN, run_id=run_id)))

    def queued(self, run_id: RunId) -> tuple[Attempt, ...]:
        """Return the run's attempts that no worker has claimed yet, in the order they were opened."""
        return tuple(map(_read_attempt, self._connection.rows(QUEUED, run_id=run_id)))

    def slots(self, run_id: RunId) -> Mapping[GoalId, SlotUse]:
        """Return the use of slots per goal; goals without an open attempt are omitted."""
        return {
            row["goal_id"]: SlotUse(**{name: int(row[name]) for name in SlotUse.__struct_fields__})
            for row in self._connection.rows(SLOTS, run_id=run_id)
        }

    def slot_demands(self, run_id: RunId, free: int) -> tuple[SlotDemand, ...]:
        """Return the demand of each active goal for up to `free` slots, in the goals' order.

        A goal whose workers died has none during its rest, and none before a human decides.
        """
        taken = {goal: use.taken for goal, use in self.slots(run_id).items()}
        return tuple(
            SlotDemand(
                goal=row["id"],
                working=taken.get(row["id"], 0),
                wanted=min(int(row["ready"]), _attempt_cap(row) - taken.get(row["id"], 0)),
                served=int(row["served_seq"]),
            )
            for row in self._connection.rows(
                SLOT_DEMANDS, run_id=run_id, free=free, ask_after=ASK_AFTER, now=self._now_text()
            )
        )

    def waiting_to_land(self, run_id: RunId) -> tuple[Attempt, ...]:
        """Return the run's candidates, including one that is landing, in the order they became candidates."""
        return tuple(map(_read_attempt, self._connection.rows(WAITING_TO_LAND, run_id=run_id)))

    def ids_waiting_to_land(self, run_id: RunId) -> tuple[AttemptId, ...]:
        """Return the ids of the same candidates: a row has all that its checks showed, so it is long."""
        return tuple(row["id"] for row in self._connection.rows(IDS_WAITING_TO_LAND, run_id=run_id))

    def claim(
        self, attempt_id: AttemptId, *, fence: int, worker: ProcessIdentity, worktree: str, log_file: str
    ) -> None:
        """Assign a queued attempt to a worker process; raise StaleFence if it is not queued or has another fence."""
        self._require_fence(attempt_id, fence, "queued")
        at = self._now_text()
        written = PROCESS.write(worker)
        self._connection.compare_and_set(
            CLAIM, "attempt", attempt_id, fence=fence, worker=written, worktree=worktree, log_file=log_file, at=at
        )

    def advance(
        self,
        attempt_id: AttemptId,
        *,
        fence: int,
        phase: AttemptPhase,
        head_sha: Commit | None = None,
        verification: Verification | None = None,
        score: CriticScore | None = None,
        answer: AgentAnswer | None = None,
    ) -> None:
        """Enter `phase`, or stay in it, and store new values; None keeps the stored value.

        Raises IllegalTransition if the phase would go back, except to `executing` while the worker has the attempt.
        """
        row = self._require_fence(attempt_id, fence, "claimed")
        was: AttemptPhase = row["phase"]
        is_sent_back = phase == "executing" and was in WORKER_PHASES
        if not is_sent_back and PHASES.index(phase) < PHASES.index(was):
            raise illegal_transition("attempt", attempt_id, was, phase)
        self._connection.compare_and_set(
            ADVANCE,
            "attempt",
            attempt_id,
            fence=fence,
            was=row["phase"],
            phase=phase,
            # As with `queued_seq`, the next event's number is the position in the queue of candidates.
            seq=self._events.next_seq(row["run_id"]),
            head_sha=head_sha,
            verification=VERIFICATION.write(verification),
            settles_tests=None if verification is None else int(bool(verification.settled_tests)),
            score=SCORE.write(score),
            result=answer.text if answer else None,
            edits=answer.edits if answer else None,
            iteration=answer.iteration if answer else None,
        )
        if phase == "candidate":
            self.begin_anew(row["action_id"])
        if phase != row["phase"]:
            self._events.append(row["run_id"], AttemptPhaseChanged(row["key"], row["number"], phase))

    def leave_workspace(self, name: str) -> None:
        """Let the attempts in a shared worktree have shared none: the next one there is the first."""
        self._connection.write(LEAVE_WORKSPACE, name=name)

    def keep_edits(self, attempt_id: AttemptId, edits: str, *, fence: int) -> None:
        """Store what a running attempt asks to change in its story, in place of what it asked for before."""
        self._require_fence(attempt_id, fence, "claimed")
        self._connection.write(KEEP_EDITS, id=attempt_id, edits=edits)

    def forget_edits(self, attempt_id: AttemptId) -> None:
        """Forget what the attempt asks to change in its story, because it was settled."""
        self._connection.write(FORGET_EDITS, id=attempt_id)

    def wait_for(self, attempt_id: AttemptId, item_id: str, *, fence: int, most: int) -> bool:
        """Let the attempt wait for the inbox item without a slot; False if `most` others of its run wait already."""
        row = self._require_fence(attempt_id, fence, "claimed")
        waiting = sum(use.working - use.held for use in self.slots(row["run_id"]).values())
        # One that waits already goes on waiting, perhaps for another item, and takes no place more.
        if row["waits_for"] is None and waiting >= most:
            return False
        self._set_wait(row, item_id)
        return True

    def waits(self, attempt_id: AttemptId) -> bool:
        """Return whether the attempt waits, for a human or for a slot to go on."""
        return self._require_attempt(attempt_id)["waits_for"] is not None

    def has_slot(self, attempt_id: AttemptId, *, agents: int) -> bool:
        """Return whether the attempt holds a slot, or can take one now, in a run of so many `agents`."""
        row = self._require_attempt(attempt_id)
        if row["waits_for"] is None:
            return True
        held = {goal: use.held for goal, use in self.slots(row["run_id"]).items()}
        goal = self._connection.require_row(GOAL_OF, "action", row["action_id"])
        return sum(held.values()) < agents and held.get(goal["id"], 0) < _attempt_cap(goal)

    def take_slot(self, attempt_id: AttemptId, *, fence: int, agents: int) -> bool:
        """Let an attempt that has waited go on with a slot; False if `has_slot` is."""
        row = self._require_fence(attempt_id, fence, "claimed")
        if not self.has_slot(attempt_id, agents=agents):
            return False
        self._set_wait(row, None)
        return True

    def _set_wait(self, row: Row, item_id: str | None) -> None:
        # Asked again after a restart, it waits for the same item: that is no event.
        if row["waits_for"] != item_id:
            self._connection.write(WAIT_FOR, id=row["id"], item_id=item_id)
            self._events.append(row["run_id"], AttemptWaitChanged(row["key"], row["number"], item_id))

    def record_heartbeat(self, attempt_id: AttemptId, *, fence: int, at: float, ends_at: float) -> None:
        """Store a heartbeat at the monotonic time `at`, and the time `ends_at` until which the worker may take.

        Raises StaleFence if the attempt ended or was taken over.
        """
        self._require_fence(attempt_id, fence, "claimed")
        self._connection.compare_and_set(HEARTBEAT, "attempt", attempt_id, at=at, ends_at=ends_at)

    def check(self, attempt_id: AttemptId, *, fence: int) -> None:
        """Raise StaleFence unless the attempt is claimed with this fence."""
        self._require_fence(attempt_id, fence, "claimed")

    def account(self, attempt_id: AttemptId, *, usage: Usage, fence: int | None = None) -> None:
        """Add a request's usage. Without `fence` it is added even to an ended attempt, since the money is spent."""
        # Without one, the money is booked whatever has become of the attempt.
        if fence is not None:
            self.check(attempt_id, fence=fence)
        self._connection.compare_and_set(ADD_USAGE, "attempt", attempt_id, **usage_columns(usage))

    def mark_conflict(self, attempt_id: AttemptId, error: str) -> None:
        """Note that the work of a landed attempt is no longer on the branch: it did not fit another base."""
        row = self._require_attempt(attempt_id)
        self._connection.compare_and_set(MARK_CONFLICT, "attempt", attempt_id, error=error)
        self._events.append(row["run_id"], AttemptEnded(row["key"], row["number"], "conflict", error))

    def relocate(self, attempt_id: AttemptId, commit: Commit | None) -> None:
        """Replace the commit of a landed attempt: the branch was carried over to another base.

        None: that base has the change already, and the attempt has no commit of its own any more.
        """
        self._connection.compare_and_set(RELOCATE, "attempt", attempt_id, head_sha=commit)

    def end(
        self,
        attempt_id: AttemptId,
        *,
        outcome: AttemptOutcome,
        error: str | None = None,
        head_sha: Commit | None = None,
        fence: int | None = None,
        died: bool = False,
    ) -> None:
        """End the attempt; a counted failure is added to its action. Raise StaleFence if it has already ended.

        If its worker `died`, that is added to the deaths in a row of its action and its goal.
        """
        row = self._require_fence(attempt_id, fence, "queued", "claimed")
        at = self._now_text()
        self._connection.compare_and_set(
            END, "attempt", attempt_id, fence=row["fence"], outcome=outcome, error=error, head_sha=head_sha, at=at
        )
        if outcome in COUNTED_FAILURES:
            self._connection.write(COUNT_FAILURE, id=row["action_id"])
        if outcome not in CUT_OFF:
            self.begin_anew(row["action_id"])
        if died:
            self._connection.write(COUNT_DEATH, id=row["action_id"])
            seq = self._events.next_seq(row["run_id"])
            self._connection.write(COUNT_DEATH_OF_GOAL, id=row["action_id"], seq=seq, queued_seq=row["queued_seq"])
        # Only deaths in a row say that the work itself kills its workers.
        elif outcome in DEATHLESS_OUTCOMES:
            self._connection.write(FORGET_DEATHS, id=row["action_id"])
            self._connection.write(FORGET_DEATHS_OF_GOAL, id=row["action_id"])
        self._events.append(row["run_id"], AttemptEnded(row["key"], row["number"], outcome, error))

    def begin_anew(self, action_id: ActionId) -> None:
        """Forget what its attempts were doing: the next one does not continue it."""
        for statement in FORGET_TURNS:
            self._connection.write(statement, action_id=action_id)
        self._connection.write(FORGET_REPLIES, scope=action_id)

    def classify(self, attempt_id: AttemptId, *, fingerprint: str, escalation: Escalation) -> None:
        """Store which failure an attempt ended with, and what follows from it."""
        self._connection.write(CLASSIFY, id=attempt_id, fingerprint=fingerprint, escalation=escalation)

    def _require_attempt(self, attempt_id: AttemptId) -> Row:
        return self._connection.require_row(GET_WITH_KEY, "attempt", attempt_id)

    def _require_fence(self, attempt_id: AttemptId, fence: int | None, *statuses: AttemptStatus) -> Row:
        row = self._require_attempt(attempt_id)
        if fence is not None and row["fence"] != fence:
            raise stale_fence("attempt", attempt_id, f"its fence is {row['fence']}, not {fence}")
        if row["status"] not in statuses:
            raise stale_fence("attempt", attempt_id, f"it is {row['status']}, not {' or '.join(statuses)}")
        return row


def _attempt_cap(row: Row) -> int:
    # One at a time, to see whether its workers still die.
    return 1 if int(row["deaths"]) >= TELL_AFTER else int(row["worker_cap"])


def _read_attempt(row: Row) -> Attempt:
    return read_struct(
        Attempt,
        row,
        worker=PROCESS.read(row["worker"]),
        verification=VERIFICATION.read(row["verification"]),
        score=SCORE.read(row["score"]),
        usage=usage_of(row),
        escalation=row["escalation"] or None,
    )
