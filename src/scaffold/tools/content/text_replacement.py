"""Replace text by text: exactly, in one place or everywhere; and what is near where it does not occur."""

import re
from collections.abc import Iterable, Iterator, Sequence

from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.line_edits import EditResult, LineEdit, edit_hunks
from scaffold.tools.content.near_lines import MAX_PLACES, lines_around, lines_shown, nearest_lines
from scaffold.tools.content.text_encoding import dominant_line_end, split_lines


class TextReplacement(EditResult, frozen=True):
    """The result of a replacement in `count` places."""

    count: int


def replace_text(text: str, old: str, new: str, *, everywhere: bool) -> TextReplacement | Refusal:
    r"""Replace `old` in `text` by `new`; it must occur once, unless `everywhere`.

    A newline of `old` matches `\n` and `\r\n`; newlines of `new` become those of the text. All else matches exactly.
    """
    if not old:
        return Refusal("`old` is empty; to create a file use write_file, to add to one append_file or apply_delta.")
    if old == new:
        return Refusal("`old` and `new` are equal; there is nothing to change.")
    found = list(_find_matches(text, old))
    if not found:
        lines = old.removesuffix("\n").removesuffix("\r")
        if old.endswith("\n") and any(end == len(text) for _, end in _find_matches(text, lines)):
            why = "The file ends without a newline: leave it out of `old`, and of `new`."
        else:
            why = nearest_lines(text, old)
        return Refusal(f"`old` does not occur; nothing was changed. {why}")
    if len(found) > 1 and not everywhere:
        return _several_places(text, list(_lines_at(text, (start for start, _ in found))))
    # A match that begins within the indentation of its line: the model means another depth than the file has.
    before = text[text.rfind("\n", 0, found[0][0]) + 1 : found[0][0]]
    is_deeper = bool(old.strip()) and before.isspace() and _indent_of(old) not in {"", _indent_of(new)}
    if is_deeper and not everywhere:
        line = next(_lines_at(text, [found[0][0]]))
        return Refusal(
            f"`old` begins within the indentation of line {line + 1}, so `new` would be indented wrongly; nothing was "
            f"changed. Include the whole line:\n{lines_shown(split_lines(text), line, line + 1)}"
        )
    put = new.replace("\r\n", "\n").replace("\n", dominant_line_end(text))
    edits = tuple(_line_edits(text, found, put))
    return TextReplacement(_put_at(text, found, put), edits, edit_hunks(split_lines(text), edits), len(found))


def _several_places(text: str, lines: Sequence[int]) -> Refusal:
    named = ", ".join(str(line + 1) for line in lines[:MAX_PLACES])
    more = " and more" if len(lines) > MAX_PLACES else ""
    return Refusal(
        f"`old` occurs {len(lines)} times, at lines {named}{more}; nothing was changed. Include more lines around it, "
        "or set `replace_all`. Read the file if these lines do not tell which place is meant:\n"
        f"{lines_around(split_lines(text), lines)}"
    )


def _indent_of(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]


def _find_matches(text: str, old: str) -> Iterator[tuple[int, int]]:
    pattern = re.escape(old.replace("\r\n", "\n")).replace("\\\n", "\r?\n").replace("\n", "\r?\n")
    for found in re.finditer(pattern, text):
        yield found.span()


def _put_at(text: str, found: Sequence[tuple[int, int]], put: str) -> str:
    pieces, at = [], 0
    for start, end in found:
        pieces += [text[at:start], put]
        at = end
    return "".join([*pieces, text[at:]])


def _line_edits(text: str, found: Sequence[tuple[int, int]], put: str) -> Iterator[LineEdit]:
    groups: list[list[tuple[int, int]]] = []
    for place in found:
        if not groups or "\n" in text[groups[-1][-1][1] : place[0]]:
            groups.append([])
        groups[-1].append(place)
    lines = _lines_at(text, (group[0][0] for group in groups))
    for group, first_line in zip(groups, lines, strict=True):
        start, end = text.rfind("\n", 0, group[0][0]) + 1, group[-1][1]
        places = [(first - start, last - start) for first, last in group]
        new = _put_at(text[start:end], places, put)
        # What follows the last place on its line, or is drawn up to it, belongs to the lines that change.
        if text[end - 1] != "\n" or (new and not new.endswith("\n")):
            next_end = text.find("\n", end)
            end = len(text) if next_end < 0 else next_end + 1
            new = _put_at(text[start:end], places, put)
        yield LineEdit(first_line, first_line + len(split_lines(text[start:end])), split_lines(new))


def _lines_at(text: str, positions: Iterable[int]) -> Iterator[int]:
    # Positions ascend, so one pass through the text is enough.
    line = at = 0
    for position in positions:
        line += text.count("\n", at, position)
        at = position
        yield line
