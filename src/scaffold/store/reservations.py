"""Reservations: money that requests under way may cost, and the line of those who wait for others to settle."""

from msgspec import Struct

from scaffold.core.errors import StoreTrouble
from scaffold.core.ids import ReservationId
from scaffold.core.model import ProcessIdentity
from scaffold.store.columns import OWNER, Calendar, stamp
from scaffold.store.connection import Connection, Row

ASK = """
INSERT INTO reservation (id, account, payer, position, usd, held, owner, at)
VALUES (:id, :account, :payer, (SELECT COALESCE(MAX(position), 0) + 1 FROM reservation WHERE account = :account),
        :usd, 0, :owner, :at)
"""
STANDING = """
SELECT (SELECT COUNT(*) FROM reservation AS earlier WHERE earlier.account = mine.account AND earlier.held = 0
                                                      AND earlier.position < mine.position) AS before,
       (SELECT COALESCE(SUM(usd), 0.0) FROM reservation AS others WHERE others.account = mine.account
                                                                    AND others.held = 1) AS held_usd
FROM reservation AS mine WHERE id = :id
"""
HOLD = "UPDATE reservation SET held = 1 WHERE id = :id"
FREE = "DELETE FROM reservation WHERE id = :id RETURNING *"
OF_ACCOUNT = "SELECT * FROM reservation WHERE account = :account ORDER BY position"


class Reservation(Struct, frozen=True, kw_only=True):
    """Money for one request."""

    id: ReservationId
    account: str
    """Whose limit it counts against: all reservations of an account stand in one line."""
    payer: str
    """On whom the request is booked."""
    usd: float | None
    """None where no price is known; it counts as nothing."""
    held: bool = False
    """Whether the money is set aside; otherwise it is waited for."""
    owner: ProcessIdentity


class Reservations:
    """The reservations of each account, in the order they were asked for."""

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self._clock = clock

    def ask(self, wanted: Reservation) -> None:
        """Stand in line, behind everybody who waits already."""
        self._connection.write(
            ASK,
            id=wanted.id,
            account=wanted.account,
            payer=wanted.payer,
            usd=wanted.usd,
            owner=OWNER.write(wanted.owner),
            at=stamp(self._clock.now()),
        )

    def is_next(self, reservation: ReservationId, room_usd: float) -> bool:
        """Tell whether nobody waits before it, and what the others hold leaves some of `room_usd`.

        StoreTrouble if there is no such reservation any more.
        """
        row = self._connection.row(STANDING, id=reservation)
        if row is None:
            raise StoreTrouble(
                "a reservation is gone before its request began: another process took this one for dead",
                "Give each machine, and each container that hides its processes, a database of its own.",
            )
        return bool(row["before"] == 0 and row["held_usd"] < room_usd)

    def hold(self, reservation: ReservationId, room_usd: float) -> bool:
        """Set the money aside if it is next in line; False if it has to wait."""
        admitted = self.is_next(reservation, room_usd)
        if admitted:
            self._connection.write(HOLD, id=reservation)
        return admitted

    def free(self, reservation: ReservationId) -> Reservation | None:
        """Give the money back, or leave the line, and return what it was; None if that was done before."""
        rows = self._connection.write_returning(FREE, id=reservation)
        return _reservation(rows[0]) if rows else None

    def of_account(self, account: str) -> tuple[Reservation, ...]:
        """Return the account's reservations, held and waiting, in order."""
        return tuple(map(_reservation, self._connection.rows(OF_ACCOUNT, account=account)))


def _reservation(row: Row) -> Reservation:
    return Reservation(
        id=row["id"],
        account=row["account"],
        payer=row["payer"],
        usd=row["usd"],
        held=bool(row["held"]),
        owner=OWNER.read(row["owner"]),
    )
