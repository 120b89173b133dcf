"""Line diffs: shown to users before they consent to a change, and after it was made."""

import difflib
from collections.abc import Iterator
from itertools import takewhile
from typing import Literal

from msgspec import Struct

CONTEXT_LINES = 2
MAX_LINES = 400
"""Lines of a diff that are kept; the rest is counted."""
COMPARED_LINES = 2_000
"""Most changed lines that are compared one by one; of more, only the number is shown."""

LineKind = Literal["same", "added", "removed", "gap", "note"]


class DiffLine(Struct, frozen=True):
    """One line of a diff; `number` is its line number on its own side, 0 for gaps and notes."""

    kind: LineKind
    number: int
    text: str


class LineDiff(Struct, frozen=True):
    """The difference of two texts: the counts of added and removed lines, and the lines to show."""

    added: int
    removed: int
    lines: tuple[DiffLine, ...]


def line_diff(before: str, after: str) -> LineDiff | None:
    """Return the difference, at most `MAX_LINES` lines of it; None if the texts are equal."""
    if before == after:
        return None
    old, new = _split_lines(before), _split_lines(after)
    # difflib is quadratic, so it only sees the part that differs, with its context.
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    removed, added = len(old) - head - tail, len(new) - head - tail
    if removed + added > COMPARED_LINES:
        note = DiffLine("note", 0, f"{removed:,} lines became {added:,}: too many to compare")
        return LineDiff(added, removed, (note,))
    start, end = max(0, head - CONTEXT_LINES), max(0, tail - CONTEXT_LINES)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    # With `autojunk`, difflib ignores lines that are frequent in a text of 200 lines or more, and the diff grows.
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    lines = list(_diff_lines(matcher, old, new, start))
    shown = lines[:MAX_LINES]
    if len(lines) > MAX_LINES:
        shown.append(DiffLine("note", 0, f"{len(lines) - MAX_LINES:,} more lines"))
    return LineDiff(sum(j2 - j1 for *_, j1, j2 in changes), sum(i2 - i1 for _, i1, i2, *_ in changes), tuple(shown))


def format_line(line: DiffLine) -> str:
    """Return a line of a diff as text: its mark, its number and what it says."""
    marks = {"same": " ", "added": "+", "removed": "-"}
    return f"{marks[line.kind]}{line.number}\t{line.text}" if line.kind in marks else f"... {line.text}".rstrip()


def _split_lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _common_prefix(old: list[str], new: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _diff_lines(
    matcher: difflib.SequenceMatcher[str], old: list[str], new: list[str], offset: int
) -> Iterator[DiffLine]:
    for number, group in enumerate(matcher.get_grouped_opcodes(CONTEXT_LINES)):
        if number:
            yield DiffLine("gap", 0, "")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _numbered_lines("same", new[j1:j2], offset + j1)
            else:
                yield from _numbered_lines("removed", old[i1:i2], offset + i1)
                yield from _numbered_lines("added", new[j1:j2], offset + j1)


def _numbered_lines(kind: LineKind, lines: list[str], offset: int) -> Iterator[DiffLine]:
    for number, line in enumerate(lines, offset + 1):
        yield DiffLine(kind, number, line.removesuffix("\n"))
