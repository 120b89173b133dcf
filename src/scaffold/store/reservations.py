"""Reservations of budget for requests in flight, the queue of waiting requests, and what sessions spent."""

from msgspec import Struct

from scaffold.core.errors import StoreError
from scaffold.core.ids import ReservationId
from scaffold.core.model import ProcessIdentity
from scaffold.store.driver.columns import OWNER, format_time
from scaffold.store.driver.connection import Connection, Row
from scaffold.store.driver.gateway import TableGateway

ENQUEUE = """
INSERT INTO reservation (id, account, payer, position, amount_usd, granted, owner, at)
VALUES (:id, :account, :payer, (SELECT COALESCE(MAX(position), 0) + 1 FROM reservation WHERE account = :account),
        :usd, 0, :owner, :at)
"""
QUEUE_POSITION = """
SELECT (SELECT COUNT(*) FROM reservation AS earlier WHERE earlier.account = mine.account AND earlier.granted = 0
                                                      AND earlier.position < mine.position) AS before,
       (SELECT COALESCE(SUM(amount_usd), 0.0) FROM reservation AS others WHERE others.account = mine.account
                                                                    AND others.granted = 1) AS held_usd
FROM reservation AS mine WHERE id = :id
"""
GRANT = "UPDATE reservation SET granted = 1 WHERE id = :id"
RELEASE = "DELETE FROM reservation WHERE id = :id RETURNING *"
OF_ACCOUNT = "SELECT * FROM reservation WHERE account = :account ORDER BY position"

ADD_SPENT = """
INSERT INTO budget_account (id, spent_usd) VALUES (:id, :usd)
ON CONFLICT (id) DO UPDATE SET spent_usd = budget_account.spent_usd + excluded.spent_usd
"""
SPENT = "SELECT spent_usd FROM budget_account WHERE id = :id"


class Reservation(Struct, frozen=True, kw_only=True):
    """The estimated cost of one request."""

    id: ReservationId
    account: str
    """The account with the limit; its reservations form one queue."""
    payer: str
    """The id that the request's actual cost is booked on."""
    usd: float | None
    """None if the price is unknown; counts as 0."""
    granted: bool = False
    """True once the money is reserved; False while waiting in the queue."""
    owner: ProcessIdentity


class Reservations(TableGateway):
    """The reservations of each account, in the order they were requested."""

    def ask(self, reservation: Reservation) -> None:
        """Append the reservation to its account's queue."""
        self._connection.write(
            ENQUEUE,
            id=reservation.id,
            account=reservation.account,
            payer=reservation.payer,
            usd=reservation.usd,
            owner=OWNER.write(reservation.owner),
            at=format_time(self._clock.now()),
        )

    def is_next(self, reservation: ReservationId, room_usd: float) -> bool:
        """Return whether the reservation is first in the queue and granted ones total less than `room_usd`.

        Raises StoreError if the reservation no longer exists.
        """
        row = self._connection.row(QUEUE_POSITION, id=reservation)
        if row is None:
            raise StoreError(
                "another process released this reservation because it considered this process dead",
                "Use a separate database for each machine, and for each container with its own process ids.",
            )
        return bool(row["before"] == 0 and row["held_usd"] < room_usd)

    def hold(self, reservation: ReservationId, room_usd: float) -> bool:
        """Grant the reservation if it is next; return False if it has to wait."""
        admitted = self.is_next(reservation, room_usd)
        if admitted:
            self._connection.write(GRANT, id=reservation)
        return admitted

    def free(self, reservation: ReservationId) -> Reservation | None:
        """Remove a granted or waiting reservation and return it; None if it was already removed."""
        rows = self._connection.write_returning(RELEASE, id=reservation)
        return _reservation(rows[0]) if rows else None

    def of_account(self, account: str) -> tuple[Reservation, ...]:
        """Return the account's reservations, granted and waiting, in order."""
        return tuple(map(_reservation, self._connection.rows(OF_ACCOUNT, account=account)))


def _reservation(row: Row) -> Reservation:
    return Reservation(
        id=row["id"],
        account=row["account"],
        payer=row["payer"],
        usd=row["amount_usd"],
        granted=bool(row["granted"]),
        owner=OWNER.read(row["owner"]),
    )


class BudgetAccounts:
    """One sum per account; the first booking creates the account."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def book(self, account: str, usd: float) -> None:
        """Add `usd` to the account's sum."""
        self._connection.write(ADD_SPENT, id=account, usd=usd)

    def spent_usd(self, account: str) -> float:
        """Return the sum spent so far; 0 for an unknown account."""
        row = self._connection.row(SPENT, id=account)
        return 0.0 if row is None else float(row["spent_usd"])
