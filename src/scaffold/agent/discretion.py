"""Which secrets no agent is shown or repeats: those of our environment, of the workspace, and the user's logins."""

import contextlib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from scaffold.policy.credentials import file_secrets, secret_values
from scaffold.policy.protected import TEMPLATES
from scaffold.policy.redaction import Redactor

LOGINS = (
    *(".aws/credentials", ".config/gh/hosts.yml", ".docker/config.json", ".git-credentials", ".netrc", ".npmrc"),
    *(".pgpass", ".pypirc", ".cargo/credentials.toml", ".vault-token"),
)
"""Files in a home that hold keys and passwords, one setting a line."""
READ_BYTES = 65_536
"""Of each file; what lies behind is no setting."""


def redactor_for(environ: Mapping[str, str], folder: Path) -> Redactor:
    """Return who tells text without the secrets of `environ`, of `.env` files in `folder`, and of the home's logins.

    A file that cannot be read is passed over: no agent of ours can read it either.
    """
    return Redactor(secret_values(environ), *map(_secrets_of, _files(environ, folder)))


def _files(environ: Mapping[str, str], folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for file in sorted(folder.glob(".env*")):
            if not any(fnmatchcase(file.name, template) for template in TEMPLATES):
                yield file
    home = environ.get("HOME")
    if home:
        yield from (Path(home, login) for login in LOGINS)


def _secrets_of(file: Path) -> dict[str, str]:
    try:
        if not file.is_file():
            return {}
        with file.open("rb") as opened:
            return file_secrets(opened.read(READ_BYTES).decode(errors="surrogateescape"))
    except OSError:
        return {}
