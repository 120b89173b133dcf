"""The tokens of a login of the user, in the user's database: read, renewed by one process for all, replaced, deleted.

A refresh token works once; a second use ends the login. So a process takes a lock that all share, checks that the
stored token is still the one it read, uses it, and stores the new tokens before it does anything else.
"""

import asyncio
import base64
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct, structs

from scaffold.core.errors import ModelAccessDenied, ModelError, ScaffoldError
from scaffold.core.ports import Clock
from scaffold.host.atomic_files import FileLock
from scaffold.llm.transport.live_context import AccessToken
from scaffold.login.keys import PASSPHRASE, LoginKey, LoginKeys
from scaffold.login.state import SUBSCRIPTION, LoginEnded, LoginName, LoginOverview, lock_file, not_logged_in
from scaffold.login.token_endpoint import GrantRefused
from scaffold.login.tokens import Tokens
from scaffold.policy.secret.redaction import learn_secrets
from scaffold.store.user.logins import StoredLogin
from scaffold.store.user_store import UserStore

NONCE_BYTES = 12
VERSION = b"scaffold login 1"
LOCK_S = 40.0  # how long to wait for another process that renews the tokens; longer than its request may take
GRACE_S = 4.0  # how long an interrupted renewal may go on, so that its result is stored
NEW_S = 60.0  # a token that was renewed so recently is not renewed because a server refuses it


class SealBroken(ValueError):
    """The tokens cannot be decrypted: another key, another account, or damage."""


class Logout(Struct, frozen=True):
    """How a logout went."""

    account: str
    revoked: bool
    """Whether the provider said that it revoked the login."""
    left: str
    """What could not be deleted, as a sentence; empty if nothing is left."""


class GrantEndpoint(Protocol):
    """The endpoint that gives tokens for tokens."""

    async def renew(self, tokens: Tokens) -> Tokens:
        """Return the next tokens; GrantRefused if there will be none, ModelError if there are none now."""
        ...

    async def revoke(self, tokens: Tokens) -> bool:
        """Ask for the end of the login; return whether the server confirmed it."""
        ...


class StoredTokens:
    """The tokens of one login of one user; implements `TokenSource`, but for `account`."""

    def __init__(
        self,
        user: UserStore,
        keys: LoginKeys,
        endpoint: GrantEndpoint,
        *,
        clock: Clock,
        data: Path,
        name: LoginName = SUBSCRIPTION,
    ) -> None:
        """Read them from `user`; `data` is the user's private data folder."""
        self._user = user
        self._name = name
        self._provider = name.provider
        self._keys = keys
        self._endpoint = endpoint
        self._clock = clock
        self._lock = lock_file(data, name)
        self._known_keys: dict[tuple[str, str], bytes] = {}
        self._seen: dict[str, None] = {}

    async def current(self) -> AccessToken:
        """Return a token that has not expired, renewed if it is about to; ModelError if there is none to be had."""
        login = self._stored_login()
        tokens = await self._open_tokens(login)
        if not tokens.is_due(self._clock.now()):
            return _access_token(tokens)
        try:
            return _access_token(await self._renew_once(tokens.access))
        except ModelError as error:
            if error.transient and not tokens.has_expired(self._clock.now()):
                return _access_token(tokens)  # it is still good for a while
            raise

    async def renewed(self, refused: AccessToken) -> AccessToken | None:
        """Return a token to use in place of one that a server refused; None if the refused one is new itself."""
        login = self._stored_login()
        tokens = await self._open_tokens(login)
        now = self._clock.now()
        # A clock that was set back says nothing about the age of a token.
        is_new = login.renewals > 0 and timedelta() <= now - tokens.received_at < timedelta(seconds=NEW_S)
        if tokens.access == refused.token and is_new and not tokens.has_expired(now):
            return None
        return _access_token(await self._renew_once(refused.token))

    async def opened(self) -> Tokens:
        """Return the tokens as they are stored; ModelAccessDenied if there are none that can be read."""
        return await self._open_tokens(self._stored_login())

    async def want(self, scope: str) -> None:
        """Keep what the next login is to ask for."""
        async with FileLock(self._lock, timeout_s=LOCK_S):
            login = self._stored_login()
            tokens = structs.replace(await self._open_tokens(login), wanted=scope)
            sealed = seal(tokens, self._known_keys[login.key_place, login.key_name], self._provider)
            with self._user.transaction(durable=True):
                self._user.logins.keep(self._provider, sealed)

    def secrets(self) -> Sequence[str]:
        """Return the tokens that this process has seen."""
        return tuple(self._seen)

    async def overview(self) -> LoginOverview | None:
        """Return what can be said of the login; None if there is none."""
        login = self._user.logins.find(self._provider)
        if login is None:
            return None
        place = login.key_place, login.key_name
        seen = LoginOverview(account=login.account, key=self._keys.where(*place), renewed_at=login.renewed_at)
        try:
            tokens = await self._open_tokens(self._stored_login())
        except ModelAccessDenied as error:
            return structs.replace(seen, problem=error.what, fix=error.fix)
        return structs.replace(seen, email=tokens.email, plan=tokens.plan, expires_at=tokens.expires_at)

    async def store(self, tokens: Tokens) -> LoginKey:
        """Store a new login's tokens with their own key, in place of any others; KeyTrouble if no key can be stored."""
        self._remember_secrets(tokens)
        async with FileLock(self._lock, timeout_s=LOCK_S):
            key = await asyncio.to_thread(self._keys.create)
            sealed = seal(tokens, key.secret, self._provider)
            with self._user.transaction(durable=True):
                before = self._user.logins.find(self._provider)
                self._user.logins.replace(
                    self._provider, tokens.account, sealed, key_place=key.place, key_name=key.name
                )
            self._user.logins.empty_log()
            if before is not None:
                await asyncio.to_thread(self._keys.delete, before.key_place, before.key_name)
        return key

    async def log_out(self) -> Logout | None:
        """Delete the login for good, after asking the provider to revoke it; None if there is none."""
        async with FileLock(self._lock, timeout_s=LOCK_S):
            login = self._user.logins.find(self._provider)
            if login is None:
                return None
            try:
                revoked = not login.ended and await self._endpoint.revoke(await self._open_tokens(login))
            except ModelAccessDenied:  # the key is gone, so the tokens cannot be read
                revoked = False
            finally:
                left = await self._delete_login(login)
        return Logout(login.account, revoked, left)

    async def _delete_login(self, login: StoredLogin) -> str:
        with self._user.transaction(durable=True):
            self._user.logins.delete(self._provider)
        emptied = self._user.logins.empty_log()
        left = await asyncio.to_thread(self._keys.delete, login.key_place, login.key_name)
        # Without its key, what another process keeps in the log is worthless, unless there is a passphrase.
        log = "" if emptied or login.key_place != "passphrase" else "Encrypted tokens stay in the database's log until "
        return " ".join(filter(None, (left, log and f"{log}other processes have closed it.")))

    def _stored_login(self) -> StoredLogin:
        login = self._user.logins.find(self._provider)
        if login is None:
            raise ModelAccessDenied(*not_logged_in(self._name))
        if login.ended:
            raise LoginEnded(login, self._name)
        return login

    async def _open_tokens(self, login: StoredLogin) -> Tokens:
        place = login.key_place, login.key_name
        if place not in self._known_keys:
            key = await asyncio.to_thread(self._keys.read, *place)
            learn_secrets([base64.b64encode(key).decode()])
            self._known_keys[place] = key
        try:
            tokens = unseal(login.tokens, self._known_keys[place], self._provider, login.account)
        except SealBroken as error:
            del self._known_keys[place]
            what, fix = "they or their key are damaged", f"Log in again with `{self._name.command}`."
            if login.key_place == "passphrase":
                what = "the passphrase is another one, or they are damaged"
                fix = f"Set {PASSPHRASE} as it was at `{self._name.command}`, or log in again."
            raise ModelAccessDenied(f"the tokens of the login cannot be decrypted: {what}", fix) from error
        self._remember_secrets(tokens)
        return tokens

    async def _renew_once(self, stale: str) -> Tokens:
        # A renewal that has begun is finished even if its caller is cancelled: the old token is void by then.
        renewal = asyncio.ensure_future(self._renew_locked(stale))
        try:
            return await asyncio.shield(renewal)
        except asyncio.CancelledError:
            await asyncio.wait({renewal}, timeout=GRACE_S)
            renewal.cancel()
            raise

    async def _renew_locked(self, stale: str) -> Tokens:
        try:
            async with FileLock(self._lock, timeout_s=LOCK_S):
                login = self._stored_login()
                tokens = await self._open_tokens(login)
                if tokens.access != stale:
                    return tokens  # another process has done it
                return await self._use_refresh_token(login, tokens)
        except ModelError:
            raise
        except ScaffoldError as error:
            raise ModelError(f"the login cannot be renewed: {error.what}", error.fix, transient=True) from error

    async def _use_refresh_token(self, login: StoredLogin, tokens: Tokens) -> Tokens:
        # Durable: it also shows, before the refresh token is used up, that what comes of it can be stored.
        with self._user.transaction(durable=True):
            self._user.logins.begin_renewal(self._provider)
        try:
            fresh = await self._endpoint.renew(tokens)
        except GrantRefused as refusal:
            self._end_login(login, refusal)
            raise LoginEnded(self._user.logins.find(self._provider) or login, self._name) from refusal
        # Nothing may come in between: until they are stored, these tokens exist only here.
        sealed = seal(fresh, self._known_keys[login.key_place, login.key_name], self._provider)
        with self._user.transaction(durable=True):
            self._user.logins.renew(self._provider, sealed)
        self._remember_secrets(fresh)
        return fresh

    def _end_login(self, login: StoredLogin, refusal: GrantRefused) -> None:
        # The reason is kept: the user reads it at the next request, perhaps days later.
        reason = "the provider no longer accepts it: it expired or was revoked"
        if login.renewing_since is not None:
            since = f"{login.renewing_since:%Y-%m-%d %H:%M} UTC"
            reason = f"a process was interrupted while it renewed the tokens ({since}), and the new ones were lost"
        elif refusal.reused:
            reason = "the provider says that its refresh token was used before, so another program has a copy of it"
        with self._user.transaction(durable=True):
            self._user.logins.end(self._provider, reason)
        self._user.logins.empty_log()

    def _remember_secrets(self, tokens: Tokens) -> None:
        self._seen |= dict.fromkeys(filter(None, (tokens.access, tokens.refresh, tokens.client.secret)))
        learn_secrets(self._seen)


def _access_token(tokens: Tokens) -> AccessToken:
    return AccessToken(tokens.access, tokens.account)


def seal(tokens: Tokens, key: bytes, provider: str) -> bytes:
    """Return a new random nonce and the encrypted tokens; only the same key, provider and account open them."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, msgspec.json.encode(tokens), _bound_data(provider, tokens.account))


def unseal(sealed: bytes, key: bytes, provider: str, account: str) -> Tokens:
    """Return the tokens; SealBroken if they were encrypted with another key, for another account, or are damaged."""
    try:
        plain = AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _bound_data(provider, account))
        return msgspec.json.decode(plain, type=Tokens)
    except (InvalidTag, ValueError, msgspec.MsgspecError) as error:
        raise SealBroken(provider) from error


def _bound_data(provider: str, account: str) -> bytes:
    return b"\0".join((VERSION, provider.encode(), account.encode()))
