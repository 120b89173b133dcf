"""What a change makes of a file, line by line: the diffs people see before they consent, and after it was made."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

CONTEXT_LINES = 2
MAX_LINES = 400
"""Lines of a diff that are kept to look at; the rest is counted."""
COMPARED_LINES = 2_000
"""Lines of both sides that are compared one by one; of more only the number is told."""

LineKind = Literal["same", "added", "removed", "gap", "note"]


class DiffLine(Struct, frozen=True):
    """One line of a diff: its number on the side it stands on, 0 for gaps and notes."""

    kind: LineKind
    number: int
    text: str


class LineDiff(Struct, frozen=True):
    """How a text became another one: how many lines came and went, and the lines to look at."""

    added: int
    removed: int
    lines: tuple[DiffLine, ...]


def line_diff(before: str, after: str) -> LineDiff | None:
    """Return what became of a text, None if nothing did; only its beginning where there is much of it."""
    if before == after:
        return None
    old, new = _split(before), _split(after)
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(gone) + len(come) > COMPARED_LINES:
        note = DiffLine("note", 0, f"{len(gone):,} lines became {len(come):,}: too many to compare")
        return LineDiff(len(come), len(gone), (note,))
    matcher = difflib.SequenceMatcher(None, gone, come, autojunk=False)
    steps = matcher.get_opcodes()
    added = sum(j2 - j1 for tag, _, _, j1, j2 in steps if tag != "equal")
    removed = sum(i2 - i1 for tag, i1, i2, _, _ in steps if tag != "equal")
    shown = tuple(_bounded(list(_lines(old, new, head, tail, steps))))
    return LineDiff(added, removed, shown)


def _split(text: str) -> list[str]:
    """Return the lines with their ends; the last one may have none."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _common_prefix(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines both begin with."""
    return next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _lines(
    old: Sequence[str], new: Sequence[str], head: int, tail: int, steps: Sequence[tuple[str, int, int, int, int]]
) -> Iterator[DiffLine]:
    """Yield the lines that differ and a few around them; `head` and `tail` lines are the same on both sides."""
    first = max(0, head - CONTEXT_LINES)
    yield from (_line("same", new, n) for n in range(first, head))
    for tag, i1, i2, j1, j2 in steps:
        if tag == "equal":
            yield from _between(new, head + j1, head + j2)
            continue
        yield from (_line("removed", old, n) for n in range(head + i1, head + i2))
        yield from (_line("added", new, n) for n in range(head + j1, head + j2))
    end = len(new) - tail
    yield from (_line("same", new, n) for n in range(end, min(len(new), end + CONTEXT_LINES)))


def _between(new: Sequence[str], start: int, end: int) -> Iterator[DiffLine]:
    """Yield lines that stay between two changes, without the middle where they are many."""
    if end - start <= 2 * CONTEXT_LINES + 1:
        yield from (_line("same", new, n) for n in range(start, end))
        return
    yield from (_line("same", new, n) for n in range(start, start + CONTEXT_LINES))
    yield DiffLine("gap", 0, "")
    yield from (_line("same", new, n) for n in range(end - CONTEXT_LINES, end))


def _line(kind: LineKind, lines: Sequence[str], index: int) -> DiffLine:
    return DiffLine(kind, index + 1, lines[index].removesuffix("\n"))


def _bounded(lines: Sequence[DiffLine]) -> Iterator[DiffLine]:
    yield from lines[:MAX_LINES]
    if len(lines) > MAX_LINES:
        yield DiffLine("note", 0, f"{len(lines) - MAX_LINES:,} more lines")
