"""Reservations of budget for requests in flight, the queue of waiting requests, and the totals of each account."""

from msgspec import Struct

from scaffold.core.errors import StoreError
from scaffold.core.ids import ReservationId, RunId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.spending import AccountTotals, Amount, Booking, PastCost, Spender
from scaffold.store.driver.columns import OWNER, usage_columns
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway

MAX_PAST_RUNS = 20
BOOK = """
INSERT INTO booking (run_id, payer, role, model, input_tokens, cached_input_tokens, output_tokens, requests, known_usd,
                     unpriced_requests)
VALUES (:run_id, :payer, :role, :model, :input_tokens, :cached_input_tokens, :output_tokens, :requests, :known_usd,
        :unpriced)
ON CONFLICT (run_id, payer, role, model) DO UPDATE
SET input_tokens = booking.input_tokens + excluded.input_tokens,
    cached_input_tokens = booking.cached_input_tokens + excluded.cached_input_tokens,
    output_tokens = booking.output_tokens + excluded.output_tokens,
    requests = booking.requests + excluded.requests,
    known_usd = booking.known_usd + excluded.known_usd,
    unpriced_requests = booking.unpriced_requests + excluded.unpriced_requests
"""
# The sums are about all that these runs used, also at other models.
PAST_COSTS = """
SELECT booking.run_id, SUM(input_tokens - cached_input_tokens + output_tokens) AS tokens, SUM(known_usd) AS usd,
       SUM(unpriced_requests) AS unpriced, MAX(worked.actions) AS actions
FROM booking JOIN (SELECT run_id, COUNT(DISTINCT action_id) AS actions FROM attempt
                   WHERE model = :model AND requests > 0 GROUP BY run_id) AS worked ON worked.run_id = booking.run_id
             JOIN run ON run.id = booking.run_id
WHERE booking.run_id <> :but
GROUP BY booking.run_id HAVING SUM(input_tokens - cached_input_tokens + output_tokens) > 0
ORDER BY MAX(run.position) DESC LIMIT :most
"""
OF_RUN = "SELECT * FROM booking WHERE run_id = :run_id ORDER BY payer, role, model"
ENQUEUE = """
INSERT INTO reservation (id, account, payer, position, amount_usd, input_tokens, cached_input_tokens, output_tokens,
                         tries, role, model, granted, owner, at)
VALUES (:id, :account, :payer, (SELECT COALESCE(MAX(position), 0) + 1 FROM reservation WHERE account = :account),
        :cost_usd, :input_tokens, :cached_input_tokens, :output_tokens, :tries, :role, :model, 0, :owner, :at)
"""
# In order of arrival, whatever their size: otherwise a large request could be overtaken for ever.
BEFORE = """
SELECT COUNT(earlier.id) AS before FROM reservation AS mine
LEFT JOIN reservation AS earlier ON earlier.account = mine.account AND earlier.granted = 0
                                AND earlier.position < mine.position
WHERE mine.id = :id GROUP BY mine.id
"""
HELD = """
SELECT COALESCE(SUM(amount_usd), 0.0) AS usd,
       COALESCE(SUM(input_tokens - cached_input_tokens + output_tokens), 0) AS tokens
FROM reservation WHERE account = :account AND granted = 1 AND id <> :but
"""
GRANT = "UPDATE reservation SET granted = 1 WHERE id = :id"
SET_TRIES = "UPDATE reservation SET tries = :tries WHERE id = :id"
GROW = "UPDATE reservation SET tries = :tries, amount_usd = :usd, output_tokens = :output_tokens WHERE id = :id"
RELEASE = "DELETE FROM reservation WHERE id = :id RETURNING *"
OF_ACCOUNT = "SELECT * FROM reservation WHERE account = :account ORDER BY position"
ADD_SPENT = """
INSERT INTO budget_account (id, spent_usd, spent_tokens, estimated_tokens, error_tokens)
VALUES (:id, :usd, :tokens, :estimated, :error)
ON CONFLICT (id) DO UPDATE
SET spent_usd = budget_account.spent_usd + excluded.spent_usd,
    spent_tokens = budget_account.spent_tokens + excluded.spent_tokens,
    estimated_tokens = budget_account.estimated_tokens + excluded.estimated_tokens,
    error_tokens = budget_account.error_tokens + excluded.error_tokens
"""
TOTALS = "SELECT * FROM budget_account WHERE id = :id"


class Bookings(TableGateway):
    """One row for each run, payer and spender."""

    def book(self, run_id: RunId, payer: str, spender: Spender, usage: Usage) -> None:
        """Add the usage of one or more requests; an unknown cost stays unknown, and what is known is kept."""
        columns = usage_columns(usage)
        del columns["cost_usd"]
        self._connection.write(
            BOOK,
            run_id=run_id,
            payer=payer,
            role=spender.role,
            model=spender.model,
            **columns,
            known_usd=usage.cost_usd or 0.0,
            unpriced=max(1, usage.requests) if usage.cost_usd is None else 0,
        )

    def for_run(self, run_id: RunId) -> tuple[Booking, ...]:
        """Return the bookings of a run."""
        return tuple(
            Booking(
                payer=row["payer"],
                spender=Spender(row["role"], row["model"]),
                usage=Usage(
                    input_tokens=int(row["input_tokens"]),
                    cached_input_tokens=int(row["cached_input_tokens"]),
                    output_tokens=int(row["output_tokens"]),
                    requests=int(row["requests"]),
                    # Unknown as soon as that of one request is.
                    cost_usd=None if row["unpriced_requests"] else float(row["known_usd"]),
                ),
                known_usd=float(row["known_usd"]),
            )
            for row in self._connection.rows(OF_RUN, run_id=run_id)
        )

    def past_costs(self, model: str, *, but: RunId, most: int = MAX_PAST_RUNS) -> tuple[PastCost, ...]:
        """Return what an action cost in each of the latest runs whose work this model did, except in `but`.

        A run that used no tokens, as replayed ones may, says nothing.
        """
        rows = self._connection.rows(PAST_COSTS, model=model, but=but, most=most)
        return tuple(
            PastCost(
                int(row["tokens"]) / int(row["actions"]),
                None if row["unpriced"] else float(row["usd"]) / int(row["actions"]),
            )
            for row in rows
        )


class Reservation(Struct, frozen=True, kw_only=True):
    """The estimated usage of one request."""

    id: ReservationId
    account: str
    """The account with the limit; its reservations form one queue."""
    payer: str
    """The id that the request's actual usage is booked on."""
    spender: Spender
    estimate: Usage
    """Of one try; a cost of None, as the price is unknown, counts as 0."""
    tries: int = 1
    """How many tries of the request may have been billed, the one under way included; 0 while it waits unsent."""
    granted: bool = False
    """True once its estimate is reserved; False while waiting in the queue."""
    owner: ProcessIdentity


class Reservations(TableGateway):
    """The reservations of each account, in the order they were requested."""

    def ask(self, reservation: Reservation) -> None:
        """Append the reservation to its account's queue."""
        estimate = usage_columns(reservation.estimate)
        del estimate["requests"]
        self._connection.write(
            ENQUEUE,
            id=reservation.id,
            account=reservation.account,
            payer=reservation.payer,
            **estimate,
            tries=reservation.tries,
            role=reservation.spender.role,
            model=reservation.spender.model,
            owner=OWNER.write(reservation.owner),
            at=self._now_text(),
        )

    def is_next(self, reservation: Reservation, room: Amount) -> bool:
        """Return whether the reservation is first in the queue and granted ones total less than `room`, in both units.

        Raises StoreError if the reservation no longer exists.
        """
        row = self._connection.row(BEFORE, id=reservation.id)
        if row is None:
            raise StoreError(
                "another process released this reservation because it considered this process dead",
                "Use a separate database for each machine, and for each container with its own process ids.",
            )
        held = self.held(reservation.account)
        return bool(row["before"] == 0 and held.usd < room.usd and held.tokens < room.tokens)

    def hold(self, reservation: Reservation, room: Amount) -> bool:
        """Grant the reservation if it is next; return False if it has to wait."""
        admitted = self.is_next(reservation, room)
        # In the same transaction as the check, so no other request can take the room between.
        if admitted:
            self._connection.write(GRANT, id=reservation.id)
        return admitted

    def held(self, account: str, *, but: str = "") -> Amount:
        """Return what granted reservations of the account have set aside, `but` one."""
        (row,) = self._connection.rows(HELD, account=account, but=but)
        return Amount(float(row["usd"]), int(row["tokens"]))

    def set_tries(self, reservation: ReservationId, tries: int, estimate: Usage | None = None) -> None:
        """Store how many tries of the request may have been billed, and how long a reply they have by now."""
        if estimate is None:
            self._connection.write(SET_TRIES, id=reservation, tries=tries)
        else:
            grown = {"usd": estimate.cost_usd, "output_tokens": estimate.output_tokens}
            self._connection.write(GROW, id=reservation, tries=tries, **grown)

    def free(self, reservation: ReservationId) -> Reservation | None:
        """Remove a granted or waiting reservation and return it; None if it was already removed."""
        rows = self._connection.write_returning(RELEASE, id=reservation)
        return _read_reservation(rows[0]) if rows else None

    def for_account(self, account: str) -> tuple[Reservation, ...]:
        """Return the account's reservations, granted and waiting, in order."""
        return tuple(map(_read_reservation, self._connection.rows(OF_ACCOUNT, account=account)))


def _read_reservation(row: Row) -> Reservation:
    return Reservation(
        id=row["id"],
        account=row["account"],
        payer=row["payer"],
        spender=Spender(row["role"], row["model"]),
        estimate=Usage(
            input_tokens=row["input_tokens"],
            cached_input_tokens=row["cached_input_tokens"],
            output_tokens=row["output_tokens"],
            cost_usd=row["amount_usd"],
            requests=1,
        ),
        tries=row["tries"],
        granted=bool(row["granted"]),
        owner=OWNER.read(row["owner"]),
    )


class BudgetAccounts(TableGateway):
    """The totals of each account; the first booking creates it."""

    def book(self, account: str, usage: Usage, *, error_tokens: int = 0) -> None:
        """Add the usage to the account's totals; `error_tokens` says how wrong its estimate was."""
        self._connection.write(
            ADD_SPENT,
            id=account,
            usd=usage.cost_usd or 0.0,
            tokens=usage.counted_tokens,
            estimated=usage.estimated_tokens,
            error=error_tokens,
        )

    def totals(self, account: str) -> AccountTotals:
        """Return what is booked on the account; nothing for an unknown one."""
        row = self._connection.row(TOTALS, id=account)
        if row is None:
            return AccountTotals()
        return AccountTotals(
            spent=Amount(float(row["spent_usd"]), int(row["spent_tokens"])),
            estimated_tokens=int(row["estimated_tokens"]),
            error_tokens=int(row["error_tokens"]),
        )
