"""The key that encrypts a login: in the keyring of the system, from a passphrase, or in a private file.

Each login has its own key: once that is deleted, copies of the encrypted tokens are worthless.
"""

import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from scaffold.core.errors import ModelAccessDenied
from scaffold.login.os_keyring import Keyring, KeyringTrouble, OsKeyring

KEY_BYTES = 32
KeyPlace = Literal["keyring", "passphrase", "file"]
PASSPHRASE = "SCAFFOLD_LOGIN_PASSPHRASE"  # noqa: S105 - the name of a variable
MIN_PASSPHRASE_CHARS = 8
# The cost that OWASP recommends where 128 MiB for each process are too much: a third of a second, 32 MiB.
SCRYPT = {"n": 2**15, "r": 8, "p": 3, "maxmem": 2**26}
# What encryption with a key in each place is worth.
WORTH: Mapping[KeyPlace, str] = {
    "keyring": "it protects backups, and from other users; a program of yours can ask your unlocked keyring for it",
    "passphrase": f"it protects backups, and from other users; a program of yours may read {PASSPHRASE}",
    "file": "it protects from other users, and copies of the database alone; not from programs of yours, nor a backup "
    "of the whole folder",
}


class LoginKey(Struct, frozen=True, kw_only=True):
    """A key and where it is; the repr shows no secret."""

    place: KeyPlace
    name: str
    secret: bytes
    note: str = ""
    """Why it is not in a better place; empty if there is nothing to say."""

    def __repr__(self) -> str:
        return f"LoginKey({self.place!r})"


class KeyTrouble(ModelAccessDenied):
    """The key of the login cannot be had here and now."""


class LoginKeys:
    """The keys of logins, of the user whose private folder is `folder`."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], keyring: Keyring | None = None, *, command: str = "ralph login"
    ) -> None:
        """Use `keyring`, None for the system's own. `command` begins the login."""
        self._command = command
        self._given_keyring = keyring
        self._folder = folder
        self._environ = environ

    def create(self) -> LoginKey:
        """Store a new key in the best place that works, and return it. KeyTrouble if the passphrase is too short."""
        name, secret = secrets.token_hex(8), os.urandom(KEY_BYTES)
        try:
            (self._given_keyring or OsKeyring()).write(name, base64.b64encode(secret).decode())
            return LoginKey(place="keyring", name=name, secret=secret)
        except KeyringTrouble as trouble:
            note = str(trouble)
        if passphrase := self._environ.get(PASSPHRASE, ""):
            if len(passphrase) < MIN_PASSPHRASE_CHARS:
                what = f"{PASSPHRASE} has fewer than {MIN_PASSPHRASE_CHARS} characters"
                raise KeyTrouble(what, "Choose a longer one, or unset it.")
            return LoginKey(place="passphrase", name=name, secret=_derive_key(passphrase, name), note=note)
        self._into_file(name, secret)
        return LoginKey(place="file", name=name, secret=secret, note=note)

    def read(self, place: str, name: str) -> bytes:
        """Return the key; KeyTrouble if it is not there, or the keyring is locked."""
        match place:
            case "keyring":
                return self._from_keyring(name)
            case "passphrase":
                if passphrase := self._environ.get(PASSPHRASE):
                    return _derive_key(passphrase, name)
                raise KeyTrouble(
                    f"the login is encrypted with a passphrase, and {PASSPHRASE} is not set",
                    f"Set it as it was at `{self._command}`, or log in again.",
                )
            case "file":
                return self._from_file(name)
            case _:
                raise KeyTrouble(f"the key of the login is in a place that is not known: {place}", self._log_in_again)

    def delete(self, place: str, name: str) -> str:
        """Delete a key for good; return what is left, as a sentence, empty if nothing is."""
        match place:
            case "keyring":
                try:
                    (self._given_keyring or OsKeyring()).delete(name)
                except KeyringTrouble as trouble:
                    return f"The key {name} is still in the keyring: {trouble}."
            case "file":
                with suppress(FileNotFoundError):
                    fd = os.open(self.file(name), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                    try:
                        # Only as good as the file system, which may write elsewhere.
                        os.write(fd, b"\0" * os.fstat(fd).st_size)
                        os.fsync(fd)
                    finally:
                        os.close(fd)
                    self.file(name).unlink()
        return ""

    def where(self, place: str, name: str) -> str:
        """Return where a key is, for people."""
        texts = {"keyring": "the keyring of this system", "passphrase": f"derived from {PASSPHRASE}"}
        return texts.get(place, str(self.file(name)))

    def worth(self, place: str) -> str:
        """Return what encryption with this key is worth, as a clause."""
        return next((WORTH[each] for each in get_args(KeyPlace) if each == place), "")

    def file(self, name: str) -> Path:
        """Return where the file of a key is."""
        return self._folder / f"login-{name}.key"

    def _from_keyring(self, name: str) -> bytes:
        try:
            found = (self._given_keyring or OsKeyring()).read(name)
        except KeyringTrouble as trouble:
            what = f"the key of the login is in the keyring: {trouble}"
            raise KeyTrouble(what, "Unlock or install it and repeat the command, or log in again.") from trouble
        if found is None:
            raise KeyTrouble("the key of the login is no longer in the keyring", self._log_in_again)
        return self._decode_key(found, "the keyring")

    def _into_file(self, name: str, secret: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.file(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(base64.b64encode(secret))
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _from_file(self, name: str) -> bytes:
        path = self.file(name)
        try:
            if path.stat().st_mode & 0o077:
                raise KeyTrouble(f"{path} can be read by other users", f"`chmod 600 {path}`; better, log in again.")
            return self._decode_key(path.read_text("ascii", "replace"), str(path))
        except OSError as error:
            raise KeyTrouble(
                f"the key of the login, {path}, cannot be read: {error.strerror}", self._log_in_again
            ) from error

    @property
    def _log_in_again(self) -> str:
        return f"Log in again with `{self._command}`."

    def _decode_key(self, text: str, where: str) -> bytes:
        try:
            key = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise KeyTrouble(f"the key of the login in {where} is damaged", self._log_in_again)
        return key


@lru_cache(maxsize=4)
def _derive_key(passphrase: str, salt: str) -> bytes:
    # Cached, because the derivation takes long on purpose.
    return hashlib.scrypt(passphrase.encode(), salt=salt.encode(), dklen=KEY_BYTES, **SCRYPT)
