"""Turns of planners and supervisors: the request, usage and outcome of each."""

from scaffold.core.events import PlanningTurnEnded, PlanningTurnStarted
from scaffold.core.ids import ActionId, GoalId, RunId, TurnId
from scaffold.core.model import PlanningEvent, PlanningTurn, PlanningTurnOutcome, Usage
from scaffold.store.driver.columns import read_struct, struct_columns, usage_columns, usage_of
from scaffold.store.driver.connection import Row
from scaffold.store.row_errors import stale_fence
from scaffold.store.run.event_log import RunTableGateway

ADD_TURN = """
INSERT INTO planning_turn (id, run_id, position, goal_id, action_id, event, model, facts_at_start, input_tokens,
                           cached_input_tokens, output_tokens, cost_usd, requests, log_file, started_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM planning_turn WHERE run_id = :run_id),
        :goal_id, :action_id, :event, :model, (SELECT COUNT(*) FROM fact WHERE goal_id = :goal_id),
        :input_tokens, :cached_input_tokens, :output_tokens, :cost_usd, :requests, :log_file, :started_at)
"""
GET_WITH_NAMES = """
SELECT planning_turn.*, goal.name AS goal, action.key AS action
FROM planning_turn LEFT JOIN goal ON goal.id = planning_turn.goal_id
                   LEFT JOIN action ON action.id = planning_turn.action_id
WHERE planning_turn.id = :id
"""
ADD_USAGE = """
UPDATE planning_turn SET input_tokens = input_tokens + :input_tokens, cost_usd = cost_usd + :cost_usd,
       cached_input_tokens = cached_input_tokens + :cached_input_tokens,
       output_tokens = output_tokens + :output_tokens, requests = requests + :requests
WHERE id = :id
"""
END = "UPDATE planning_turn SET outcome = :outcome, error = :error, ended_at = :at WHERE id = :id AND outcome IS NULL"
OF_RUN = "SELECT * FROM planning_turn WHERE run_id = :run_id ORDER BY position"
OPEN_OF_RUN = "SELECT * FROM planning_turn WHERE run_id = :run_id AND outcome IS NULL ORDER BY position"
# Facts stay counted when refuted: proving and refuting the same assertion again is no progress.
COUNT_WITHOUT_PROGRESS = """
SELECT COUNT(*) AS turns FROM planning_turn
WHERE goal_id = :goal_id AND event = :event AND outcome IN ('done', 'refused', 'failed')
  AND action_id IS NOT DISTINCT FROM :action_id
  AND facts_at_start = (SELECT COUNT(*) FROM fact WHERE goal_id = :goal_id)
"""
COUNT_WITHOUT_PROGRESS_OF_GOAL = """
SELECT COUNT(*) AS turns FROM planning_turn
WHERE goal_id = :goal_id AND event = :event AND outcome IN ('done', 'refused', 'failed')
  AND facts_at_start = (SELECT COUNT(*) FROM fact WHERE goal_id = :goal_id)
"""
RESET_PROGRESS = "UPDATE planning_turn SET facts_at_start = -1 WHERE goal_id = :goal_id"


class PlanningTurns(RunTableGateway):
    """The turns of each run, in the order they started."""

    def begin(self, turn: PlanningTurn) -> None:
        """Store a turn that starts now; its `facts` are counted here."""
        self._connection.write(ADD_TURN, **struct_columns(turn, **usage_columns(turn.usage)))
        row = self._require_turn(turn.id)
        self._events.append(turn.run_id, PlanningTurnStarted(turn.event, row["goal"], row["action"]))

    def check(self, turn_id: TurnId) -> None:
        """Raise StaleFence if the turn has ended."""
        # One whose process was taken for dead has ended, and must spend no more.
        if self._require_turn(turn_id)["outcome"] is not None:
            raise stale_fence("turn", turn_id, "it has ended")

    def account(self, turn_id: TurnId, *, usage: Usage) -> None:
        """Add a request's usage, even to an ended turn, since the money is spent."""
        self._connection.compare_and_set(ADD_USAGE, "turn", turn_id, **usage_columns(usage))

    def end(self, turn_id: TurnId, outcome: PlanningTurnOutcome, *, error: str | None = None) -> None:
        """End a turn; raise StaleFence if it has already ended."""
        row = self._require_turn(turn_id)
        self._connection.compare_and_set(END, "turn", turn_id, outcome=outcome, error=error, at=self._now_text())
        self._events.append(row["run_id"], PlanningTurnEnded(row["event"], row["goal"], row["action"], outcome, error))

    def mark_lost(self, turn_id: TurnId) -> None:
        """End a turn whose process is gone; raise StaleFence if it has already ended."""
        self.end(turn_id, "lost", error="the process that asked has exited")

    def for_run(self, run_id: RunId) -> tuple[PlanningTurn, ...]:
        """Return the run's turns."""
        return tuple(map(_read_turn, self._connection.rows(OF_RUN, run_id=run_id)))

    def open_of_run(self, run_id: RunId) -> tuple[PlanningTurn, ...]:
        """Return the run's turns that have not ended."""
        return tuple(map(_read_turn, self._connection.rows(OPEN_OF_RUN, run_id=run_id)))

    def count_without_progress(self, goal_id: GoalId, event: PlanningEvent, action_id: ActionId | None) -> int:
        """Return how many turns for this event and compound ended since the goal last got a new fact."""
        rows = self._connection.rows(COUNT_WITHOUT_PROGRESS, goal_id=goal_id, event=event, action_id=action_id)
        return int(rows[0]["turns"])

    def count_without_progress_of_goal(self, goal_id: GoalId, event: PlanningEvent) -> int:
        """Return how many turns for this event, for any compound, ended since the goal last got a new fact."""
        return int(self._connection.rows(COUNT_WITHOUT_PROGRESS_OF_GOAL, goal_id=goal_id, event=event)[0]["turns"])

    def reset_progress_count(self, goal_id: GoalId) -> None:
        """Stop counting the goal's past turns as without progress, because a human retries it."""
        self._connection.write(RESET_PROGRESS, goal_id=goal_id)

    def _require_turn(self, turn_id: TurnId) -> Row:
        return self._connection.require_row(GET_WITH_NAMES, "turn", turn_id)


def _read_turn(row: Row) -> PlanningTurn:
    return read_struct(PlanningTurn, row, facts=row["facts_at_start"], usage=usage_of(row))
