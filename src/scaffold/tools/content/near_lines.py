"""Show a model the lines of a file that it may have meant by a text that does not occur, or occurs several times."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from scaffold.tools.content.text_encoding import split_lines

MAX_PLACES = 5
"""Places that a refusal names and shows."""
SHOWN_LINES = 12
"""Lines of a near place that a refusal shows."""
SHOWN_LINE_CHARS = 300
LINES_ABOVE, LINES_BELOW = 2, 1
"""Lines shown around each of several places."""
NEAR = 0.6
"""Lines at least this similar count as near, from 0 to 1."""
MAX_COMPARED_LINES = 20_000
"""A longer text is not searched for near places."""
MAX_EQUAL_LINES = 50
"""A line that occurs more often says nothing about the place that is meant."""
_LINE_NUMBER = re.compile(r"[ +-]?\s*\d+(?:\t|[:-] )")


def nearest_lines(text: str, old: str) -> str:
    """Return the lines of `text` that are most like `old`, with their numbers, or advice if none is like it."""
    advice = "Read the file to see what it contains."
    # Comparing takes time for each line.
    if text.count("\n") > MAX_COMPARED_LINES:
        return advice
    lines, wanted = split_lines(text), split_lines(old)
    plain = without_line_numbers(wanted)
    if plain is not None and (start := _same_words(lines, plain)) is not None:
        shown = lines_shown(lines, start, start + min(len(wanted), SHOWN_LINES))
        return f"Leave out the line numbers, in the new text too. The lines are:\n{shown}"
    if (start := _same_words(lines, wanted)) is not None:
        return f"These lines differ from it only in white space:\n{_where_it_differs(lines, wanted, start)}"
    starts = [*_with_equal_lines(lines, wanted), *_with_similar_line(lines, wanted)]
    start = max(starts, key=lambda start: _block_likeness(lines, wanted, start), default=None)
    return advice if start is None else f"The lines most like it:\n{_where_it_differs(lines, wanted, start)}"


def lines_around(lines: Sequence[str], starts: Sequence[int]) -> str:
    """Return the lines around each of the first places (0-based), with their numbers, and `--` between the places."""
    shown = dict.fromkeys(starts)
    around = (lines_shown(lines, max(0, at - LINES_ABOVE), at + LINES_BELOW + 1) for at in list(shown)[:MAX_PLACES])
    return "\n--\n".join(around)


def lines_shown(lines: Sequence[str], start: int, end: int) -> str:
    """Return the lines from `start` to `end` (0-based, `end` exclusive), each with its number."""
    part = lines[start:end]
    return "\n".join(f"{number}\t{line[:SHOWN_LINE_CHARS]}" for number, line in enumerate(part, start + 1))


def without_line_numbers(lines: Sequence[str]) -> Sequence[str] | None:
    """Return lines without the numbers that tools show before them; None unless each line has one."""
    if not lines or not all(map(_LINE_NUMBER.match, lines)):
        return None
    return [_LINE_NUMBER.sub("", line, count=1) for line in lines]


def _where_it_differs(lines: Sequence[str], wanted: Sequence[str], start: int) -> str:
    # Of many lines those around the first difference matter.
    pairs = enumerate(zip(lines[start:], wanted, strict=False))
    first = next((at for at, (line, sought) in pairs if line != sought), 0)
    skipped = max(0, first - LINES_ABOVE) if len(wanted) > SHOWN_LINES else 0
    return lines_shown(lines, start + skipped, start + min(len(wanted), skipped + SHOWN_LINES))


def _same_words(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    # Models often get only the white space wrong.
    there, sought = [line.split() for line in lines], [line.split() for line in wanted]
    if not any(sought):
        return None
    size = len(wanted)
    return next((n for n in range(len(lines) - size + 1) if there[n : n + size] == sought), None)


def _with_equal_lines(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    # Lines with most text first: `}` is everywhere.
    sought = {line.strip() for line in wanted} - {""}
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if (stripped := line.strip()) in sought:
            places.setdefault(stripped, []).append(number)
    votes = Counter[int]()
    for offset, line in enumerate(wanted):
        found = places.get(line.strip(), ())
        for number in found if len(found) <= MAX_EQUAL_LINES else ():
            votes[max(0, number - offset)] += len(line.strip())
    yield from (start for start, _ in votes.most_common(MAX_PLACES))


def _with_similar_line(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    # The longest line says most about the place that is meant.
    offset, sample = max(enumerate(line.strip() for line in wanted), key=lambda pair: len(pair[1]), default=(0, ""))
    if not sample:
        return
    best, found = NEAR, None
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(sample[:SHOWN_LINE_CHARS])
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:SHOWN_LINE_CHARS])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, found = ratio, number
    if found is not None:
        yield max(0, found - offset)


def _block_likeness(lines: Sequence[str], wanted: Sequence[str], start: int) -> float:
    total = 0.0
    for line, sought in zip(lines[start : start + SHOWN_LINES], map(str.strip, wanted), strict=False):
        one, other = line.strip()[:SHOWN_LINE_CHARS], sought[:SHOWN_LINE_CHARS]
        total += SequenceMatcher(None, one, other, autojunk=False).ratio() * len(sought)
    return total
