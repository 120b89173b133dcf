"""The keyring of the operating system, which may block while it asks its user. Needs the extra `keyring`."""

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from scaffold.host.startup import importing

SERVICE = "scaffold login"
WAIT_S = 30.0  # how long a keyring may take, e.g. until its user has unlocked it.

Result = TypeVar("Result")


class KeyringTrouble(Exception):
    """The keyring cannot be used; the text says why, as a clause."""


class Keyring(Protocol):
    """Secrets by name. Each method raises KeyringTrouble if the keyring is missing, locked or broken."""

    def write(self, name: str, secret: str) -> None:
        """Store a secret."""
        ...

    def read(self, name: str) -> str | None:
        """Return a secret; None if there is no secret of this name."""
        ...

    def delete(self, name: str) -> None:
        """Delete a secret, if it exists."""
        ...


class OsKeyring:
    """The keyring of the system; KeyringTrouble if the extra `keyring` is not installed."""

    def __init__(self) -> None:
        try:
            with importing():
                import keyring
        except ImportError as missing:
            raise KeyringTrouble("the extra `keyring` is not installed") from missing
        self._backend = keyring

    def write(self, name: str, secret: str) -> None:
        """Store a secret, and make sure that it is there; KeyringTrouble if it is not."""
        self._ask_keyring(lambda: self._backend.set_password(SERVICE, name, secret))
        if self.read(name) != secret:  # some stand-ins for a keyring keep nothing
            raise KeyringTrouble("the keyring does not keep what is stored in it")

    def read(self, name: str) -> str | None:
        """Return a secret; None if there is no secret of this name. KeyringTrouble if the keyring cannot say."""
        found: str | None = self._ask_keyring(lambda: self._backend.get_password(SERVICE, name))
        return found

    def delete(self, name: str) -> None:
        """Delete a secret, if it exists; KeyringTrouble if that fails."""
        if self.read(name) is not None:
            self._ask_keyring(lambda: self._backend.delete_password(SERVICE, name))

    def _ask_keyring(self, question: Callable[[], Result]) -> Result:
        # In a thread of its own, because a keyring that waits for a dialog cannot be cancelled.
        errors = self._backend.errors
        answers: list[Result] = []
        problems: list[str] = []

        def run() -> None:
            try:
                answers.append(question())
            except errors.NoKeyringError:
                problems.append("there is no keyring")
            except errors.KeyringLocked:
                problems.append("the keyring is locked")
            except (errors.KeyringError, OSError, RuntimeError, ValueError) as error:
                problems.append(f"the keyring failed ({type(error).__name__})")

        asking = threading.Thread(target=run, daemon=True)
        asking.start()
        asking.join(WAIT_S)
        if answers:
            return answers[0]
        waited = f"the keyring did not answer within {WAIT_S:g} s" if asking.is_alive() else "the keyring failed"
        raise KeyringTrouble(problems[0] if problems else waited)
