"""A backend of the library `keyring` that keeps secrets in the file FAKE_KEYRING; it is locked while that ends so."""

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked


class Keyring(KeyringBackend):
    """Selected by PYTHON_KEYRING_BACKEND=keyring_in_a_file.Keyring."""

    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        return self._kept().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._write({**self._kept(), f"{service}/{username}": password})

    def delete_password(self, service: str, username: str) -> None:
        self._write({name: value for name, value in self._kept().items() if name != f"{service}/{username}"})

    def _file(self) -> Path:
        file = Path(os.environ["FAKE_KEYRING"])
        if file.with_suffix(".locked").exists():
            raise KeyringLocked
        return file

    def _kept(self) -> dict[str, str]:
        return json.loads(self._file().read_text()) if self._file().exists() else {}

    def _write(self, kept: dict[str, str]) -> None:
        self._file().write_text(json.dumps(kept))
