"""Apply line edits to a text: all or none, by the line numbers before the edits."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.near_lines import lines_shown, without_line_numbers
from scaffold.tools.content.text_encoding import dominant_line_end, split_lines

Operation = Literal["insert", "replace", "delete"]
CONTEXT_LINES = 2
HINTED_LINES = 20


class LineEdit(Struct, frozen=True):
    """Replace the lines `start` to `end` (0-based, `end` exclusive) by `new`; equal for an insertion."""

    start: int
    end: int
    new: Sequence[str]
    expected: Sequence[str] | None = None


class EditResult(Struct, frozen=True):
    """The new text, and the change as edits of lines and as hunks of a unified diff."""

    text: str
    edits: Sequence[LineEdit]
    diff: Sequence[str]


def parse_edits(operations: Sequence[Mapping[str, Any]]) -> tuple[LineEdit, ...] | Refusal:
    """Return a call's operations as edits sorted by line, or the problem of the first bad one."""
    if not operations:
        return Refusal("`operations` is empty; give at least one.")
    changes = []
    for number, operation in enumerate(operations, 1):
        change = _read_operation(operation)
        if isinstance(change, Refusal):
            return Refusal(f"Operation {number}: {change.reason}")
        changes.append(change)
    return tuple(sorted(changes, key=lambda change: (change.start, change.end)))


def apply_edits(text: str, changes: Sequence[LineEdit]) -> EditResult | Refusal:
    """Apply the sorted `changes` to `text`, or return why none applies: out of range, overlap, unexpected lines.

    Kept lines keep their line endings; new ones get the most common one. A missing final newline stays missing,
    except after an empty last line, which would vanish without it.
    """
    lines = split_lines(text)
    for earlier, later in pairwise(changes):
        if later.start < earlier.end:
            return Refusal(f"Operations on {span_of(earlier)} and {span_of(later)} overlap; make them one operation.")
    for change in changes:
        last = len(lines) if change.end > change.start else len(lines) + 1
        if change.start >= last or change.end > len(lines):
            count = count_of(len(lines), "line")
            return Refusal(f"Cannot change {span_of(change)}: the file has {count}; read it again.")
        if problem := _expected_mismatch(change, lines):
            return problem
    return EditResult(_join_edited(text, lines, changes), changes, edit_hunks(lines, changes))


def edit_hunks(lines: Sequence[str], changes: Sequence[LineEdit]) -> Sequence[str]:
    """Return the hunks of a unified diff for edits of these lines."""
    return tuple(_edit_hunks(lines, changes))


def span_of(change: LineEdit) -> str:
    """Return the lines of an edit in words: `line 3`, `lines 3-5`."""
    if change.end <= change.start + 1:
        return f"line {change.start + 1}"
    return f"lines {change.start + 1}-{change.end}"


def _read_operation(operation: Mapping[str, Any]) -> LineEdit | Refusal:
    kind: Operation = operation["operation"]
    expected = (_block_lines(operation["expected"]) or [""]) if "expected" in operation else None
    start = operation["start_line"] - 1
    if kind == "insert":
        if "end_line" in operation:
            return Refusal("`insert` has no `end_line`; it puts `content` before `start_line`.")
        if not operation.get("content"):
            return Refusal("`insert` needs `content`.")
        return LineEdit(start, start, _block_lines(operation["content"]), expected)
    if (kind == "replace") != ("content" in operation):
        return Refusal("`replace` needs `content`." if kind == "replace" else "`delete` has no `content`; use replace.")
    end = operation.get("end_line", start + max(1, len(expected or ())))
    if end <= start:
        return Refusal(f"`end_line` {end} is before `start_line` {start + 1}.")
    return LineEdit(start, end, _block_lines(operation.get("content", "")), expected)


def _block_lines(text: str) -> list[str]:
    return split_lines(text) if text else []


def _expected_mismatch(change: LineEdit, lines: Sequence[str]) -> Refusal | None:
    # To the last space: a model that misremembers a line would change another one than it means.
    expected = change.expected
    if expected is None:
        return None
    end = change.end if change.end > change.start else change.start + len(expected)
    current = lines[change.start : end]
    if current == expected:
        return None
    if without_line_numbers(expected) == current:
        return Refusal(
            f"`expected` has line numbers before the lines; nothing was changed. Leave out the numbers, in `content` "
            f"too:\n{lines_shown(lines, change.start, end)}"
        )
    blank = [_single_spaced(line) for line in current] == [_single_spaced(line) for line in expected]
    how = "differs in white space from" if blank else "does not match"
    shown = "\n".join(f"{change.start + n}\t{line[:400]}" for n, line in enumerate(current[:HINTED_LINES], 1))
    starts = (n for n, line in enumerate(lines) if expected and line == expected[0])
    found = (n + 1 for n in starts if list(lines[n : n + len(expected)]) == list(expected))
    elsewhere = [number for number, _ in zip(found, range(5), strict=False)]
    hint = f"It is at line {', '.join(map(str, elsewhere))}. " if elsewhere else ""
    return Refusal(
        f"`expected` {how} {span_of(change)}; nothing was changed. {hint}Current lines:\n{shown or '(no lines)'}"
    )


def _single_spaced(line: str) -> str:
    return " ".join(line.split())


def _join_edited(text: str, lines: Sequence[str], changes: Sequence[LineEdit]) -> str:
    usual = dominant_line_end(text)
    old = text.split("\n")
    ends = ["\r\n" if raw.endswith("\r") else "\n" for raw in old[: len(lines)]]
    if len(old) <= len(lines):  # the last line has no newline
        ends[-1] = ""
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


def _edit_hunks(lines: Sequence[str], changes: Sequence[LineEdit]) -> Iterator[str]:
    grown = 0
    for group in _edit_groups(changes):
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


def _edit_groups(changes: Sequence[LineEdit]) -> Iterator[Sequence[LineEdit]]:
    group: list[LineEdit] = []
    for change in changes:
        if group and change.start - group[-1].end > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group
