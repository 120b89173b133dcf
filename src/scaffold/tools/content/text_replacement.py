"""Replace text by text: exactly, in one place or everywhere; and what is near where it does not occur."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.line_edits import LineEdit, edit_hunks
from scaffold.tools.content.text_encoding import dominant_line_end, split_lines

MAX_NAMED = 5
"""Places that a refusal names."""
SHOWN_LINES = 12
"""Lines of a near place that a refusal shows."""
SHOWN_LINE_CHARS = 300
NEAR = 0.6
"""Lines at least this similar count as near, from 0 to 1."""
MAX_COMPARED_LINES = 20_000
"""A longer text is not searched for near places."""


class TextReplacement(Struct, frozen=True):
    """The new text, the change as edits of lines and as hunks of a unified diff, and the number of places."""

    text: str
    edits: Sequence[LineEdit]
    diff: Sequence[str]
    count: int


def replace_text(text: str, old: str, new: str, *, everywhere: bool) -> TextReplacement | Refusal:
    r"""Replace `old` in `text` by `new`; it must occur once, unless `everywhere`.

    A newline of `old` matches `\n` and `\r\n`; those of `new` become what the text uses. Otherwise the match is exact.
    """
    if not old:
        return Refusal("`old` is empty; to create a file use write_file, to add to one append_file or apply_delta.")
    if old == new:
        return Refusal("`old` and `new` are equal; there is nothing to change.")
    found = list(_matches(text, old))
    if not found:
        return Refusal(f"`old` does not occur; nothing was changed. {nearest_lines(text, old)}")
    if len(found) > 1 and not everywhere:
        lines = ", ".join(str(_line_at(text, start) + 1) for start, _ in found[:MAX_NAMED])
        more = " and more" if len(found) > MAX_NAMED else ""
        return Refusal(
            f"`old` occurs {len(found)} times, at lines {lines}{more}; nothing was changed. "
            "Take more lines around it along, or set `replace_all`."
        )
    put = new.replace("\r\n", "\n").replace("\n", dominant_line_end(text))
    edits = tuple(_line_edits(text, found, put))
    return TextReplacement(_with(text, found, put), edits, edit_hunks(split_lines(text), edits), len(found))


def nearest_lines(text: str, old: str) -> str:
    """Return the lines of `text` that are most like `old`, with their numbers, or advice if none is like it."""
    near = _most_similar_lines(text, old) if text.count("\n") <= MAX_COMPARED_LINES else ""
    return near or "Read the file to see what it contains."


def _most_similar_lines(text: str, old: str) -> str:
    lines, wanted = split_lines(text), split_lines(old)
    stripped, sought = [line.split() for line in lines], [line.split() for line in wanted]
    size = len(wanted)
    starts = [n for n in range(len(lines) - size + 1) if stripped[n : n + size] == sought]
    if starts and any(sought):
        return f"These lines differ from it only in white space:\n{_shown(lines, starts[0], size)}"
    start = _most_similar(lines, wanted)
    return "" if start is None else f"The lines most like it:\n{_shown(lines, start, size)}"


def _matches(text: str, old: str) -> Iterator[tuple[int, int]]:
    """Yield where `old` occurs, from left to right, without overlaps."""
    pattern = re.escape(old.replace("\r\n", "\n")).replace("\\\n", "\r?\n").replace("\n", "\r?\n")
    for found in re.finditer(pattern, text):
        yield found.span()


def _with(text: str, found: Sequence[tuple[int, int]], put: str) -> str:
    pieces, at = [], 0
    for start, end in found:
        pieces += [text[at:start], put]
        at = end
    return "".join([*pieces, text[at:]])


def _line_edits(text: str, found: Sequence[tuple[int, int]], put: str) -> Iterator[LineEdit]:
    """Yield the replacements as edits of whole lines; places on the same line are one edit."""
    group: list[tuple[int, int]] = []
    for place in found:
        if group and "\n" in text[group[-1][1] : place[0]]:
            yield _edit_of(text, group, put)
            group = []
        group.append(place)
    yield _edit_of(text, group, put)


def _edit_of(text: str, group: Sequence[tuple[int, int]], put: str) -> LineEdit:
    start, end = text.rfind("\n", 0, group[0][0]) + 1, group[-1][1]
    places = [(first - start, last - start) for first, last in group]
    new = _with(text[start:end], places, put)
    # What follows the last place on its line, or is drawn up to it, belongs to the lines that change.
    if text[end - 1] != "\n" or (new and not new.endswith("\n")):
        next_end = text.find("\n", end)
        end = len(text) if next_end < 0 else next_end + 1
        new = _with(text[start:end], places, put)
    first_line = _line_at(text, start)
    return LineEdit(first_line, first_line + len(split_lines(text[start:end])), split_lines(new))


def _line_at(text: str, at: int) -> int:
    return text.count("\n", 0, at)


def _most_similar(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return where the lines begin among which the longest wanted line has its most similar one."""
    offset, sample = max(enumerate(line.strip() for line in wanted), key=lambda pair: len(pair[1]), default=(0, ""))
    if not sample:
        return None
    best, found = NEAR, None
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(sample[:SHOWN_LINE_CHARS])
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:SHOWN_LINE_CHARS])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, found = ratio, number
    return None if found is None else max(0, found - offset)


def _shown(lines: Sequence[str], start: int, size: int) -> str:
    part = lines[start : start + min(size, SHOWN_LINES)]
    return "\n".join(f"{number}\t{line[:SHOWN_LINE_CHARS]}" for number, line in enumerate(part, start + 1))
