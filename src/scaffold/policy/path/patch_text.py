"""Patches in the form that GPT models are trained on: the files that a patch names, and the change of each.

`*** Begin Patch`, for each file `*** Add File: PATH`, `*** Delete File: PATH` or `*** Update File: PATH` with its
lines, and `*** End Patch`. The policy and the tool read a patch with this one function, so that what was allowed is
what is done. Described in https://cookbook.openai.com/examples/gpt4-1_prompting_guide.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.policy.path.containment import Refusal

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, UPDATE, DELETE = "*** Add File:", "*** Update File:", "*** Delete File:"
MOVE, END_OF_FILE = "*** Move to:", "*** End of File"
ANCHOR = "@@"

LineMark = Literal[" ", "+", "-"]
_MARKS: Mapping[str, LineMark] = {" ": " ", "+": "+", "-": "-"}

_HERE_DOCUMENT = re.compile(r"(?:apply_patch\s+)?<<-?\s*(['\"]?)(\w+)\1")
_LINE_NUMBERS = re.compile(r"-\d+(,\d+)? \+\d+(,\d+)?( @@.*)?")
"""The text after `@@` in a unified diff, which is not a line of the file."""


class PatchSection(Struct, frozen=True, kw_only=True):
    """Consecutive lines of a file, with added and removed ones."""

    anchors: tuple[str, ...] = ()
    """Lines that come before them, in this order, such as those of a class and of a method."""
    lines: tuple[tuple[LineMark, str], ...]
    """Each line and its mark: kept, added or removed."""
    at_end: bool = False
    """Whether these are the last lines of the file."""

    @property
    def old(self) -> tuple[str, ...]:
        """The lines as they are before the patch."""
        return tuple(text for mark, text in self.lines if mark != "+")

    @property
    def changes(self) -> bool:
        """Whether it adds or removes a line."""
        return any(mark != " " for mark, _ in self.lines)


class FilePatch(Struct, frozen=True, kw_only=True):
    """The change of one file by a patch."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str | None = None
    content: str = ""
    """Of an added file."""
    sections: tuple[PatchSection, ...] = ()
    """Of an updated file, in any order."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths it writes or deletes."""
        return (self.path,) if self.move_to is None else (self.path, self.move_to)


def parse_patch(text: str) -> tuple[FilePatch, ...] | Refusal:
    """Return the changes of a patch, file by file, or why it is invalid.

    White space around the lines that begin with `***`, and a shell's here-document around the patch, are ignored.
    """
    lines = _without_here_document([line.removesuffix("\r") for line in text.strip().split("\n")])
    if lines[0].rstrip() != BEGIN:
        return Refusal(f"The first line of a patch is `{BEGIN}`, not {_quoted_line(lines[0])}.")
    if lines[-1].strip() != END:
        return Refusal(f"The last line of a patch is `{END}`, not {_quoted_line(lines[-1])}.")
    return _PatchReader(lines[1:-1]).files()


def _without_here_document(lines: Sequence[str]) -> Sequence[str]:
    found = _HERE_DOCUMENT.fullmatch(lines[0].rstrip())
    inside = lines[1:-1] if found and lines[-1].strip() == found[2] else lines
    return inside or lines


def _quoted_line(line: str) -> str:
    return f"`{line[:200]}`" if line.strip() else "an empty line"


class _PatchReader:
    """Reads the lines between the first and the last one."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def files(self) -> tuple[FilePatch, ...] | Refusal:
        found: list[FilePatch] = []
        while self._at < len(self._lines):
            line = self._next_line()
            if line.strip():
                file = self._file_patch(line)
                if isinstance(file, Refusal):
                    return Refusal(f"Line {self._at + 1} of the patch: {file.reason}")
                found.append(file)
        return tuple(found) or Refusal("The patch names no file.")

    def _next_line(self) -> str:
        self._at += 1
        return self._lines[self._at - 1]

    def _body_line(self) -> str | None:
        """Return the next line about the current file; None at the end."""
        if self._at == len(self._lines) or _is_header(self._lines[self._at]):
            return None
        return self._next_line()

    def _file_patch(self, header: str) -> FilePatch | Refusal:
        mark = next((mark for mark in (ADD, UPDATE, DELETE) if header.strip().startswith(mark)), None)
        if mark is None:
            return Refusal(f"{_quoted_line(header)} is not `{ADD} PATH`, `{UPDATE} PATH` or `{DELETE} PATH`.")
        path = header.strip().removeprefix(mark).strip()
        if not path:
            return Refusal(f"`{mark}` names no path.")
        if mark == DELETE:
            return FilePatch(kind="delete", path=path)
        return self._added_file(path) if mark == ADD else self._updated_file(path)

    def _added_file(self, path: str) -> FilePatch | Refusal:
        content: list[str] = []
        while (line := self._body_line()) is not None:
            if line.startswith("+"):
                content.append(f"{line[1:]}\n")
            elif line or self._has_more_content():
                return Refusal(f"every line of the added file {path} begins with `+`; {_quoted_line(line)} does not.")
        return FilePatch(kind="add", path=path, content="".join(content))

    def _has_more_content(self) -> bool:
        # An empty line may only separate files.
        following = next((line for line in self._lines[self._at :] if line), None)
        return following is not None and not _is_header(following)

    def _updated_file(self, path: str) -> FilePatch | Refusal:
        move_to = None
        if self._at < len(self._lines) and self._lines[self._at].strip().startswith(MOVE):
            move_to = self._next_line().strip().removeprefix(MOVE).strip()
            if not move_to:
                return Refusal(f"`{MOVE}` names no path.")
        sections = _SectionsReader()
        while (line := self._body_line()) is not None:
            if problem := sections.read(line):
                return Refusal(f"{problem} in {path}.")
        found = sections.end()
        if not any(section.changes for section in found) and move_to is None:
            return Refusal(f"the patch changes nothing in {path}.")
        return FilePatch(kind="update", path=path, move_to=move_to, sections=found)


class _SectionsReader:
    """Collects the sections of one file, line by line."""

    def __init__(self) -> None:
        self._sections: list[PatchSection] = []
        self._anchors: list[str] = []
        self._lines: list[tuple[LineMark, str]] = []
        self._bare = 0
        """How many of the last lines are empty, without a mark: they may only separate sections."""

    def read(self, line: str) -> str | None:
        """Take the next line; return what is wrong with it, or None."""
        if line.startswith(ANCHOR):
            self._close_section()
            anchor = line.removeprefix(ANCHOR).strip()
            if anchor and not _LINE_NUMBERS.fullmatch(anchor):
                self._anchors.append(anchor)
        elif line.rstrip() == END_OF_FILE:
            self._close_section(at_end=True)
        elif not line:
            self._lines.append((" ", ""))
            self._bare += 1
        elif mark := _MARKS.get(line[0]):
            self._lines.append((mark, line[1:]))
            self._bare = 0
        else:
            return f"a line begins with ` `, `+`, `-` or `@@`, not as {_quoted_line(line)} does"
        return None

    def end(self) -> tuple[PatchSection, ...]:
        """Return the sections, without those that change nothing."""
        self._close_section()
        return tuple(section for section in self._sections if section.changes)

    def _close_section(self, *, at_end: bool = False) -> None:
        lines = self._lines if at_end else self._lines[: len(self._lines) - self._bare]
        if lines:
            self._sections.append(PatchSection(anchors=tuple(self._anchors), lines=tuple(lines), at_end=at_end))
            self._anchors = []
        self._lines, self._bare = [], 0


def _is_header(line: str) -> bool:
    return line.startswith((ADD, UPDATE, DELETE))
