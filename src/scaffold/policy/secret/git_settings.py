"""Git's own settings for commands: the user's files, or a copy of them without the logins.

Git stops if it cannot read a file of settings, so one with a secret in it can neither be shown nor just hidden.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scaffold.git.client.disabled_programs import ConfigEntry, expanded, included_files
from scaffold.host.atomic_files import write_atomic
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.sources import GIT_FILES, file_secrets, holds_secret, is_secret_setting

INCLUDES = ("include.", "includeif.")
NAMED_FILES = ("core.attributesfile", "core.excludesfile", "core.hookspath", "commit.template")
"""Settings that name files which git reads, or runs, without a network."""
_WEB_LOGIN = re.compile(r"https?://[^\s/@]+@", re.IGNORECASE)


def shown_git_settings(
    entries: Sequence[ConfigEntry], home: Path, copy: Path
) -> tuple[Sequence[Path], Sequence[Path], Mapping[str, Path]]:
    """Return the files that git needs for `entries`, the user's own, those to hide, and the variable for a copy.

    `copy` is written, and takes the place of all files of settings, if one of these has a secret.
    """
    listed = dict.fromkeys(entry.file for entry in entries if entry.file)
    found = (*listed, *included_files(tuple(entries)), *(home / name for name in GIT_FILES))
    files = [path for path in found if os.path.lexists(path)]
    named = [home / expanded(entry.value) for entry in entries if entry.name in NAMED_FILES and entry.value]
    if not any(holds_secret(path, guessed=False) for path in files) and not any(map(_is_login, entries)):
        return (*files, *named), (), {}
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = (entry for entry in entries if not _is_login(entry) and not entry.name.startswith(INCLUDES))
    write_atomic(copy, os.fsencode("".join(_as_lines(kept))))
    return named, files, {"GIT_CONFIG_GLOBAL": copy}


def _is_login(entry: ConfigEntry) -> bool:
    text, key = f"{entry.name} = {entry.value}", entry.name.rpartition(".")[2]
    # Headers for a server are logins in any form.
    if key == "extraheader" or key.endswith("pass") or is_secret_setting(key, entry.value):
        return True
    return (
        _WEB_LOGIN.search(text) is not None
        or bool(file_secrets(f"{key} = {entry.value}", guessed=False))
        or Redactor().clean(text) != text
    )


def _as_lines(entries: Iterator[ConfigEntry]) -> Iterator[str]:
    for entry in entries:
        section, _, rest = entry.name.partition(".")
        subsection, _, key = rest.rpartition(".")
        yield f"[{section}{f' {_quoted(subsection)}' if subsection else ''}]\n\t{key} = {_quoted(entry.value)}\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
