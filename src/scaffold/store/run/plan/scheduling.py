"""What decides which ready actions may run at the same time: what is open, what landed where, who has waited long."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey, AttemptId, Commit, GoalId, RunId
from scaffold.core.plan import ActionKind, Method, Workspace
from scaffold.core.states import WORKER_PHASES
from scaffold.plan.collisions.layout import SourceLayout
from scaffold.plan.failures.worker_deaths import ASK_AFTER
from scaffold.store.driver.columns import NAMES, JsonColumn
from scaffold.store.driver.connection import Row
from scaffold.store.run.event_log import RunTableGateway

MAX_HOTSPOTS = 2_000
FIRST_PAGE, LARGEST_PAGE = 32, 1_000
"""How many ready actions are read at once: most often the first few may start, as many as there are slots."""

# Reviews change nothing. What is handed in still counts: its work is on no branch yet.
OPEN_WORK = """
SELECT attempt.id AS attempt_id, attempt.kind AS attempt_kind, attempt.phase, attempt.waits_for, attempt.touched,
       attempt.touched_sha, action.id, action.key, action.files, action.workspace, parent.id AS parent_id,
       parent.key AS parent_key, parent.files AS parent_files
FROM attempt JOIN action ON action.id = attempt.action_id
             LEFT JOIN action AS parent ON parent.id = action.parent_id AND action.workspace = 'parent'
WHERE attempt.run_id = :run_id AND attempt.status IN ('queued', 'claimed') AND attempt.kind <> 'review'
ORDER BY attempt.queued_seq
"""
GRANTED = """
SELECT file_grant.action_id, file_grant.path FROM file_grant WHERE action_id IN (
    SELECT action_id FROM attempt WHERE run_id = :run_id AND status IN ('queued', 'claimed'))
"""
# A compound whose steps share its worktree, of which some have ended and the next one can start.
BEGUN = """
SELECT action.id, action.key, action.files, (
    SELECT touched FROM attempt WHERE attempt.workspace = action.id AND attempt.workspace <> ''
    ORDER BY queued_seq DESC LIMIT 1) AS touched
FROM action JOIN goal ON goal.id = action.goal_id
WHERE action.run_id = :run_id AND action.status = 'running' AND action.kind = 'compound' AND goal.status = 'active'
      AND goal.deaths < :ask_after
      AND EXISTS (SELECT 1 FROM attempt WHERE attempt.workspace = action.id AND attempt.workspace <> ''
                                          AND attempt.outcome = 'recorded')
      AND EXISTS (SELECT 1 FROM action AS step WHERE step.parent_id = action.id AND step.status = 'pending'
                                                 AND step.unmet = 0)
ORDER BY +action.position, action.id
"""
COLUMNS = """
SELECT action.id, action.goal_id, action.key, action.kind, action.files, action.role, action.method, action.workspace,
       action.position, parent.id AS parent_id, parent.key AS parent_key, parent.files AS parent_files,
       last.touched, last.touched_sha,
       CASE WHEN action.workspace = 'parent' THEN EXISTS (
           SELECT 1 FROM attempt WHERE attempt.workspace = action.parent_id AND attempt.workspace <> ''
                                   AND attempt.outcome = 'recorded') END AS has_begun
FROM action LEFT JOIN action AS parent ON parent.id = action.parent_id AND action.workspace = 'parent'
            LEFT JOIN attempt AS last ON last.action_id = action.id AND last.number = (
                SELECT MAX(number) FROM attempt WHERE attempt.action_id = action.id)
"""
GET = f"{COLUMNS} WHERE action.id = :id"
# The conditions are those of the index `action_ready`. Without joins: thousands may be read.
READY_PAGE = """
SELECT id, key, kind, files, role, method, workspace, position FROM action
WHERE goal_id = :goal_id AND status = 'pending' AND unmet = 0 AND (position, id) > (:position, :id)
ORDER BY position, id LIMIT :limit
"""
# Those that could start now if nothing were in their way.
HELD_BACK = f"""
SELECT ready.*, held_back.overtaken FROM held_back JOIN ({COLUMNS}
    WHERE action.id IN (SELECT action_id FROM held_back WHERE run_id = :run_id)
          AND action.status = 'pending' AND action.unmet = 0
) AS ready ON ready.id = held_back.action_id JOIN goal ON goal.id = ready.goal_id
WHERE held_back.run_id = :run_id AND held_back.overtaken >= :overtaken
      AND goal.status = 'active' AND goal.deaths < :ask_after
      AND (goal.rests_until IS NULL OR goal.rests_until <= :now OR goal.rests_from > :now)
ORDER BY held_back.since_seq, ready.position, ready.id
"""  # noqa: S608 - our own names
IS_HELD_BACK = "SELECT 1 FROM held_back WHERE action_id = :action_id"
HOLD_BACK = """
INSERT INTO held_back (action_id, run_id, since_seq) VALUES (:action_id, :run_id, :seq)
ON CONFLICT (action_id) DO NOTHING
"""
OVERTAKE = "UPDATE held_back SET overtaken = overtaken + 1 WHERE action_id = :action_id"
START = "DELETE FROM held_back WHERE action_id = :action_id"
# The condition is that of the index `path_hotspot`.
HOTSPOTS = "SELECT path FROM path_landing WHERE run_id = :run_id AND landings > 3 ORDER BY path LIMIT :most"
COUNT_LANDING = """
INSERT INTO path_landing (run_id, path, landings) VALUES (:run_id, :path, 1)
ON CONFLICT (run_id, path) DO UPDATE SET landings = path_landing.landings + 1
"""
TOUCH = """
UPDATE attempt SET touched = :touched, touched_sha = :head WHERE id = :id AND status = 'claimed' AND fence = :fence
"""
FORECASTS = """
SELECT work_forecast.action_id, work_forecast.head_sha, work_forecast.attempt_id, work_forecast.paths
FROM work_forecast JOIN attempt ON attempt.id = work_forecast.attempt_id
WHERE work_forecast.run_id = :run_id AND attempt.status IN ('queued', 'claimed')
      AND attempt.touched_sha = work_forecast.attempt_sha
"""
ADD_FORECAST = """
INSERT INTO work_forecast (run_id, action_id, head_sha, attempt_id, attempt_sha, paths)
VALUES (:run_id, :action_id, :head, :attempt_id, :attempt_head, :paths)
ON CONFLICT (action_id, head_sha, attempt_id, attempt_sha) DO NOTHING
"""
LAYOUT = "SELECT layout FROM source_layout WHERE run_id = :run_id"
LAYOUT_AT = "SELECT 1 FROM source_layout WHERE run_id = :run_id AND base_sha = :base"
SET_LAYOUT = """
INSERT INTO source_layout (run_id, base_sha, layout) VALUES (:run_id, :base, :layout)
ON CONFLICT (run_id) DO UPDATE SET base_sha = excluded.base_sha, layout = excluded.layout
"""
SOURCE_LAYOUT = JsonColumn[SourceLayout](SourceLayout)

_names = functools.lru_cache(maxsize=8192)(NAMES.read)
"""Cached, so that the files of an action that waits are decoded once."""
_layout = functools.lru_cache(maxsize=8)(SOURCE_LAYOUT.read)


class WorkPlace(Struct, frozen=True, kw_only=True):
    """The parts of an action that decide where it works; of a step in a shared worktree, those of its compound, too."""

    id: ActionId
    key: ActionKey
    files: tuple[str, ...]
    workspace: Workspace
    parent_id: ActionId | None
    """Its compound, if it works in the worktree of that; else None."""
    parent_key: ActionKey | None
    parent_files: tuple[str, ...]
    touched: tuple[str, ...]
    """What the committed work of its open or last attempt changes, if its files are unknown."""
    touched_sha: Commit | None
    """That commit."""


class WorkUnderWay(WorkPlace, frozen=True, kw_only=True):
    """An action with an open attempt."""

    attempt_id: AttemptId
    is_at_work: bool
    """Whether an agent works on it: it has not handed in, and does not wait for a human."""
    is_candidate: bool
    granted: tuple[str, ...] = ()
    """What was added to its files."""


class StartableAction(Struct, frozen=True):
    """A pending action that needs nothing more."""

    id: ActionId
    key: ActionKey
    kind: ActionKind
    files: tuple[str, ...]
    role: str
    method: Method
    workspace: Workspace


class WaitingWork(WorkPlace, frozen=True, kw_only=True):
    """An action that is not running, and where it would work."""

    role: str
    method: Method
    has_begun: bool
    """Whether earlier steps have ended in the worktree that it shares."""


class BegunCompound(Struct, frozen=True):
    """A compound between two steps in its worktree."""

    id: ActionId
    key: ActionKey
    files: tuple[str, ...]
    touched: tuple[str, ...]


class Forecast(Struct, frozen=True):
    """The last work of an action, merged in memory with that of an open attempt."""

    action_id: ActionId
    head: Commit
    attempt_id: AttemptId
    paths: tuple[str, ...]
    """Where they conflict; none if they do not."""


class Scheduling(RunTableGateway):
    """What the collision rules are asked with."""

    def open_work(self, run_id: RunId) -> tuple[WorkUnderWay, ...]:
        """Return the actions with an open attempt that changes something, in the order these were opened."""
        rows = self._connection.rows(OPEN_WORK, run_id=run_id)
        granted: dict[str, list[str]] = {}
        for row in self._connection.rows(GRANTED, run_id=run_id) if rows else ():
            granted.setdefault(row["action_id"], []).append(row["path"])
        found = []
        for row in rows:
            phase = row["phase"]
            is_step = row["attempt_kind"] == "step" and phase == "candidate"  # it keeps its slot for the next step
            work = WorkUnderWay(
                **_place_columns(row),
                attempt_id=row["attempt_id"],
                is_at_work=row["waits_for"] is None and (phase in WORKER_PHASES or is_step),
                is_candidate=phase not in WORKER_PHASES,
                granted=tuple(granted.get(row["id"], ())),
            )
            found.append(work)
        return tuple(found)

    def begun(self, run_id: RunId) -> tuple[BegunCompound, ...]:
        """Return the compounds whose next step in their worktree can start, in plan order."""
        rows = self._connection.rows(BEGUN, run_id=run_id, ask_after=ASK_AFTER)
        return tuple(
            BegunCompound(row["id"], row["key"], _names(row["files"]), _names(row["touched"] or "[]")) for row in rows
        )

    def ready(self, goal_id: GoalId) -> Iterator[StartableAction]:
        """Yield the ready actions of a goal in plan order, read in pages as far as they are asked for."""
        position, last, limit = -1, "", FIRST_PAGE
        while True:
            rows = self._connection.rows(READY_PAGE, goal_id=goal_id, position=position, id=last, limit=limit)
            yield from map(_startable_action, rows)
            if len(rows) < limit:
                return
            position, last, limit = rows[-1]["position"], rows[-1]["id"], min(4 * limit, LARGEST_PAGE)

    def placed(self, action_id: ActionId) -> WaitingWork:
        """Return where an action would work, whether it is ready or not."""
        return _placed_action(self._connection.require_row(GET, "action", action_id))

    def held_back(self, run_id: RunId, *, overtaken: int = 0) -> tuple[WaitingWork, ...]:
        """Return the ready actions that are noted as held back, and were overtaken so often, in order of their notes.

        Those of goals that start nothing now are left out.
        """
        at = self._now_text()
        rows = self._connection.rows(HELD_BACK, run_id=run_id, overtaken=overtaken, ask_after=ASK_AFTER, now=at)
        return tuple(map(_placed_action, rows))

    def is_held_back(self, action_id: ActionId) -> bool:
        """Return whether it is noted that the action is held back."""
        return self._connection.row(IS_HELD_BACK, action_id=action_id) is not None

    def hold_back(self, run_id: RunId, action_ids: Iterable[ActionId]) -> None:
        """Note that actions are held back; does nothing for those that are noted."""
        seq = self._events.next_seq(run_id)
        self._connection.write_each(
            HOLD_BACK, ({"action_id": each, "run_id": run_id, "seq": seq} for each in action_ids)
        )

    def start(self, action_id: ActionId, *, overtakes: Iterable[ActionId]) -> None:
        """Note that an action starts, before others that are held back."""
        self._connection.write(START, action_id=action_id)
        self._connection.write_each(OVERTAKE, ({"action_id": each} for each in overtakes))

    def hotspots(self, run_id: RunId) -> tuple[str, ...]:
        """Return the paths that more than three landings of the run have changed."""
        return tuple(row["path"] for row in self._connection.rows(HOTSPOTS, run_id=run_id, most=MAX_HOTSPOTS))

    def count_landing(self, run_id: RunId, paths: Sequence[str]) -> None:
        """Count a landing for each path that it changed."""
        self._connection.write_each(COUNT_LANDING, ({"run_id": run_id, "path": path} for path in dict.fromkeys(paths)))

    def touch(self, attempt_id: AttemptId, paths: Sequence[str], head: Commit, *, fence: int) -> None:
        """Store which paths an attempt's commit changes."""
        touched = NAMES.write(tuple(paths))
        self._connection.compare_and_set(TOUCH, "attempt", attempt_id, touched=touched, head=head, fence=fence)

    def forecasts(self, run_id: RunId) -> tuple[Forecast, ...]:
        """Return the forecasts about the present work of open attempts."""
        return tuple(
            Forecast(row["action_id"], row["head_sha"], row["attempt_id"], NAMES.read(row["paths"]))
            for row in self._connection.rows(FORECASTS, run_id=run_id)
        )

    def add_forecast(self, run_id: RunId, forecast: Forecast, attempt_head: Commit) -> None:
        """Store a forecast about an open attempt whose work was at `attempt_head`."""
        self._connection.write(
            ADD_FORECAST,
            run_id=run_id,
            action_id=forecast.action_id,
            head=forecast.head,
            attempt_id=forecast.attempt_id,
            attempt_head=attempt_head,
            paths=NAMES.write(forecast.paths),
        )

    def layout(self, run_id: RunId) -> SourceLayout:
        """Return where the run has its source; a layout that limits nothing if that was not read yet."""
        row = self._connection.row(LAYOUT, run_id=run_id)
        return SourceLayout() if row is None else _layout(row["layout"])

    def has_layout(self, run_id: RunId, base: Commit) -> bool:
        """Return whether the layout was read at this base."""
        return self._connection.row(LAYOUT_AT, run_id=run_id, base=base) is not None

    def set_layout(self, run_id: RunId, base: Commit, layout: SourceLayout) -> None:
        """Store where the run has its source at its base."""
        self._connection.write(SET_LAYOUT, run_id=run_id, base=base, layout=SOURCE_LAYOUT.write(layout))


def _startable_action(row: Row) -> StartableAction:
    position = row["id"], row["key"], row["kind"], _names(row["files"]), row["role"], row["method"], row["workspace"]
    return StartableAction(*position)


def _placed_action(row: Row) -> WaitingWork:
    return WaitingWork(**_place_columns(row), role=row["role"], method=row["method"], has_begun=bool(row["has_begun"]))


def _place_columns(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "key": row["key"],
        "files": _names(row["files"]),
        "workspace": row["workspace"],
        "parent_id": row["parent_id"],
        "parent_key": row["parent_key"],
        "parent_files": _names(row["parent_files"] or "[]"),
        "touched": _names(row["touched"] or "[]"),
        "touched_sha": row["touched_sha"],
    }
