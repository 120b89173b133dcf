"""Bookings: what each spender used for each attempt and planning turn of a run."""

from scaffold.core.ids import RunId
from scaffold.core.model import Usage
from scaffold.core.spending import Booking, PastCost, Spender
from scaffold.store.driver.columns import usage_columns
from scaffold.store.driver.connection import Connection, Row

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


class Bookings:
    """One row for each run, payer and spender."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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

    def of_run(self, run_id: RunId) -> tuple[Booking, ...]:
        """Return the bookings of a run."""
        return tuple(map(_booking, self._connection.rows(OF_RUN, run_id=run_id)))

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


def _booking(row: Row) -> Booking:
    return Booking(
        payer=row["payer"],
        spender=Spender(row["role"], row["model"]),
        usage=Usage(
            input_tokens=int(row["input_tokens"]),
            cached_input_tokens=int(row["cached_input_tokens"]),
            output_tokens=int(row["output_tokens"]),
            requests=int(row["requests"]),
            cost_usd=None if row["unpriced_requests"] else float(row["known_usd"]),
        ),
        known_usd=float(row["known_usd"]),
    )
