"""Changes to the lines of a text: all at once, each against the numbering before, and only where they fit."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct

from scaffold.policy.paths import Refusal
from scaffold.tools.text import line_end, lines_of

Operation = Literal["insert", "replace", "delete"]
CONTEXT_LINES = 2
HINTED_LINES = 20


class Change(Struct, frozen=True):
    """One operation on the lines `start` to `end`, from 0, without `end`; both are the same where it only inserts."""

    start: int
    end: int
    new: Sequence[str]
    expected: Sequence[str] | None = None


class Outcome(Struct, frozen=True):
    """The new text, what changed as hunks of a unified diff, and where expected text fitted only nearly."""

    text: str
    diff: Sequence[str]
    warnings: Sequence[str]


def read_changes(operations: Sequence[Mapping[str, Any]]) -> tuple[Change, ...] | Refusal:
    """Return what the operations of a call mean, in the order of the lines they touch, or what is wrong with one."""
    if not operations:
        return Refusal("`operations` is empty; give at least one.")
    changes = []
    for number, operation in enumerate(operations, 1):
        change = _read(operation)
        if isinstance(change, Refusal):
            return Refusal(f"Operation {number}: {change.reason}")
        changes.append(change)
    return tuple(sorted(changes, key=lambda change: (change.start, change.end)))


def apply(text: str, changes: Sequence[Change]) -> Outcome | Refusal:
    """Carry out `changes`, sorted, on `text`, or say why none was: one outside, two that overlap, one unexpected.

    Lines that stay keep their ends; new ones end like most lines. A last line without an end stays without one
    unless it is empty and would be none.
    """
    lines = lines_of(text)
    warnings: list[str] = []
    for earlier, later in pairwise(changes):
        if later.start < earlier.end:
            return Refusal(f"Operations on lines {_span(earlier)} and {_span(later)} overlap; make them one operation.")
    for change in changes:
        problem = _misplaced(change, lines) or _unexpected(change, lines, warnings)
        if problem:
            return problem
    return Outcome(_joined(text, lines, changes), tuple(_hunks(lines, changes)), warnings)


def _read(operation: Mapping[str, Any]) -> Change | Refusal:
    kind: Operation = operation["operation"]
    expected = (_block(operation["expected"]) or [""]) if "expected" in operation else None
    start = operation["start_line"] - 1
    if kind == "insert":
        if "end_line" in operation:
            return Refusal("`insert` has no `end_line`; it puts `content` before `start_line`.")
        if not operation.get("content"):
            return Refusal("`insert` needs `content`.")
        return Change(start, start, _block(operation["content"]), expected)
    if (kind == "replace") != ("content" in operation):
        return Refusal("`replace` needs `content`." if kind == "replace" else "`delete` has no `content`; use replace.")
    end = operation.get("end_line", start + max(1, len(expected or ())))
    if end <= start:
        return Refusal(f"`end_line` {end} is before `start_line` {start + 1}.")
    return Change(start, end, _block(operation.get("content", "")), expected)


def _block(text: str) -> list[str]:
    return lines_of(text) if text else []


def _misplaced(change: Change, lines: Sequence[str]) -> Refusal | None:
    last = len(lines) if change.end > change.start else len(lines) + 1
    if change.start < last and change.end <= len(lines):
        return None
    return Refusal(f"Lines {_span(change)} are not there, the file has {len(lines)} lines; read it again.")


def _unexpected(change: Change, lines: Sequence[str], warnings: list[str]) -> Refusal | None:
    """Return why the lines are not those that `change` expects; note in `warnings` if only white space differs."""
    expected = change.expected
    if expected is None:
        return None
    end = change.end if change.end > change.start else change.start + len(expected)
    there = lines[change.start : end]
    if there == expected:
        return None
    if [_plain(line) for line in there] == [_plain(line) for line in expected]:
        warnings.append(f"Lines {_span(change)} fit `expected` only apart from white space; look at the diff.")
        return None
    shown = "\n".join(f"{change.start + n}\t{line[:400]}" for n, line in enumerate(there[:HINTED_LINES], 1))
    elsewhere = _places(lines, expected)
    hint = f"What is expected stands at line {', '.join(map(str, elsewhere))}. " if elsewhere else ""
    return Refusal(
        f"Lines {_span(change)} are not what is expected, nothing is changed. {hint}They are:\n{shown or '(no lines)'}"
    )


def _plain(line: str) -> str:
    return " ".join(line.split())


def _places(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the numbers of lines, a few, where exactly the `wanted` lines begin."""
    if not wanted:
        return []
    starts = (n for n, line in enumerate(lines) if line == wanted[0])
    found = (n + 1 for n in starts if list(lines[n : n + len(wanted)]) == list(wanted))
    return [place for place, _ in zip(found, range(5), strict=False)]


def _joined(text: str, lines: Sequence[str], changes: Sequence[Change]) -> str:
    usual = line_end(text)
    old = text.split("\n")
    ends = [_end_of(raw, is_last=number == len(old)) for number, raw in enumerate(old[: len(lines)], 1)]
    final = ends[-1] if ends else usual
    kept: list[tuple[str, str]] = []
    at = 0
    for change in changes:
        kept += zip(lines[at : change.start], ends[at : change.start], strict=True)
        kept += ((line, usual) for line in change.new)
        at = change.end
    kept += zip(lines[at:], ends[at:], strict=True)
    if not kept:
        return ""
    whole = "".join(line + (end or usual) for line, end in kept[:-1])
    line, end = kept[-1]
    return whole + line + ((end or usual) if final or not line else "")


def _end_of(raw: str, *, is_last: bool) -> str:
    if is_last:
        return ""
    return "\r\n" if raw.endswith("\r") else "\n"


def _hunks(lines: Sequence[str], changes: Sequence[Change]) -> Iterator[str]:
    grown = 0
    for group in _groups(changes):
        first = max(0, group[0].start - CONTEXT_LINES)
        last = min(len(lines), group[-1].end + CONTEXT_LINES)
        growth = sum(len(change.new) - (change.end - change.start) for change in group)
        yield f"@@ -{first + 1},{last - first} +{first + grown + 1},{last - first + growth} @@"
        grown += growth
        at = first
        for change in group:
            yield from (f" {line}" for line in lines[at : change.start])
            yield from (f"-{line}" for line in lines[change.start : change.end])
            yield from (f"+{line}" for line in change.new)
            at = change.end
        yield from (f" {line}" for line in lines[at:last])


def _groups(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Yield changes whose surroundings touch, together."""
    group: list[Change] = []
    for change in changes:
        if group and change.start - group[-1].end > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _span(change: Change) -> str:
    if change.end <= change.start + 1:
        return f"{change.start + 1}"
    return f"{change.start + 1}-{change.end}"
