"""Endpoints that refused requests: how much may be asked of each, and what is under way to it meanwhile."""

from collections.abc import Iterable

from scaffold.core.ids import Ticket
from scaffold.core.model import ProcessIdentity
from scaffold.core.throttling import FREE, Pace
from scaffold.store.columns import OWNER
from scaffold.store.connection import Connection

PACE = "SELECT parked_until_s, strikes, width, ceiling, successes FROM endpoint WHERE name = :name"
SLOW = """
INSERT INTO endpoint (name, parked_until_s, strikes, width, ceiling, successes)
VALUES (:name, :parked_until_s, :strikes, :width, :ceiling, :successes)
ON CONFLICT (name) DO UPDATE SET parked_until_s = excluded.parked_until_s, strikes = excluded.strikes,
                                 width = excluded.width, ceiling = excluded.ceiling, successes = excluded.successes
"""
FREE_ENDPOINT = "DELETE FROM endpoint WHERE name = :name"
FORGET_TICKETS = "DELETE FROM ticket WHERE endpoint = :name"
TAKE = "INSERT INTO ticket (id, endpoint, owner) VALUES (:id, :endpoint, :owner) ON CONFLICT (id) DO NOTHING"
GIVE_BACK = "DELETE FROM ticket WHERE id = :id"
IN_FLIGHT = "SELECT COUNT(*) AS tickets FROM ticket WHERE endpoint = :endpoint"
OWNERS = "SELECT DISTINCT owner FROM ticket WHERE endpoint = :endpoint"
FORGET_OWNER = "DELETE FROM ticket WHERE endpoint = :endpoint AND owner = :owner"


class Endpoints:
    """The endpoints that are not free; the others, and requests to them, are nowhere written."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def pace(self, name: str) -> Pace:
        """Return how much may be asked of the endpoint; times are seconds since 1970."""
        row = self._connection.row(PACE, name=name)
        return FREE if row is None else Pace(**{column: row[column] for column in row.keys()})  # noqa: SIM118 - a Row

    def set_pace(self, name: str, pace: Pace) -> None:
        """Change how much may be asked of the endpoint; a free one is forgotten, with the tickets of it."""
        if pace.width is None:
            self._connection.write(FREE_ENDPOINT, name=name)
            self._connection.write(FORGET_TICKETS, name=name)
            return
        self._connection.write(
            SLOW,
            name=name,
            parked_until_s=pace.parked_until_s,
            strikes=pace.strikes,
            width=pace.width,
            ceiling=pace.ceiling,
            successes=pace.successes,
        )

    def take(self, name: str, tickets: Iterable[Ticket], owner: ProcessIdentity) -> None:
        """Count requests as under way; those that are counted already stay counted once."""
        written = OWNER.write(owner)
        self._connection.write_each(TAKE, ({"id": each, "endpoint": name, "owner": written} for each in tickets))

    def give_back(self, ticket: Ticket) -> None:
        """Count a request as over."""
        self._connection.write(GIVE_BACK, id=ticket)

    def in_flight(self, name: str) -> int:
        """Return how many requests are counted as under way."""
        return int(self._connection.rows(IN_FLIGHT, endpoint=name)[0]["tickets"])

    def owners(self, name: str) -> tuple[ProcessIdentity, ...]:
        """Return whose requests are under way."""
        return tuple(OWNER.read(row["owner"]) for row in self._connection.rows(OWNERS, endpoint=name))

    def forget_owner(self, name: str, owner: ProcessIdentity) -> None:
        """Count no request of that process any more."""
        self._connection.write(FORGET_OWNER, endpoint=name, owner=OWNER.write(owner))
