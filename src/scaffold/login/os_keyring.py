"""The keyring of the operating system, which may block while it asks its user. Needs the extra `keyring`."""

import threading
from collections.abc import Callable
from typing import TypeVar

import keyring
from keyring.errors import KeyringError, KeyringLocked, NoKeyringError

from scaffold.login.keyring_port import KeyringTrouble

SERVICE = "scaffold login"
WAIT_S = 30.0
"""How long a keyring may take, e.g. until its user has unlocked it."""

Result = TypeVar("Result")


class OsKeyring:
    """Implements `keys.Keyring`."""

    def write(self, name: str, secret: str) -> None:
        """Store a secret, and make sure that it is there; KeyringTrouble if it is not."""
        _asked(lambda: keyring.set_password(SERVICE, name, secret))
        if self.read(name) != secret:  # some stand-ins for a keyring keep nothing
            raise KeyringTrouble("the keyring does not keep what is stored in it")

    def read(self, name: str) -> str | None:
        """Return a secret; None if there is none of this name. KeyringTrouble if the keyring cannot say."""
        return _asked(lambda: keyring.get_password(SERVICE, name))

    def delete(self, name: str) -> None:
        """Delete a secret, if it exists; KeyringTrouble if that fails."""
        if self.read(name) is not None:
            _asked(lambda: keyring.delete_password(SERVICE, name))


def _asked(ask: Callable[[], Result]) -> Result:
    """Return the keyring's answer, from a thread of its own: one that waits for a dialog cannot be cancelled."""
    answers: list[Result] = []
    problems: list[str] = []

    def run() -> None:
        try:
            answers.append(ask())
        except NoKeyringError:
            problems.append("there is no keyring")
        except KeyringLocked:
            problems.append("the keyring is locked")
        except (KeyringError, OSError, RuntimeError, ValueError) as error:
            problems.append(f"the keyring failed ({type(error).__name__})")

    asking = threading.Thread(target=run, daemon=True)
    asking.start()
    asking.join(WAIT_S)
    if answers:
        return answers[0]
    waited = f"the keyring did not answer within {WAIT_S:g} s" if asking.is_alive() else "the keyring failed"
    raise KeyringTrouble(problems[0] if problems else waited)
