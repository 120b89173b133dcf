"""Wishes: what humans asked of goals and actions, until the run's owner has done it."""

from scaffold.core.ids import RunId, WishId
from scaffold.core.model import Wish
from scaffold.store.columns import Calendar, moment, stamp
from scaffold.store.connection import Connection, Row

ADD = """
INSERT INTO wish (id, run_id, position, kind, goal_id, action_id, created_at)
VALUES (:id, :run_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM wish WHERE run_id = :run_id), :kind, :goal_id,
        :action_id, :at)
"""
OPEN_OF_RUN = "SELECT * FROM wish WHERE run_id = :run_id AND settled_at IS NULL ORDER BY position"
SETTLE = "UPDATE wish SET settled_at = :at WHERE id = :id AND settled_at IS NULL"


class Wishes:
    """The wishes about goals and actions of each run, in the order they came; those about runs are the run's own."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock

    def add(self, wish: Wish) -> None:
        """Leave a wish for the run's owner to find."""
        self._connection.write(
            ADD,
            id=wish.id,
            run_id=wish.run_id,
            kind=wish.kind,
            goal_id=wish.goal_id,
            action_id=wish.action_id,
            at=stamp(wish.created_at),
        )

    def open_of_run(self, run_id: RunId) -> tuple[Wish, ...]:
        """Return the run's wishes that nobody has done yet."""
        return tuple(map(_wish, self._connection.rows(OPEN_OF_RUN, run_id=run_id)))

    def settle(self, wish_id: WishId) -> None:
        """Mark a wish as done; nothing changes if it is already."""
        self._connection.write(SETTLE, id=wish_id, at=stamp(self._clock.now()))


def _wish(row: Row) -> Wish:
    return Wish(
        id=row["id"],
        run_id=row["run_id"],
        kind=row["kind"],
        goal_id=row["goal_id"],
        action_id=row["action_id"],
        created_at=moment(row["created_at"]),
    )
