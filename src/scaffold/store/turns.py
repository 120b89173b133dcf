"""Turns of planners and supervisors: what each was asked about, what it used, and whether anything came of it."""

from scaffold.core.events import TurnBegan, TurnEnded
from scaffold.core.ids import ActionId, GoalId, RunId, TurnId
from scaffold.core.model import PlanningEvent, Turn, TurnOutcome, Usage
from scaffold.store.columns import Calendar, moment, moment_if_any, stamp, usage_columns, usage_of
from scaffold.store.connection import Connection, Row
from scaffold.store.events import Events
from scaffold.store.refusals import stale_fence

BEGIN = """
INSERT INTO turn (id, run_id, position, goal_id, action_id, event, facts, input_tokens, cached_input_tokens,
                  output_tokens, cost_usd, requests, log_file, started_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM turn WHERE run_id = :run_id), :goal_id, :action_id,
        :event, (SELECT COUNT(*) FROM fact WHERE goal_id = :goal_id), :input_tokens, :cached_input_tokens,
        :output_tokens, :cost_usd, :requests, :log_file, :started_at)
"""
HELD = """
SELECT turn.*, goal.name AS goal, action.key AS action FROM turn LEFT JOIN goal ON goal.id = turn.goal_id
                                                            LEFT JOIN action ON action.id = turn.action_id
WHERE turn.id = :id
"""
ACCOUNT = """
UPDATE turn SET input_tokens = input_tokens + :input_tokens, cost_usd = cost_usd + :cost_usd,
       cached_input_tokens = cached_input_tokens + :cached_input_tokens,
       output_tokens = output_tokens + :output_tokens, requests = requests + :requests
WHERE id = :id
"""
END = "UPDATE turn SET outcome = :outcome, error = :error, ended_at = :at WHERE id = :id AND outcome IS NULL"
OF_RUN = "SELECT * FROM turn WHERE run_id = :run_id ORDER BY position"
OPEN_OF_RUN = "SELECT * FROM turn WHERE run_id = :run_id AND outcome IS NULL ORDER BY position"
# A fact once shown stays counted, whatever becomes of it: who shows and refutes the same one makes no progress.
FRUITLESS = """
SELECT COUNT(*) AS turns FROM turn
WHERE goal_id = :goal_id AND event = :event AND outcome IN ('done', 'refused', 'failed')
  AND action_id IS NOT DISTINCT FROM :action_id
  AND facts = (SELECT COUNT(*) FROM fact WHERE goal_id = :goal_id)
"""
FRUITLESS_OF_GOAL = """
SELECT COUNT(*) AS turns FROM turn
WHERE goal_id = :goal_id AND event = :event AND outcome IN ('done', 'refused', 'failed')
  AND facts = (SELECT COUNT(*) FROM fact WHERE goal_id = :goal_id)
"""
FORGIVE = "UPDATE turn SET facts = -1 WHERE goal_id = :goal_id"


class Turns:
    """The turns of each run, in the order they began."""

    def __init__(self, connection: Connection, clock: Calendar, events: Events) -> None:
        self._connection = connection
        self._clock = clock
        self._events = events

    def begin(self, turn: Turn) -> None:
        """Store a turn that begins now; its `facts` are counted here."""
        self._connection.write(
            BEGIN,
            id=turn.id,
            run_id=turn.run_id,
            goal_id=turn.goal_id,
            action_id=turn.action_id,
            event=turn.event,
            **usage_columns(turn.usage),
            log_file=turn.log_file,
            started_at=stamp(turn.started_at),
        )
        row = self._held(turn.id)
        self._events.append(turn.run_id, TurnBegan(turn.event, row["goal"], row["action"]))

    def check(self, turn_id: TurnId) -> None:
        """Return if the turn goes on, else StaleFence: somebody else ended it."""
        if self._held(turn_id)["outcome"] is not None:
            raise stale_fence("turn", turn_id, "it was ended")

    def account(self, turn_id: TurnId, *, usage: Usage) -> None:
        """Add what a request used, whatever became of the turn: what is spent is spent."""
        self._connection.swap(ACCOUNT, "turn", turn_id, **usage_columns(usage))

    def end(self, turn_id: TurnId, outcome: TurnOutcome, *, error: str | None = None) -> None:
        """End a turn; StaleFence if it is over."""
        row = self._held(turn_id)
        self._connection.swap(END, "turn", turn_id, outcome=outcome, error=error, at=stamp(self._clock.now()))
        self._events.append(row["run_id"], TurnEnded(row["event"], row["goal"], row["action"], outcome, error))

    def lose(self, turn_id: TurnId) -> None:
        """End a turn whose process is gone; StaleFence if it is over."""
        self.end(turn_id, "lost", error="the process that asked is gone")

    def of_run(self, run_id: RunId) -> tuple[Turn, ...]:
        """Return the run's turns."""
        return tuple(map(_turn, self._connection.rows(OF_RUN, run_id=run_id)))

    def open_of_run(self, run_id: RunId) -> tuple[Turn, ...]:
        """Return the run's turns that go on."""
        return tuple(map(_turn, self._connection.rows(OPEN_OF_RUN, run_id=run_id)))

    def fruitless(self, goal_id: GoalId, event: PlanningEvent, action_id: ActionId | None) -> int:
        """Return how many turns about this ended since the goal last had something new shown."""
        rows = self._connection.rows(FRUITLESS, goal_id=goal_id, event=event, action_id=action_id)
        return int(rows[0]["turns"])

    def fruitless_of_goal(self, goal_id: GoalId, event: PlanningEvent) -> int:
        """Return the same whatever compound they were about."""
        return int(self._connection.rows(FRUITLESS_OF_GOAL, goal_id=goal_id, event=event)[0]["turns"])

    def forgive(self, goal_id: GoalId) -> None:
        """Count none of the goal's turns as fruitless any more: a human gives it another chance."""
        self._connection.write(FORGIVE, goal_id=goal_id)

    def _held(self, turn_id: TurnId) -> Row:
        return self._connection.held(HELD, "turn", turn_id)


def _turn(row: Row) -> Turn:
    return Turn(
        id=row["id"],
        run_id=row["run_id"],
        goal_id=row["goal_id"],
        action_id=row["action_id"],
        event=row["event"],
        facts=row["facts"],
        outcome=row["outcome"],
        error=row["error"],
        usage=usage_of(row),
        log_file=row["log_file"],
        started_at=moment(row["started_at"]),
        ended_at=moment_if_any(row["ended_at"]),
    )
