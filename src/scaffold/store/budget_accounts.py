"""Budget accounts: how much sessions with a limit have spent."""

from scaffold.store.driver.connection import Connection

ADD_SPENT = """
INSERT INTO budget_account (id, spent_usd) VALUES (:id, :usd)
ON CONFLICT (id) DO UPDATE SET spent_usd = budget_account.spent_usd + excluded.spent_usd
"""
SPENT = "SELECT spent_usd FROM budget_account WHERE id = :id"


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
