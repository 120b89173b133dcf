"""Files no agent writes, whatever it was allowed: what git, shells and agents run, and what lets somebody in."""

import re
import unicodedata
from fnmatch import translate

CREDENTIALS: tuple[str, ...] = (
    ".git-credentials",
    "*.pem",
    "*.p12",
    "*.pfx",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".config/gcloud",
    ".config/gh",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
)
"""What lets somebody in: no agent writes it, and none reads it."""

PROTECTED: tuple[str, ...] = (
    *CREDENTIALS,
    ".git",
    ".gitconfig",
    ".env*",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".config/fish",
    ".scaffold",
    ".scaffold.yaml",
    ".scaffold.yml",
    "scaffold.yaml",
    "scaffold.config.json",
    ".mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".config/git",
)
"""Whole segments of a path, upper and lower case alike; a folder protects everything inside it."""

TEMPLATES = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", "*.example.pem", "*.pub")
"""Names that look like secrets and are none."""

_FORMAT = "Cf"
"""Characters that are not seen, and that some file systems leave out of names."""

ENVIRONMENTS = ".env*"
"""The entry that templates are free from."""
_PATTERNS = tuple((entry, tuple(re.compile(translate(name)).match for name in entry.split("/"))) for entry in PROTECTED)
"""Compiled here, before processes are forked, and not in each of them."""


def protected_by(path: str) -> str | None:
    """Return the entry of `PROTECTED` that `path` falls under, None if it is free.

    The path may be absolute or relative and is taken as it stands: resolve links and `..` first.
    """
    names = segments(path)
    for entry, pattern in _PATTERNS:
        for start in range(len(names) - len(pattern) + 1):
            if all(wanted(name) for name, wanted in zip(names[start:], pattern, strict=False)):
                if entry == ENVIRONMENTS and names[start] in TEMPLATES:
                    continue
                return entry
    return None


def segments(path: str) -> list[str]:
    """Return the names in a path as a file system may take them that folds case, width and what cannot be seen."""
    folded = path.replace("\\", "/")
    if not path.isascii():
        seen = "".join(char for char in folded if unicodedata.category(char) != _FORMAT)
        folded = unicodedata.normalize("NFKC", seen)
    names = (name.rstrip(". ") or name for name in folded.casefold().split("/"))
    return [name for name in names if name not in {"", "."}]
