"""The user's logins at providers; their tokens are encrypted before they come here."""

from datetime import datetime

from msgspec import Struct

from scaffold.store.driver.columns import read_struct
from scaffold.store.driver.gateway import TableGateway

FIND = "SELECT * FROM login WHERE provider = :provider"
REPLACE = """
INSERT INTO login (provider, account, tokens, key_place, key_name, renewals, renewing_since, ended, created_at,
                   renewed_at)
VALUES (:provider, :account, :tokens, :key_place, :key_name, 0, NULL, '', :at, :at)
ON CONFLICT (provider) DO UPDATE SET account = excluded.account, tokens = excluded.tokens,
    key_place = excluded.key_place, key_name = excluded.key_name, renewals = 0, renewing_since = NULL, ended = '',
    created_at = excluded.created_at, renewed_at = excluded.renewed_at
"""
BEGIN_RENEWAL = "UPDATE login SET renewing_since = :at WHERE provider = :provider"
RENEW = """
UPDATE login SET tokens = :tokens, renewals = renewals + 1, renewing_since = NULL, renewed_at = :at
WHERE provider = :provider
"""
KEEP = "UPDATE login SET tokens = :tokens WHERE provider = :provider"
END = "UPDATE login SET tokens = :tokens, renewing_since = NULL, ended = :reason WHERE provider = :provider"
DELETE = "DELETE FROM login WHERE provider = :provider"


class StoredLogin(Struct, frozen=True, kw_only=True):
    """A login; the repr shows no tokens, which are encrypted anyway."""

    account: str
    """The account's id at the provider."""
    tokens: bytes
    """Encrypted; empty once the login has ended."""
    key_place: str
    key_name: str
    """Where the key is, and its name there."""
    renewals: int
    """How often the tokens were renewed."""
    renewing_since: datetime | None
    """When a renewal began whose end is unknown; None if all are known."""
    ended: str
    """Why the provider no longer accepts it, as a clause; empty while it does."""
    created_at: datetime
    renewed_at: datetime

    def __repr__(self) -> str:
        return f"StoredLogin({self.account!r})"


class Logins(TableGateway):
    """At most one login for each provider."""

    def find(self, provider: str) -> StoredLogin | None:
        """Return the login; None if the user is not logged in."""
        row = self._connection.row(FIND, provider=provider)
        return None if row is None else read_struct(StoredLogin, row)

    def replace(self, provider: str, account: str, tokens: bytes, *, key_place: str, key_name: str) -> None:
        """Store a new login in place of any other one."""
        self._connection.write(
            REPLACE,
            provider=provider,
            account=account,
            tokens=tokens,
            key_place=key_place,
            key_name=key_name,
            at=self._now_text(),
        )

    def begin_renewal(self, provider: str) -> None:
        """Note that the refresh token is about to be used."""
        self._connection.write(BEGIN_RENEWAL, provider=provider, at=self._now_text())

    def renew(self, provider: str, tokens: bytes) -> None:
        """Replace the tokens by those that the provider gave for them."""
        self._connection.write(RENEW, provider=provider, tokens=tokens, at=self._now_text())

    def keep(self, provider: str, tokens: bytes) -> None:
        """Replace the tokens by the same ones, with something else that is kept with them."""
        self._connection.write(KEEP, provider=provider, tokens=tokens)

    def end(self, provider: str, reason: str) -> None:
        """Delete the tokens, and keep why."""
        self._connection.write(END, provider=provider, tokens=b"", reason=reason)

    def delete(self, provider: str) -> None:
        """Delete the login for good; then `empty_log` outside of the transaction."""
        self._connection.write(DELETE, provider=provider)

    def empty_log(self) -> bool:
        """Remove what deleted tokens have left in the write-ahead log; False if other processes read it now."""
        return self._connection.driver.empty_log()
