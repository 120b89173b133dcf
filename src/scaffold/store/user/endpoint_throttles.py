"""Endpoints that are limited or had failures: the throttle state of each, and its requests in flight."""

from collections.abc import Iterable, Mapping

from msgspec import structs

from scaffold.core.ids import Ticket
from scaffold.core.model import ProcessIdentity
from scaffold.core.throttling import UNTHROTTLED, ThrottleState
from scaffold.store.driver.columns import OWNER
from scaffold.store.driver.connection import Connection, Row

COLUMNS = tuple(field.name for field in structs.fields(ThrottleState))
GET_STATE = f"SELECT {', '.join(COLUMNS)} FROM endpoint_throttle WHERE name = :name"  # noqa: S608 - our own names
ALL_STATES = f"SELECT name, {', '.join(COLUMNS)} FROM endpoint_throttle ORDER BY name"  # noqa: S608 - our own names
SET_STATE = f"""
INSERT INTO endpoint_throttle (name, {", ".join(COLUMNS)}) VALUES (:name, {", ".join(f":{each}" for each in COLUMNS)})
ON CONFLICT (name) DO UPDATE SET {", ".join(f"{each} = excluded.{each}" for each in COLUMNS)}
"""  # noqa: S608 - our own names
DELETE_STATE = "DELETE FROM endpoint_throttle WHERE name = :name"
DELETE_TICKETS = "DELETE FROM ticket WHERE endpoint = :name"
ADD_TICKET = "INSERT INTO ticket (id, endpoint, owner) VALUES (:id, :endpoint, :owner) ON CONFLICT (id) DO NOTHING"
DELETE_TICKET = "DELETE FROM ticket WHERE id = :id"
IN_FLIGHT = "SELECT COUNT(*) AS tickets FROM ticket WHERE endpoint = :endpoint"
OWNERS = "SELECT DISTINCT owner FROM ticket WHERE endpoint = :endpoint"
DELETE_TICKETS_OF_OWNER = "DELETE FROM ticket WHERE endpoint = :endpoint AND owner = :owner"


class EndpointThrottles:
    """The endpoints that are limited or had failures; others, and their requests, are not stored."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def state(self, name: str) -> ThrottleState:
        """Return the endpoint's throttle state; times are seconds since 1970."""
        row = self._connection.row(GET_STATE, name=name)
        return UNTHROTTLED if row is None else _read_state(row)

    def states(self) -> Mapping[str, ThrottleState]:
        """Return the states of all endpoints that are limited or had failures, by name."""
        return {row["name"]: _read_state(row) for row in self._connection.rows(ALL_STATES)}

    def set_state(self, name: str, state: ThrottleState) -> None:
        """Store the endpoint's throttle state; without a limit its tickets are deleted."""
        if state.max_in_flight is None:
            self._connection.write(DELETE_TICKETS, name=name)
        if state == UNTHROTTLED:
            self._connection.write(DELETE_STATE, name=name)
        else:
            self._connection.write(SET_STATE, name=name, **structs.asdict(state))

    def lift(self, name: str) -> bool:
        """End the endpoint's cooldown, and keep its limit of requests; return whether it had one."""
        state = self.state(name)
        self.set_state(name, structs.replace(state, cooldown_until_s=0.0))
        return state.cooldown_until_s > 0.0

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


def _read_state(row: Row) -> ThrottleState:
    return ThrottleState(**{column: row[column] for column in COLUMNS})
