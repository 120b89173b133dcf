"""Accounts: what sessions with a limit have spent."""

from scaffold.store.connection import Connection

BOOK = """
INSERT INTO account (id, spent_usd) VALUES (:id, :usd)
ON CONFLICT (id) DO UPDATE SET spent_usd = account.spent_usd + excluded.spent_usd
"""
SPENT = "SELECT spent_usd FROM account WHERE id = :id"


class Accounts:
    """One sum for each account; it begins with the first thing booked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def book(self, account: str, usd: float) -> None:
        """Add to what was spent."""
        self._connection.write(BOOK, id=account, usd=usd)

    def spent_usd(self, account: str) -> float:
        """Return what was spent so far, 0 for an account nobody knows."""
        row = self._connection.row(SPENT, id=account)
        return 0.0 if row is None else float(row["spent_usd"])
