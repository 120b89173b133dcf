"""Runs: their owner, state and settings, and the user's open request."""

from scaffold.core.events import RunClaimed, RunStatusChanged
from scaffold.core.ids import Commit, ControlRequestId, RunId
from scaffold.core.model import ControlRequest, ControlRequestKind, ProcessIdentity, Run, Usage
from scaffold.core.run_settings import RunSettings
from scaffold.core.states import RUN_TRANSITIONS, RunState, parse_run_state, reason_of, status_of
from scaffold.store.driver.columns import PROCESS, SETTINGS, format_time, read_struct, struct_columns, usage_of
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.row_errors import illegal_transition, stale_fence
from scaffold.store.run.agent_questions import FORGET_RUN
from scaffold.store.run.event_log import RunTableGateway

ADD_REQUEST = """
INSERT INTO control_request (id, run_id, position, kind, goal_id, action_id, created_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM control_request WHERE run_id = :run_id),
        :kind, :goal_id, :action_id, :at)
"""
OPEN_REQUESTS = "SELECT * FROM control_request WHERE run_id = :run_id AND completed_at IS NULL ORDER BY position"
COMPLETE_REQUEST = "UPDATE control_request SET completed_at = :at WHERE id = :id AND completed_at IS NULL"
ADD = """
INSERT INTO run (id, position, request, input_hash, status, reason, base_branch, base_sha, session_branch,
                 settings, fence, owner, last_seq, created_at, updated_at)
VALUES (:id, (SELECT COALESCE(MAX(position), 0) + 1 FROM run), :request, :input_hash, :status, :reason, :base_branch,
        :base_sha, :session_branch, :settings, :fence, :owner, 0, :created_at, :updated_at)
"""
GET = "SELECT * FROM run WHERE id = :id"
ALL = "SELECT * FROM run ORDER BY touched DESC, position DESC"
LATEST = "SELECT * FROM run ORDER BY touched DESC, position DESC LIMIT 1"
UNDERWAY = """
SELECT * FROM run WHERE status IN ('planning', 'active') OR waits_for <> '' ORDER BY touched DESC, position DESC
"""
# A completed one has work to take only if something has landed.
UNSETTLED = """
SELECT * FROM run
WHERE status IN ('planning', 'active', 'saved', 'paused', 'failed')
   OR (status = 'completed' AND EXISTS (SELECT 1 FROM intent WHERE intent.run_id = run.id AND intent.status = 'done'))
ORDER BY updated_at, position
"""
# One that was only saved has not started.
WITH_METHOD = """
SELECT * FROM run
WHERE status <> 'saved'
  AND EXISTS (SELECT 1 FROM action WHERE run_id = run.id AND kind = 'compound' AND method = :method)
ORDER BY position DESC
"""
BY_PREFIX = "SELECT * FROM run WHERE substr(id, 1, length(:text)) = :text ORDER BY position DESC"
BY_INPUT = "SELECT * FROM run WHERE input_hash = :input_hash ORDER BY position DESC"
SET_STATUS = """
UPDATE run SET status = :status, reason = :reason, updated_at = :at
WHERE id = :id AND status = :was AND fence = :fence
"""
CLAIM = """
UPDATE run SET fence = fence + 1, owner = :owner, heartbeat_at = NULL, waits_for = '', updated_at = :at
WHERE id = :id AND fence = :fence
"""
RELEASE = "UPDATE run SET owner = NULL, waits_for = '', updated_at = :at WHERE id = :id AND fence = :fence"
HAND_OVER = """
UPDATE run SET owner = NULL, waits_for = '', restarter = :restarter, updated_at = :at WHERE id = :id AND fence = :fence
"""
HEARTBEAT = "UPDATE run SET heartbeat_at = :at WHERE id = :id AND fence = :fence"
SET_WAITS_FOR = "UPDATE run SET waits_for = :text WHERE id = :id AND fence = :fence"
SET_SETTINGS = "UPDATE run SET settings = :settings, updated_at = :at WHERE id = :id"
SET_ADVICE = "UPDATE run SET advised_agents = :agents, advice = :why WHERE id = :id AND fence = :fence"
SET_BASE = "UPDATE run SET base_sha = :base_sha, updated_at = :at WHERE id = :id"
SET_CONTROL_REQUEST = """
UPDATE run SET control_request = :request, touched = (SELECT MAX(touched) + 1 FROM run), updated_at = :at WHERE id = :id
"""
# The sum of costs is unknown as soon as one of them is, as in `Usage.__add__`.
SPENT = """
SELECT COALESCE(SUM(input_tokens), 0) AS input_tokens, COALESCE(SUM(cached_input_tokens), 0) AS cached_input_tokens,
       COALESCE(SUM(output_tokens), 0) AS output_tokens, COALESCE(SUM(requests), 0) AS requests,
       CASE WHEN COUNT(*) = COUNT(cost_usd) THEN COALESCE(SUM(cost_usd), 0.0) END AS cost_usd
FROM usage_record WHERE run_id = :run_id
"""


class ControlRequests(TableGateway):
    """The requests about each run's goals and actions, in order; those about a whole run are stored with the run."""

    def add(self, request: ControlRequest) -> None:
        """Store a request for the run's owner."""
        self._connection.write(ADD_REQUEST, **struct_columns(request, at=format_time(request.created_at)))

    def open_of_run(self, run_id: RunId) -> tuple[ControlRequest, ...]:
        """Return the run's requests that are not handled yet."""
        rows = self._connection.rows(OPEN_REQUESTS, run_id=run_id)
        return tuple(read_struct(ControlRequest, row) for row in rows)

    def settle(self, request_id: ControlRequestId) -> None:
        """Mark a request as handled; safe to repeat."""
        self._connection.write(COMPLETE_REQUEST, id=request_id, at=self._now_text())


class Runs(RunTableGateway):
    """The runs of a repository. A run's fence increases with each owner; writes with an older fence are refused."""

    def add(self, run: Run) -> None:
        """Store a new run; the caller appends RunCreated after adding its goals and actions."""
        self._connection.write(
            ADD,
            **struct_columns(
                run,
                status=status_of(run.state),
                reason=reason_of(run.state),
                settings=SETTINGS.write(run.settings),
                owner=PROCESS.write(run.owner),
            ),
        )
        if run.advised_agents is not None:
            self.advise(run.id, run.advised_agents, run.advice, fence=run.fence)

    def get(self, run_id: RunId) -> Run | None:
        """Return the run; None if there is none."""
        row = self._connection.row(GET, id=run_id)
        return None if row is None else _read_run(row)

    def all(self) -> tuple[Run, ...]:
        """Return all runs, the one touched last first."""
        return tuple(map(_read_run, self._connection.rows(ALL)))

    def latest(self) -> Run | None:
        """Return the run that was touched last; None if there is none."""
        row = self._connection.row(LATEST)
        return None if row is None else _read_run(row)

    def underway(self) -> tuple[Run, ...]:
        """Return the runs that are in progress, or were when their owner died; the one touched last comes first."""
        return tuple(map(_read_run, self._connection.rows(UNDERWAY)))

    def unsettled(self) -> tuple[Run, ...]:
        """Return the runs that a human may have to decide about, the one changed last at the end.

        They are in progress, saved, paused, failed, or completed with work that may not have been taken.
        """
        return tuple(map(_read_run, self._connection.rows(UNSETTLED)))

    def with_method(self, method: str) -> tuple[Run, ...]:
        """Return the runs that have started and have a compound with this method, newest first."""
        return tuple(map(_read_run, self._connection.rows(WITH_METHOD, method=method)))

    def by_prefix(self, text: str) -> tuple[Run, ...]:
        """Return the runs whose id starts with `text`, newest first."""
        return tuple(map(_read_run, self._connection.rows(BY_PREFIX, text=text)))

    def by_input(self, input_hash: str) -> tuple[Run, ...]:
        """Return the runs with the same input, newest first."""
        return tuple(map(_read_run, self._connection.rows(BY_INPUT, input_hash=input_hash)))

    def move(self, run_id: RunId, to: RunState, *, fence: int | None = None) -> None:
        """Change the state; raise IllegalTransition if not allowed, StaleFence if `fence` is out of date."""
        row = self._require_fence(run_id, fence)
        status = status_of(to)
        # Read in this transaction, so another process cannot have moved it since.
        if row["status"] not in RUN_TRANSITIONS[status]:
            raise illegal_transition("run", run_id, row["status"], status)
        self._connection.compare_and_set(
            SET_STATUS,
            "run",
            run_id,
            status=status,
            reason=reason_of(to),
            was=row["status"],
            fence=row["fence"],
            at=self._now_text(),
        )
        if status in {"completed", "cancelled"}:  # what was cut off when the goals were reached, or given up
            for statement in FORGET_RUN:
                self._connection.write(statement, run_id=run_id)
        self._events.append(run_id, RunStatusChanged(status, reason_of(to)))

    def take(self, run_id: RunId, owner: ProcessIdentity, *, expected_fence: int) -> int:
        """Make `owner` the owner and return the new fence; raise StaleFence if the run was taken meanwhile."""
        self._require_fence(run_id, expected_fence)
        self._connection.compare_and_set(
            CLAIM, "run", run_id, owner=PROCESS.write(owner), fence=expected_fence, at=self._now_text()
        )
        self._events.append(run_id, RunClaimed(owner.pid, expected_fence + 1))
        return expected_fence + 1

    def release(self, run_id: RunId, *, fence: int) -> None:
        """Remove the run's owner; raise StaleFence if another process has taken the run."""
        self._require_fence(run_id, fence)
        self._connection.compare_and_set(RELEASE, "run", run_id, fence=fence, at=self._now_text())

    def hand_over(self, run_id: RunId, restarter: ProcessIdentity, *, fence: int) -> None:
        """Remove the run's owner: `restarter` starts another; raise StaleFence if another process has taken the run."""
        self._require_fence(run_id, fence)
        self._connection.compare_and_set(
            HAND_OVER, "run", run_id, fence=fence, restarter=PROCESS.write(restarter), at=self._now_text()
        )

    def record_heartbeat(self, run_id: RunId, *, fence: int, at: float) -> None:
        """Store a heartbeat at the monotonic time `at`; raise StaleFence if another process has taken the run."""
        self._require_fence(run_id, fence)
        self._connection.compare_and_set(HEARTBEAT, "run", run_id, fence=fence, at=at)

    def wait_for(self, run_id: RunId, text: str, *, fence: int) -> None:
        """Store what the owner waits for, empty for nothing; raise StaleFence if another process has taken the run."""
        self._require_fence(run_id, fence)
        self._connection.compare_and_set(SET_WAITS_FOR, "run", run_id, fence=fence, text=text)

    def check(self, run_id: RunId, *, fence: int) -> None:
        """Raise StaleFence unless `fence` is current; protects only writes in the same transaction."""
        self._require_fence(run_id, fence)

    def configure(self, run_id: RunId, settings: RunSettings) -> None:
        """Replace the settings that processes read from now on."""
        self._require_fence(run_id, None)
        self._connection.write(SET_SETTINGS, id=run_id, settings=SETTINGS.write(settings), at=self._now_text())

    def advise(self, run_id: RunId, agents: int, why: str, *, fence: int) -> None:
        """Store how many agents the plan deserves; raise StaleFence if another process has taken the run."""
        self._require_fence(run_id, fence)
        self._connection.compare_and_set(SET_ADVICE, "run", run_id, fence=fence, agents=agents, why=why)

    def agents(self, run_id: RunId) -> int:
        """Return how many agents of the run may work at once now."""
        return _read_run(self._connection.require_row(GET, "run", run_id)).agents

    def rebase(self, run_id: RunId, base: Commit) -> None:
        """Replace the commit that the run's work is based on."""
        self._require_fence(run_id, None)
        self._connection.write(SET_BASE, id=run_id, base_sha=base, at=self._now_text())

    def ask(self, run_id: RunId, request: ControlRequestKind | None) -> None:
        """Store a request for the owner; None withdraws it."""
        self._require_fence(run_id, None)
        self._connection.write(SET_CONTROL_REQUEST, id=run_id, request=request, at=self._now_text())

    def answer(self, run_id: RunId, request: ControlRequestKind) -> None:
        """Withdraw this request, because it is answered; a later one of another kind stays."""
        if self.control_request(run_id) == request:
            self.ask(run_id, None)

    def control_request(self, run_id: RunId) -> ControlRequestKind | None:
        """Return the user's open request; None if there is none."""
        request: ControlRequestKind | None = self._connection.require_row(GET, "run", run_id)["control_request"]
        return request

    def spent(self, run_id: RunId) -> Usage:
        """Return the usage of all attempts and turns of the run so far."""
        (row,) = self._connection.rows(SPENT, run_id=run_id)
        return usage_of(row)

    def _require_fence(self, run_id: RunId, fence: int | None) -> Row:
        row = self._connection.require_row(GET, "run", run_id)
        if fence is not None and row["fence"] != fence:
            raise stale_fence("run", run_id, f"its fence is {row['fence']}, not {fence}")
        return row


def _read_run(row: Row) -> Run:
    return read_struct(
        Run,
        row,
        state=parse_run_state(row["status"], row["reason"]),
        settings=SETTINGS.read(row["settings"]),
        owner=PROCESS.read(row["owner"]),
        request_to_owner=row["control_request"],
        restarter=PROCESS.read(row["restarter"]),
    )
