"""Folder trust: the configuration files of a folder, and whether the user accepted their contents. Pure.

Trust is in contents: each decision is a set of files with their digests, stored per repository, so all its worktrees
share it. A folder is trusted if one decision covers all of these files that exist. A missing file has no effect and
needs no consent.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.policy.path.globs import matches

SETTINGS_FILE = ".scaffold.yaml"
LOCAL_SETTINGS_FILE = ".scaffold/config.local.yaml"
INCLUDE_FILE = ".worktreeinclude"

ACTIVE_FILES: Mapping[str, str] = {
    SETTINGS_FILE: "the repository's settings: they can tighten yours, not loosen them",
    LOCAL_SETTINGS_FILE: "settings for this checkout only: they have the same effect as your own",
    ".mcp.json": "servers with tools for agents: programs to start or addresses to call",
    ".claude/settings.json": "settings of Claude Code: hooks are programs that it runs",
    ".claude/settings.local.json": "settings of Claude Code for this checkout: hooks are programs that it runs",
    INCLUDE_FILE: "files that git ignores and that are copied to agents' worktrees",
}
"""Path relative to the folder -> description, of the files that take effect just by existing."""

HOOK_FILES: Mapping[str, str] = {
    ".pre-commit-config.yaml": "hooks of pre-commit: programs that run on each change",
    **{
        f"{start}lefthook{local}{end}": "hooks of lefthook: programs that run on each change"
        for start in ("", ".", ".config/")
        for local in ("", "-local")
        for end in (".yml", ".yaml", ".toml", ".json")
    },
    ".lefthook/*/*": "a script of lefthook: it runs on each change",
    ".lefthook-local/*/*": "a script of lefthook for this checkout: it runs on each change",
    ".husky/*": "a hook of husky: it runs on each change",
}
"""Glob relative to the folder -> description, of the files that define commit hooks. Agents may change most of them;
those of the run's base that the user trusts are the ones that run."""

SKILL_FILE = "SKILL.md"
SKILL_FOLDERS = (".claude/skills", ".agents/skills")
ROLE_FOLDER = ".claude/agents"
COMMAND_FOLDER = ".claude/commands"
SCRIPT_FOLDER = ".claude/hooks"

EXTENSION_FILES: Mapping[str, str] = {
    f"{SCRIPT_FOLDER}/**": "a script for hooks of agents, or what it needs",
    **{f"{folder}/*/{SKILL_FILE}": "a skill: instructions that agents may follow" for folder in SKILL_FOLDERS},
    f"{ROLE_FOLDER}/**": "a role: the instructions of a kind of agent",
    f"{COMMAND_FOLDER}/**": "a command: a message that you send by its name",
}
"""Glob relative to the folder -> description, of the files that agents read or run. See `config/folder_trust.py`."""
NAMED_SCRIPT = "a script that a hook of agents runs"

MAX_BYTES = 1_000_000
"""A larger configuration file is rejected: no user would have read it before accepting it."""

TrustState = Literal["trusted", "once", "changed", "unknown"]
"""Accepted | accepted for this command only | other contents were accepted | never asked."""


class TrustFile(Struct, frozen=True):
    """A configuration file of the folder, read once."""

    name: str
    content: bytes = b""
    problem: str = ""
    """Why the file could not be read; empty if it could."""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the content; empty if the file could not be read."""
        return "" if self.problem else hashlib.sha256(self.content).hexdigest()

    @property
    def blank(self) -> bool:
        """Return whether the file has only comments, as after `init`; such a file is not mentioned."""
        return not self.problem and all(line.lstrip()[:1] in {b"", b"#"} for line in self.content.splitlines())


class FolderConfig(Struct, frozen=True):
    """A folder's own configuration; the contents that were hashed are the ones used."""

    top: Path
    identity: str
    """The key of the stored decisions: the path of the common git directory."""
    pieces: tuple[TrustFile, ...]
    """The existing files of `ACTIVE_FILES`, in its order, then those of `HOOK_FILES`."""

    @property
    def digests(self) -> dict[str, str]:
        """Return {name: digest} of the files."""
        return {piece.name: piece.digest for piece in self.pieces}

    @property
    def fingerprint(self) -> str:
        """Return one digest of all names and contents."""
        return fingerprint(self.digests)

    @property
    def unreadable_files(self) -> tuple[TrustFile, ...]:
        """Return the files that could not be read and so cannot be accepted."""
        return tuple(piece for piece in self.pieces if piece.problem)


class TrustStatus(Struct, frozen=True):
    """Whether a folder's own configuration takes effect."""

    folder: FolderConfig
    state: TrustState
    differences: tuple[str, ...] = ()
    """In state `changed`: how each file differs from the latest decision."""
    problem: str = ""
    """Why the stored decisions could not be read; empty if they could."""

    @property
    def trusted(self) -> bool:
        """Return whether the configuration takes effect."""
        return self.state in {"trusted", "once"}

    @property
    def reason(self) -> str:
        """Return why the configuration is ignored; empty if it is trusted."""
        return "" if self.trusted else "; ".join(filter(None, ("folder not trusted", *self.differences, self.problem)))

    @property
    def hook_digests(self) -> dict[str, str]:
        """Return {name: digest} of the files that define commit hooks; none if they are not trusted."""
        known = self.folder.digests if self.trusted else {}
        return {name: digest for name, digest in known.items() if _described_by(HOOK_FILES, name)}

    def content(self, name: str) -> bytes | None:
        """Return the contents of a configuration file; None if it is missing or not trusted."""
        return next((piece.content for piece in self.folder.pieces if piece.name == name and self.trusted), None)


def is_extension(piece: TrustFile) -> bool:
    """Return whether a file has hooks, skills, roles or commands, or is run by a hook."""
    if piece.name in {".claude/settings.json", ".claude/settings.local.json"}:
        return b"hooks" in piece.content
    return piece.name not in ACTIVE_FILES and not _described_by(HOOK_FILES, piece.name)


def description(name: str) -> str:
    """Return the description of a configuration file."""
    return (
        ACTIVE_FILES.get(name)
        or _described_by(HOOK_FILES, name)
        or _described_by(EXTENSION_FILES, name)
        or NAMED_SCRIPT
    )


def _described_by(globs: Mapping[str, str], name: str) -> str:
    """Return the description of the first matching glob; empty without one."""
    return next((what for glob, what in globs.items() if matches(glob, name)), "")


def trust_status(folder: FolderConfig, agreed: Sequence[Mapping[str, str]], *, once: bool = False) -> TrustStatus:
    """Return the folder's trust status; `agreed` are the repository's stored decisions, the latest last."""
    if once:
        return TrustStatus(folder, "once")
    if not agreed:
        return TrustStatus(folder, "unknown")
    present = folder.digests.items()
    # One decision has to cover all files: two that were approved separately were never reviewed in combination.
    if not folder.unreadable_files and any(present <= digests.items() for digests in agreed):
        return TrustStatus(folder, "trusted")
    return TrustStatus(folder, "changed", tuple(_changed_files(folder, agreed[-1])))


def fingerprint(digests: Mapping[str, str]) -> str:
    """Return one digest over all names and file digests."""
    return hashlib.sha256(msgspec.json.encode(dict(sorted(digests.items())))).hexdigest()


def _changed_files(folder: FolderConfig, agreed: Mapping[str, str]) -> list[str]:
    differences = []
    for piece in folder.pieces:
        if piece.problem:
            differences.append(f"{piece.name} {piece.problem}")
        elif piece.name not in agreed:
            differences.append(f"{piece.name} is new")
        elif piece.digest != agreed[piece.name]:
            differences.append(f"{piece.name} changed")
    return differences
