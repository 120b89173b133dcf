"""Who may use the server: links that work once, sessions, and the password of a server that others can reach."""

import hashlib
import os
import secrets
from collections import deque
from collections.abc import Mapping
from hmac import compare_digest
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.host.atomic_files import write_atomic

Kept = TypeVar("Kept")
MAX_SESSIONS = 64
MAX_LINKS = 64
MIN_PASSWORD_CHARS = 12
MAX_WRONG = 5
WRONG_WITHIN_S = 60.0
"""So many wrong passwords within this time, from anywhere, and the next ones are not even looked at."""


class Session(Struct, frozen=True):
    """What one browser may do until the server ends."""

    csrf: str
    may_act: bool


class Access:
    """The open links and the sessions of one server, in memory: both end with it.

    Only hashes of what opens a door are kept, and they are compared in constant time.
    """

    def __init__(self, *, may_act: bool, password: "StoredPassword | None") -> None:
        """`may_act`: False for a server on which nothing can be changed; `password`: None if none is asked for."""
        self.password = password
        self._may_act = may_act
        self._links: dict[str, bool] = {}
        self._sessions: dict[str, Session] = {}
        self._wrong: deque[float] = deque(maxlen=MAX_WRONG)
        self._notes: dict[str, str] = {}

    def new_link(self, *, may_act: bool) -> str:
        """Return a token that opens one session, to change things with `may_act`."""
        token = secrets.token_urlsafe(32)
        _keep_limited(self._links, token, may_act and self._may_act, MAX_LINKS)
        return token

    def open_by_link(self, token: str) -> str | None:
        """Use up a link and return the secret of its new session; None if the token is unknown, or was used before."""
        key = _find_key(self._links, token)
        return None if key is None else self._new_session(may_act=self._links.pop(key))

    def open_by_password(self, given: str, now: float) -> str | None:
        """Return the secret of a new session; None if the password is wrong, or too many were; `now` in seconds."""
        is_locked = len(self._wrong) == MAX_WRONG and now - self._wrong[0] < WRONG_WITHIN_S
        if self.password is None or is_locked:
            return None
        if not self.password.fits(given):
            self._wrong.append(now)
            return None
        return self._new_session(may_act=self._may_act)

    def session_of(self, secret: str) -> Session | None:
        """Return the session that the secret of a cookie belongs to."""
        key = _find_key(self._sessions, secret)
        return None if key is None else self._sessions[key]

    def tell(self, session: Session, note: str) -> None:
        """Keep what the session's next page says about its last change."""
        self._notes[session.csrf] = note

    def take_note(self, session: Session) -> str:
        """Return that note, and forget it; empty without one."""
        return self._notes.pop(session.csrf, "")

    def _new_session(self, *, may_act: bool) -> str:
        secret = secrets.token_urlsafe(32)
        _keep_limited(self._sessions, secret, Session(secrets.token_urlsafe(32), may_act), MAX_SESSIONS)
        return secret


class StoredPassword(Struct, frozen=True):
    """A password as it is stored: salted, and derived with scrypt."""

    salt: str
    hash: str

    def fits(self, given: str) -> bool:
        """Return whether this is the password."""
        return compare_digest(_derive_hash(given, self.salt), self.hash)


def read_password(config: Path) -> StoredPassword | None:
    """Return the password of the user whose configuration folder this is; None if none was set."""
    try:
        return msgspec.json.decode(_password_file(config).read_bytes(), type=StoredPassword)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        what = f"the password of `scaffold serve` cannot be read: {error}"
        raise UsageError(what, "Set it again with `scaffold serve --set-password`.") from error


def store_password(config: Path, password: str) -> Path:
    """Store the hash of a password, readable by its user alone, and return the file."""
    if len(password) < MIN_PASSWORD_CHARS:
        raise UsageError("the password is too short", f"Use {MIN_PASSWORD_CHARS} characters or more.")
    salt = os.urandom(16).hex()
    path = _password_file(config)
    write_atomic(path, msgspec.json.encode(StoredPassword(salt, _derive_hash(password, salt))))
    return path


def _password_file(config: Path) -> Path:
    return config / "serve-password.json"


def _derive_hash(password: str, salt: str) -> str:
    return hashlib.scrypt(
        password.encode(errors="surrogatepass"), salt=salt.encode(), dklen=32, n=2**14, r=8, p=1
    ).hex()


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _keep_limited(kept: dict[str, Kept], secret: str, value: Kept, most: int) -> None:
    while len(kept) >= most:
        del kept[next(iter(kept))]  # the oldest
    kept[_hash_secret(secret)] = value


def _find_key(kept: Mapping[str, object], secret: str) -> str | None:
    digest = _hash_secret(secret)
    return next((key for key in kept if compare_digest(key, digest)), None)
