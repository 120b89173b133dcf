"""Find the places of a patch's sections in a file, and turn them into edits of its lines.

A section belongs where its lines occur once, or once behind its anchors. White space at the ends of lines may differ:
lines that stay are never rewritten. Anything else is refused, as guessing would change other lines than were meant.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.policy.path.containment import Refusal
from scaffold.policy.path.patch_text import PatchSection
from scaffold.tools.content.line_edits import EditResult, LineEdit, apply_edits
from scaffold.tools.content.near_lines import MAX_PLACES, lines_around, nearest_lines
from scaffold.tools.content.text_encoding import split_lines


class PatchedText(EditResult, frozen=True):
    """The result of a patch, and the places that matched except for white space."""

    inexact: Sequence[int]
    """First line numbers, from 1, of the sections with other white space at the ends of lines."""


class _SectionPlace(Struct, frozen=True):
    start: int
    exact: bool


def apply_sections(text: str, sections: Sequence[PatchSection]) -> PatchedText | Refusal:
    """Apply all sections to `text`, or return why one does not fit. Their places are those before any of them."""
    lines, edits, inexact = split_lines(text), list[LineEdit](), list[int]()
    for section in sections:
        place = _find_place(lines, section)
        if isinstance(place, Refusal):
            return place
        edits += _section_edits(section, place.start)
        inexact += [] if place.exact else [place.start + 1]
    edits.sort(key=lambda edit: (edit.start, edit.end))
    outcome = apply_edits(text, edits)
    if isinstance(outcome, Refusal):
        return outcome
    return PatchedText(outcome.text, outcome.edits, outcome.diff, tuple(sorted(inexact)))


def _section_edits(section: PatchSection, start: int) -> Iterator[LineEdit]:
    # Lines that stay are in no edit, so their white space stays, too.
    at, removed, added = start, 0, list[str]()
    for mark, text in section.lines:
        if mark == " ":
            if removed or added:
                yield LineEdit(at, at + removed, tuple(added))
            at, removed, added = at + removed + 1, 0, []
        elif mark == "-":
            removed += 1
        else:
            added.append(text)
    if removed or added:
        yield LineEdit(at, at + removed, tuple(added))


def _find_place(lines: Sequence[str], section: PatchSection) -> _SectionPlace | Refusal:
    if not section.old:
        if lines and not section.at_end:
            added = _join_lines([text for _, text in section.lines])
            return Refusal(
                "Where do these lines belong? Include a line before or after them, with a space before it, or put "
                f"`*** End of File` after them:\n{added}"
            )
        return _SectionPlace(len(lines), exact=True)
    if missing := next(
        (anchor for anchor in section.anchors if not any(_is_anchor(line, anchor) for line in lines)), ""
    ):
        return Refusal(f"No line is `{missing}`, as `@@` says. {nearest_lines(_join_lines(lines), missing)}")
    for exact, like in ((True, str), (False, str.rstrip)):
        if found := _behind_anchors(lines, section, _find_section(lines, section, like)):
            return _SectionPlace(found[0], exact) if len(found) == 1 else _ambiguous_refusal(lines, section, found)
    text, old = _join_lines(lines), _join_lines(section.old)
    behind = "".join(f" behind `{anchor}`" for anchor in section.anchors[-1:])
    where = f"{behind} at the end of the file" if section.at_end else behind
    return Refusal(f"These lines do not occur{where}:\n{old}\n{nearest_lines(text, old)}")


def _find_section(lines: Sequence[str], section: PatchSection, like: Callable[[str], str]) -> list[int]:
    old = [like(line) for line in section.old]
    size = len(old)
    found = (n for n in range(len(lines) - size + 1) if like(lines[n]) == old[0])
    starts = [n for n in found if [like(line) for line in lines[n : n + size]] == old]
    return [n for n in starts if n + size == len(lines)] if section.at_end else starts


def _behind_anchors(lines: Sequence[str], section: PatchSection, starts: list[int]) -> list[int]:
    if not section.anchors or not starts:
        return starts
    first, *others = ([n for n, line in enumerate(lines) if _is_anchor(line, anchor)] for anchor in section.anchors)
    found: set[int] = set()
    for begin in first:
        at: int | None = begin
        for places in others:
            at = None if at is None else _first_from(places, at + 1)
        # The section may repeat the last anchor as its first line.
        place = None if at is None else _first_from(starts, at)
        found |= set() if place is None else {place}
    return sorted(found)


def _first_from(places: list[int], at: int) -> int | None:
    index = bisect_left(places, at)
    return places[index] if index < len(places) else None


def _is_anchor(line: str, anchor: str) -> bool:
    return line.strip() == anchor.strip()


def _ambiguous_refusal(lines: Sequence[str], section: PatchSection, found: Sequence[int]) -> Refusal:
    named = ", ".join(str(n + 1) for n in found[:MAX_PLACES])
    more = " and more" if len(found) > MAX_PLACES else ""
    return Refusal(
        f"These lines occur {count_of(len(found), 'time')}, at lines {named}{more}. Include more lines around them, "
        "or say with `@@ LINE` which line comes before them, such as that of their function or class:\n"
        f"{_join_lines(section.old)}\n"
        f"The places are these; read the file if they do not tell which is meant:\n{lines_around(lines, found)}"
    )


def _join_lines(lines: Sequence[str]) -> str:
    return "\n".join(lines)
