"""Collect the secrets to redact: from the environment, the workspace's `.env` files, and the user's logins."""

import contextlib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from scaffold.policy.path.protected_files import ENV_TEMPLATES
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.settings import file_secrets, secret_values

CREDENTIAL_FILES = (
    *(".aws/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".git-credentials", ".netrc", ".npmrc"),
    *(".pgpass", ".pypirc", ".cargo/credentials.toml", ".vault-token"),
)
"""Files in a home that hold keys and passwords, one setting per line."""
READ_BYTES = 65_536
"""Read at most this much of each file; settings files are not longer."""


def redactor_for(environ: Mapping[str, str], folder: Path) -> Redactor:
    """Return a redactor for the secrets in `environ`, in `.env` files in `folder`, and in the home's login files.

    An unreadable file is skipped: our agents cannot read it either.
    """
    return Redactor(secret_values(environ), *map(_secrets_of, _files(environ, folder)))


def _files(environ: Mapping[str, str], folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for file in sorted(folder.glob(".env*")):
            if not any(fnmatchcase(file.name, template) for template in ENV_TEMPLATES):
                yield file
    home = environ.get("HOME")
    if home:
        yield from (Path(home, login) for login in CREDENTIAL_FILES)


def _secrets_of(file: Path) -> dict[str, str]:
    try:
        if not file.is_file():
            return {}
        with file.open("rb") as opened:
            return file_secrets(opened.read(READ_BYTES).decode(errors="surrogateescape"))
    except OSError:
        return {}
