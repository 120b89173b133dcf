"""Folder trust: which files of a folder make programs do things, and whether the user agreed to just these. Pure.

Trust is given to contents: each decision is a set of files with their digests, kept for the repository, so that all of
its worktrees share it. A folder is trusted as long as all that is there of these files was agreed to in one decision.
A file that is missing does nothing, so it needs nobody's consent.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

SETTINGS = ".scaffold.yaml"
LOCAL_SETTINGS = ".scaffold/config.local.yaml"

ACTIVE: Mapping[str, str] = {
    SETTINGS: "the repository's settings: they can tighten yours, not loosen them",
    LOCAL_SETTINGS: "settings for this checkout alone: they count like your own",
    ".mcp.json": "servers with tools for agents: programs that are started, or addresses that are called",
    ".claude/settings.json": "settings of Claude Code: hooks are programs that it runs",
    ".claude/settings.local.json": "settings of Claude Code for this checkout: hooks are programs that it runs",
    ".worktreeinclude": "files that git ignores and that agents get copies of",
}
"""The files of a folder that take effect by being there, from its top, and what each is."""

LARGEST_BYTES = 1_000_000
"""A file of configuration beyond this is none that anybody read before agreeing to it."""

State = Literal["trusted", "once", "changed", "unknown"]
"""Agreed to | agreed to for this command | something else was agreed to | never asked about."""


class Piece(Struct, frozen=True):
    """A file of the folder's configuration as it was read, once; with a `trouble` it could not be."""

    name: str
    content: bytes = b""
    trouble: str = ""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the content, empty where there is none to agree to."""
        return "" if self.trouble else hashlib.sha256(self.content).hexdigest()

    @property
    def blank(self) -> bool:
        """Return whether it has nothing but comments, as the one that `init` writes: nobody need hear of it."""
        return not self.trouble and all(line.lstrip()[:1] in {b"", b"#"} for line in self.content.splitlines())


class Folder(Struct, frozen=True):
    """A folder's own configuration: what was hashed is what is used."""

    top: Path
    identity: str
    """What decisions are kept under: the address of what all worktrees of the repository share."""
    pieces: tuple[Piece, ...]
    """What is there of `ACTIVE`, in its order."""

    @property
    def digests(self) -> dict[str, str]:
        """Return the digest of each file by its name."""
        return {piece.name: piece.digest for piece in self.pieces}

    @property
    def fingerprint(self) -> str:
        """Return one digest of all names and contents."""
        return fingerprint(self.digests)

    @property
    def unfit(self) -> tuple[Piece, ...]:
        """Return the files that could not be read; nobody can agree to these."""
        return tuple(piece for piece in self.pieces if piece.trouble)


class Standing(Struct, frozen=True):
    """Whether a folder's own configuration counts."""

    folder: Folder
    state: State
    differences: tuple[str, ...] = ()
    """Where something else was agreed to: what about each file is different."""
    trouble: str = ""
    """Why nobody could look up what was agreed to."""

    @property
    def trusted(self) -> bool:
        """Return whether it counts."""
        return self.state in {"trusted", "once"}

    @property
    def reason(self) -> str:
        """Return why it does not count, empty if it does."""
        return "" if self.trusted else "; ".join(filter(None, ("folder not trusted", *self.differences, self.trouble)))

    def content(self, name: str) -> bytes | None:
        """Return what is in a file of the configuration, None where there is none that counts."""
        return next((piece.content for piece in self.folder.pieces if piece.name == name and self.trusted), None)


def standing(folder: Folder, agreed: Sequence[Mapping[str, str]], *, once: bool = False) -> Standing:
    """Return how a folder stands; `agreed` holds what was agreed to for its repository, the latest last."""
    if once:
        return Standing(folder, "once")
    if not agreed:
        return Standing(folder, "unknown")
    present = folder.digests.items()
    if not folder.unfit and any(present <= digests.items() for digests in agreed):
        return Standing(folder, "trusted")
    return Standing(folder, "changed", tuple(_differences(folder, agreed[-1])))


def fingerprint(digests: Mapping[str, str]) -> str:
    """Return one digest for a set of files with theirs."""
    return hashlib.sha256(msgspec.json.encode(dict(sorted(digests.items())))).hexdigest()


def _differences(folder: Folder, agreed: Mapping[str, str]) -> list[str]:
    """Return what is different about each file from what was agreed to."""
    told = []
    for piece in folder.pieces:
        if piece.trouble:
            told.append(f"{piece.name} {piece.trouble}")
        elif piece.name not in agreed:
            told.append(f"{piece.name} is new")
        elif piece.digest != agreed[piece.name]:
            told.append(f"{piece.name} changed")
    return told
