"""What is asked of the keyring of an operating system."""

from typing import Protocol


class KeyringTrouble(Exception):
    """The keyring cannot be used; the text says why, as a clause."""


class Keyring(Protocol):
    """Secrets by name. Each method raises KeyringTrouble if the keyring is missing, locked or broken."""

    def write(self, name: str, secret: str) -> None:
        """Store a secret."""
        ...

    def read(self, name: str) -> str | None:
        """Return a secret; None if there is none of this name."""
        ...

    def delete(self, name: str) -> None:
        """Delete a secret, if it exists."""
        ...


class NoKeyring:
    """The keyring where the extra `keyring` is not installed."""

    def write(self, name: str, secret: str) -> None:  # noqa: ARG002 - it has nothing to keep it in
        """Raise KeyringTrouble."""
        raise KeyringTrouble("the extra `keyring` is not installed")

    def read(self, name: str) -> str | None:  # noqa: ARG002 - likewise
        """Raise KeyringTrouble."""
        raise KeyringTrouble("the extra `keyring` is not installed")

    def delete(self, name: str) -> None:  # noqa: ARG002 - likewise
        """Raise KeyringTrouble."""
        raise KeyringTrouble("the extra `keyring` is not installed")
