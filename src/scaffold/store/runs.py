"""Runs: who owns them, where they stand, what the user wishes of them."""

from typing import Literal

from scaffold.core.events import RunMoved, RunTaken
from scaffold.core.ids import RunId
from scaffold.core.model import ProcessIdentity, Run, RunSettings, Usage
from scaffold.core.states import RUN_MOVES, RunState, goal_state, reason_of, status_of
from scaffold.store.columns import PROCESS, SETTINGS, Calendar, moment, stamp, usage_of
from scaffold.store.connection import Connection, Row
from scaffold.store.events import Events
from scaffold.store.refusals import illegal_move, stale_fence

RunWish = Literal["stop", "pause", "cancel"]
"""What a user asked of a run that another process carries out."""

ADD = """
INSERT INTO run (id, position, request, input_hash, status, reason, base_branch, base_sha, session_branch,
                 settings, fence, owner, last_seq, created_at, updated_at)
VALUES (:id, (SELECT COALESCE(MAX(position), 0) + 1 FROM run), :request, :input_hash, :status, :reason, :base_branch,
        :base_sha, :session_branch, :settings, :fence, :owner, 0, :created_at, :updated_at)
"""
GET = "SELECT * FROM run WHERE id = :id"
ALL = "SELECT * FROM run ORDER BY position DESC"
LATEST = "SELECT * FROM run ORDER BY position DESC LIMIT 1"
BY_PREFIX = "SELECT * FROM run WHERE substr(id, 1, length(:text)) = :text ORDER BY position DESC"
BY_INPUT = "SELECT * FROM run WHERE input_hash = :input_hash ORDER BY position DESC"
MOVE = """
UPDATE run SET status = :status, reason = :reason, updated_at = :at
WHERE id = :id AND status = :was AND fence = :fence
"""
TAKE = """
UPDATE run SET fence = fence + 1, owner = :owner, beat = NULL, updated_at = :at WHERE id = :id AND fence = :fence
"""
RELEASE = "UPDATE run SET owner = NULL, updated_at = :at WHERE id = :id AND fence = :fence"
BEAT = "UPDATE run SET beat = :at WHERE id = :id AND fence = :fence"
CONFIGURE = "UPDATE run SET settings = :settings, updated_at = :at WHERE id = :id"
ASK = "UPDATE run SET wish = :wish, updated_at = :at WHERE id = :id"
# The sum of costs is unknown as soon as one of them is, as in `Usage.__add__`.
SPENT = """
SELECT COALESCE(SUM(input_tokens), 0) AS input_tokens, COALESCE(SUM(cached_input_tokens), 0) AS cached_input_tokens,
       COALESCE(SUM(output_tokens), 0) AS output_tokens, COALESCE(SUM(requests), 0) AS requests,
       CASE WHEN COUNT(*) = COUNT(cost_usd) THEN COALESCE(SUM(cost_usd), 0.0) END AS cost_usd
FROM payment WHERE run_id = :run_id
"""
PAID = "SELECT COALESCE(SUM(cost_usd), 0.0) AS usd FROM payment WHERE run_id = :run_id"
RESERVED = "SELECT COALESCE(SUM(usd), 0.0) AS usd FROM reservation WHERE account = :run_id AND held = 1"


class Runs:
    """The runs of a repository; a run's fence rises with each owner, and whoever names an older one is refused."""

    def __init__(self, connection: Connection, clock: Calendar, events: Events) -> None:
        self._connection = connection
        self._clock = clock
        self._events = events

    def add(self, run: Run) -> None:
        """Store a new run; the caller appends RunOpened once its goals and actions are in."""
        self._connection.write(
            ADD,
            id=run.id,
            request=run.request,
            input_hash=run.input_hash,
            status=status_of(run.state),
            reason=reason_of(run.state),
            base_branch=run.base_branch,
            base_sha=run.base_sha,
            session_branch=run.session_branch,
            settings=SETTINGS.write(run.settings),
            fence=run.fence,
            owner=PROCESS.write(run.owner),
            created_at=stamp(run.created_at),
            updated_at=stamp(run.updated_at),
        )

    def get(self, run_id: RunId) -> Run | None:
        """Return the run, None if there is none."""
        row = self._connection.row(GET, id=run_id)
        return None if row is None else _run(row)

    def all(self) -> tuple[Run, ...]:
        """Return every run, the one added last first."""
        return tuple(map(_run, self._connection.rows(ALL)))

    def latest(self) -> Run | None:
        """Return the run added last, None if there is none."""
        row = self._connection.row(LATEST)
        return None if row is None else _run(row)

    def by_prefix(self, text: str) -> tuple[Run, ...]:
        """Return the runs whose id starts with `text`, the one added last first."""
        return tuple(map(_run, self._connection.rows(BY_PREFIX, text=text)))

    def by_input(self, input_hash: str) -> tuple[Run, ...]:
        """Return the runs of the same input, the one added last first."""
        return tuple(map(_run, self._connection.rows(BY_INPUT, input_hash=input_hash)))

    def move(self, run_id: RunId, to: RunState, *, fence: int | None = None) -> None:
        """Change the state; IllegalMove if there is no way from here, StaleFence if `fence` is not the current one."""
        row = self._fenced(run_id, fence)
        status = status_of(to)
        if row["status"] not in RUN_MOVES[status]:
            raise illegal_move("run", run_id, row["status"], status)
        self._connection.swap(
            MOVE,
            "run",
            run_id,
            status=status,
            reason=reason_of(to),
            was=row["status"],
            fence=row["fence"],
            at=stamp(self._clock.now()),
        )
        self._events.append(run_id, RunMoved(status, reason_of(to)))

    def take(self, run_id: RunId, owner: ProcessIdentity, *, expected_fence: int) -> int:
        """Make `owner` the owner and return the new fence; StaleFence if somebody else took the run since."""
        self._fenced(run_id, expected_fence)
        self._connection.swap(
            TAKE, "run", run_id, owner=PROCESS.write(owner), fence=expected_fence, at=stamp(self._clock.now())
        )
        self._events.append(run_id, RunTaken(owner.pid, expected_fence + 1))
        return expected_fence + 1

    def release(self, run_id: RunId, *, fence: int) -> None:
        """Leave the run without an owner; StaleFence if it is somebody else's by now."""
        self._fenced(run_id, fence)
        self._connection.swap(RELEASE, "run", run_id, fence=fence, at=stamp(self._clock.now()))

    def beat(self, run_id: RunId, *, fence: int, at: float) -> None:
        """Give a sign of life at the monotonic time `at`; StaleFence if the run is somebody else's by now."""
        self._fenced(run_id, fence)
        self._connection.swap(BEAT, "run", run_id, fence=fence, at=at)

    def check(self, run_id: RunId, *, fence: int) -> None:
        """Return if `fence` is the current one, else StaleFence; binds only inside the transaction that it guards."""
        self._fenced(run_id, fence)

    def configure(self, run_id: RunId, settings: RunSettings) -> None:
        """Replace the settings that later processes go by."""
        self._fenced(run_id, None)
        self._connection.write(CONFIGURE, id=run_id, settings=SETTINGS.write(settings), at=stamp(self._clock.now()))

    def ask(self, run_id: RunId, wish: RunWish | None) -> None:
        """Leave a wish for the owner to find; None takes it back."""
        self._fenced(run_id, None)
        self._connection.write(ASK, id=run_id, wish=wish, at=stamp(self._clock.now()))

    def wish(self, run_id: RunId) -> RunWish | None:
        """Return the user's open wish, None if there is none."""
        wish: RunWish | None = self._connection.held(GET, "run", run_id)["wish"]
        return wish

    def spent(self, run_id: RunId) -> Usage:
        """Return what all attempts and turns of the run used so far."""
        (row,) = self._connection.rows(SPENT, run_id=run_id)
        return usage_of(row)

    def paid_usd(self, run_id: RunId) -> float:
        """Return the known part of what all attempts and turns of the run cost so far."""
        return float(self._connection.rows(PAID, run_id=run_id)[0]["usd"])

    def reserved(self, run_id: RunId) -> float:
        """Return how many dollars are set aside for requests under way; those of unknown price count as nothing."""
        return float(self._connection.rows(RESERVED, run_id=run_id)[0]["usd"])

    def _fenced(self, run_id: RunId, fence: int | None) -> Row:
        row = self._connection.held(GET, "run", run_id)
        if fence is not None and row["fence"] != fence:
            raise stale_fence("run", run_id, f"its fence is {row['fence']}, not {fence}")
        return row


def _run(row: Row) -> Run:
    return Run(
        id=row["id"],
        request=row["request"],
        input_hash=row["input_hash"],
        state=goal_state(row["status"], row["reason"]),
        base_branch=row["base_branch"],
        base_sha=row["base_sha"],
        session_branch=row["session_branch"],
        settings=SETTINGS.read(row["settings"]),
        fence=row["fence"],
        owner=PROCESS.read(row["owner"]),
        beat=row["beat"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
    )
