"""Files that no agent may write, whatever the rules allow: run by git, shells, editors and agents, or credentials."""

import re
import unicodedata
from fnmatch import translate

CREDENTIAL_FILES: tuple[str, ...] = (
    *(".git-credentials", "*.pem", "*.p12", "*.pfx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".config/gcloud", ".config/gh", ".docker/config.json"),
    *(".netrc", ".npmrc", ".pypirc"),
)
"""Credentials: no agent may read or write them."""

EDITOR_FILES: tuple[str, ...] = (".vscode/tasks.json", ".vscode/mcp.json", ".cursor")
"""Files that an editor runs or obeys when it opens a folder."""

PROTECTED_FILES: tuple[str, ...] = (
    *CREDENTIAL_FILES,
    *(".git", ".gitconfig", ".env*"),
    # Shells run these at the next login, outside of any sandbox.
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".config/fish"),
    # An agent that writes the settings of agents would loosen its own rules.
    *(".scaffold", ".scaffold.yaml", ".scaffold.yml", "scaffold.yaml", "scaffold.config.json", ".mcp.json"),
    *(".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".claude/skills"),
    *(".claude/agents", ".claude/commands", ".agents/skills", ".config/git"),
    *EDITOR_FILES,
)
"""Matched against whole path segments, ignoring case; a folder protects everything inside it."""

ENV_TEMPLATES = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", "*.example.pem", "*.pub")
"""Names that look like secrets but are templates."""

_FORMAT = "Cf"
"""Unicode category of invisible characters, which some file systems drop from names."""

ENV_FILES = ".env*"
"""The entry that does not apply to templates."""
_PATTERNS = tuple(
    (entry, tuple(re.compile(translate(name)).match for name in entry.split("/"))) for entry in PROTECTED_FILES
)
"""Compiled at import, before processes are forked, instead of once in each process."""


def protected_entry(path: str) -> str | None:
    """Return the entry of `PROTECTED_FILES` that protects `path`; None if it may be written.

    The path may be absolute or relative and is used literally: resolve links and `..` first.
    """
    names = normalized_segments(path)
    for entry, pattern in _PATTERNS:
        for start in range(len(names) - len(pattern) + 1):
            if all(match(name) for name, match in zip(names[start : start + len(pattern)], pattern, strict=True)):
                if entry == ENV_FILES and names[start] in ENV_TEMPLATES:
                    continue
                return entry
    return None


def normalized_segments(path: str) -> list[str]:
    """Return the segments of a path as a file system would see them that ignores case, width and invisible characters.

    Empty segments and `.` are dropped.
    """
    folded = path.replace("\\", "/")
    if not path.isascii():
        visible = "".join(char for char in folded if unicodedata.category(char) != _FORMAT)
        folded = unicodedata.normalize("NFKC", visible)
    # Windows drops dots and spaces at the end of a name, so `.git.` is `.git` there.
    names = (name.rstrip(". ") or name for name in folded.casefold().split("/"))
    return [name for name in names if name not in {"", "."}]
