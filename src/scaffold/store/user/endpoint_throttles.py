"""Endpoints with a rate limit: the throttle state of each, and its requests in flight."""

from collections.abc import Iterable

from scaffold.core.ids import Ticket
from scaffold.core.model import ProcessIdentity
from scaffold.core.throttling import UNTHROTTLED, ThrottleState
from scaffold.store.driver.columns import OWNER
from scaffold.store.driver.connection import Connection

GET_STATE = """
SELECT cooldown_until_s, cooldowns, max_in_flight, restore_at, successes FROM endpoint_throttle WHERE name = :name
"""
SET_STATE = """
INSERT INTO endpoint_throttle (name, cooldown_until_s, cooldowns, max_in_flight, restore_at, successes)
VALUES (:name, :cooldown_until_s, :cooldowns, :max_in_flight, :restore_at, :successes)
ON CONFLICT (name) DO UPDATE SET cooldown_until_s = excluded.cooldown_until_s, cooldowns = excluded.cooldowns,
                                 max_in_flight = excluded.max_in_flight, restore_at = excluded.restore_at,
                                 successes = excluded.successes
"""
DELETE_STATE = "DELETE FROM endpoint_throttle WHERE name = :name"
DELETE_TICKETS = "DELETE FROM ticket WHERE endpoint = :name"
ADD_TICKET = "INSERT INTO ticket (id, endpoint, owner) VALUES (:id, :endpoint, :owner) ON CONFLICT (id) DO NOTHING"
DELETE_TICKET = "DELETE FROM ticket WHERE id = :id"
IN_FLIGHT = "SELECT COUNT(*) AS tickets FROM ticket WHERE endpoint = :endpoint"
OWNERS = "SELECT DISTINCT owner FROM ticket WHERE endpoint = :endpoint"
DELETE_TICKETS_OF_OWNER = "DELETE FROM ticket WHERE endpoint = :endpoint AND owner = :owner"


class EndpointThrottles:
    """The rate-limited endpoints; others, and their requests, are not stored."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def state(self, name: str) -> ThrottleState:
        """Return the endpoint's throttle state; times are seconds since 1970."""
        row = self._connection.row(GET_STATE, name=name)
        return UNTHROTTLED if row is None else ThrottleState(**{column: row[column] for column in row.keys()})  # noqa: SIM118 - a Row

    def set_state(self, name: str, state: ThrottleState) -> None:
        """Store the endpoint's throttle state; one without a limit is deleted, with its tickets."""
        if state.max_in_flight is None:
            self._connection.write(DELETE_STATE, name=name)
            self._connection.write(DELETE_TICKETS, name=name)
            return
        self._connection.write(
            SET_STATE,
            name=name,
            cooldown_until_s=state.cooldown_until_s,
            cooldowns=state.cooldowns,
            max_in_flight=state.max_in_flight,
            restore_at=state.restore_at,
            successes=state.successes,
        )

    def take(self, name: str, tickets: Iterable[Ticket], owner: ProcessIdentity) -> None:
        """Count requests as in flight; those already counted are not counted twice."""
        written = OWNER.write(owner)
        self._connection.write_each(ADD_TICKET, ({"id": each, "endpoint": name, "owner": written} for each in tickets))

    def give_back(self, ticket: Ticket) -> None:
        """Count a request as ended."""
        self._connection.write(DELETE_TICKET, id=ticket)

    def in_flight(self, name: str) -> int:
        """Return how many requests are in flight."""
        return int(self._connection.rows(IN_FLIGHT, endpoint=name)[0]["tickets"])

    def owners(self, name: str) -> tuple[ProcessIdentity, ...]:
        """Return the processes with requests in flight."""
        return tuple(OWNER.read(row["owner"]) for row in self._connection.rows(OWNERS, endpoint=name))

    def forget_owner(self, name: str, owner: ProcessIdentity) -> None:
        """Remove all tickets of that process."""
        self._connection.write(DELETE_TICKETS_OF_OWNER, endpoint=name, owner=OWNER.write(owner))
