"""Files no agent writes, whatever it was allowed: what git, shells and agents run, and what lets somebody in."""

from fnmatch import fnmatchcase

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
    ".mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
)
"""Whole segments of a path, upper and lower case alike; a folder protects everything inside it."""

_PATTERNS = tuple(tuple(pattern.split("/")) for pattern in PROTECTED)


def protected_by(path: str) -> str | None:
    """Return the entry of `PROTECTED` that `path` falls under, None if it is free.

    The path may be absolute or relative and is taken as it stands: resolve links and `..` first.
    """
    names = [name for name in path.replace("\\", "/").casefold().split("/") if name not in {"", "."}]
    for pattern in _PATTERNS:
        for start in range(len(names) - len(pattern) + 1):
            if all(fnmatchcase(name, wanted) for name, wanted in zip(names[start:], pattern, strict=False)):
                return "/".join(pattern)
    return None
