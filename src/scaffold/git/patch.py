"""The lines of a change: git's patch between two commits as values, with the numbers of each line before and after."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.checkouts.submodule import GITLINK_MODE
from scaffold.git.client.command_line import Git
from scaffold.git.commits import DIFF_OPTIONS, WITHOUT_ATTRIBUTES, patch_fingerprint

Sign = Literal[" ", "+", "-"]
MAX_LINES = 200_000
"""Changed lines of a change; the lines of a larger one are not read."""
FORM = ("-p", "--unified=3", "--inter-hunk-context=0", *DIFF_OPTIONS)
_SECTION = b"diff --git "
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_SIGNS: dict[bytes, Sign] = {b" ": " ", b"+": "+", b"-": "-"}


class PatchLine(Struct, frozen=True):
    """A line of a patch. Its text has no line feed, but may end in a carriage return."""

    sign: Sign
    text: str
    old: int
    """Its number before the change, from 1; 0 for an added line."""
    new: int
    """Its number after the change; 0 for a deleted line."""
    ended: bool = True
    """False for the last line of a file without a line feed at its end."""


class PatchHunk(Struct, frozen=True):
    """Changed lines next to each other, with some lines around them."""

    lines: tuple[PatchLine, ...]
    section: str = ""
    """The line that git names as the place: of the function around it, for example."""


class PatchFile(Struct, frozen=True, kw_only=True):
    """A changed file with its changed lines."""

    path: str
    former: str
    """The path before a rename; otherwise equal to `path`."""
    status: Literal["A", "D", "M", "R", "T"]
    """Added | deleted | modified | renamed, changed or not | another type, such as a link."""
    mode: str
    """In octal, as git writes it; `000000` for a deleted file."""
    former_mode: str
    added: int
    deleted: int
    binary: bool = False
    """Whether git takes it for binary, so that it has no lines."""
    unread: bool = False
    """Whether its lines were not read, because the whole change is too large."""
    hunks: tuple[PatchHunk, ...] = ()

    @property
    def is_submodule(self) -> bool:
        """Whether it is a submodule, before or after."""
        return GITLINK_MODE in {self.mode, self.former_mode}


async def read_patch(git: Git, old: Commit, new: Commit) -> tuple[PatchFile, ...]:
    """Return the changed files in git's order, renames as one. Lines of attributes such as `-diff` hide nothing."""
    # The names come without quotes and apart from the patch: a name may look like a part of it.
    listing = ("diff-tree", "-r", "-z", "--raw", "--numstat", *DIFF_OPTIONS, old, new)
    files = _listed_files((await git(*listing, env=WITHOUT_ATTRIBUTES)).records)
    if sum(each.added + each.deleted for each in files) > MAX_LINES:
        return tuple(structs.replace(each, unread=True) for each in files)
    try:
        patch = (await git("diff-tree", "-r", *FORM, old, new, env=WITHOUT_ATTRIBUTES)).out
    except GitError:  # a patch that is too large to be read
        return tuple(structs.replace(each, unread=True) for each in files)
    sections = list(_split_sections(patch.split(b"\n")))
    found = []
    for each in files:
        # Another type is a deletion and an addition.
        hunks = [hunk for _ in range(1 + (each.status == "T")) for hunk in (sections.pop(0) if sections else ())]
        found.append(structs.replace(each, hunks=tuple(hunks)))
    if sections or any((each.added or each.deleted) and not each.hunks for each in found):
        raise GitError(
            f"the patch from {old[:12]} to {new[:12]} does not fit its list of files",
            "Look at it with `git diff`, and report this with the version of git.",
        )
    return tuple(found)


async def change_fingerprint(git: Git, old: Commit, new: Commit) -> str:
    """Return the SHA-256 of the change's fingerprint, in hex: what an approval is bound to."""
    return hashlib.sha256(await patch_fingerprint(git, old, new)).hexdigest()


def _listed_files(records: Sequence[str]) -> list[PatchFile]:
    # First all files with modes and status, then their counts, in the same order.
    files, at = list[tuple[list[str], str, str]](), 0
    while at < len(records) and records[at].startswith(":"):
        fields = records[at][1:].split()
        names = 1 + (fields[4][0] in "RC")
        files.append((fields, records[at + 1], records[at + names]))
        at += 1 + names
    found = []
    for fields, former, path in files:
        added, deleted, name = records[at].split("\t", 2)
        at += 1 if name else 3
        status = {"C": "A"}.get(fields[4][0], fields[4][0])
        found.append(
            PatchFile(
                path=path,
                former=former,
                status=status,  # type: ignore[arg-type]
                mode=fields[1],
                former_mode=fields[0],
                added=int(added) if added.isdecimal() else 0,
                deleted=int(deleted) if deleted.isdecimal() else 0,
                binary=not added.isdecimal(),
            )
        )
    return found


def _split_sections(lines: Sequence[bytes]) -> Iterator[list[PatchHunk]]:
    """Yield the hunks of each file. Contents are counted, because they may look like a header."""
    at, hunks, begun = 0, list[PatchHunk](), False
    while at < len(lines):
        if lines[at].startswith(_SECTION):
            if begun:
                yield hunks
            hunks, begun = [], True
        elif head := _HUNK.match(lines[at]):
            hunk, at = _read_hunk(lines, at + 1, head)
            hunks.append(hunk)
            continue
        at += 1
    if begun:
        yield hunks


def _read_hunk(lines: Sequence[bytes], at: int, head: re.Match[bytes]) -> tuple[PatchHunk, int]:
    old, new = int(head[1]), int(head[3])
    left_old, left_new = (int(each) if each is not None else 1 for each in (head[2], head[4]))
    found = list[PatchLine]()
    while at < len(lines) and (left_old or left_new or lines[at].startswith(b"\\")):
        line = lines[at]
        at += 1
        if line.startswith(b"\\"):
            last = found[-1]
            found[-1] = PatchLine(last.sign, last.text, last.old, last.new, ended=False)
            continue
        sign = _SIGNS[line[:1]]
        text = line[1:].decode(errors="replace")
        found.append(PatchLine(sign, text, 0 if sign == "+" else old, 0 if sign == "-" else new))
        old, left_old = old + (sign != "+"), left_old - (sign != "+")
        new, left_new = new + (sign != "-"), left_new - (sign != "-")
    return PatchHunk(tuple(found), head[5].decode(errors="replace")), at
