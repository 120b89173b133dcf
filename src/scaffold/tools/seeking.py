"""Finding lines in files, here or in a process of its own: `python -m scaffold.tools.seeking < SEARCH`."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from scaffold.policy.globs import matches
from scaffold.policy.paths import Refusal
from scaffold.policy.secrets import secret_by
from scaffold.tools.files import text_of
from scaffold.tools.passage import blocks, pieces
from scaffold.tools.regular import opened
from scaffold.tools.text import Decoded, lines_of
from scaffold.tools.walk import files_below
from scaffold.tools.workspace import ANSWER_LIMIT, Patience, Place, shown_name

SHOWN_LINE = 400
SEARCHED_LINE = 1_000_000
"""Characters of a line, in a file too long to be read whole, that are looked at."""
MOST_GLOBS = 100
"""That a glob with choices is spelled out to."""
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
"""The innermost of those that lie in one another."""
ENCODING_ERRORS = "surrogatepass"
"""Names of files that are no text reach us as half surrogate pairs, and have to pass between processes."""


class Query(Struct, frozen=True):
    """What is searched for; `glob` is matched against names, or against whole paths if it has a slash."""

    pattern: str
    glob: str | None
    context_lines: int
    max_matches: int


class Search(Struct, frozen=True):
    """A query and where: the files below `place`, or only `files`, in their order; `root` is what paths begin at.

    With `absolute` the report names whole paths, else those from `root` on.
    """

    root: Path
    place: Path
    files: Sequence[Path] | None
    query: Query
    absolute: bool = False


class OutOfTime(Exception):
    """A search was not done within its time."""


class Hits(Struct, frozen=True):
    """The matches of one file: its path, how many there are, the indexes, from 0, of those to be shown, and lines.

    `lines` are those that match and what is around them, by index; no more than are shown.
    """

    path: str
    count: int
    shown: Sequence[int]
    lines: Mapping[int, str]


def found(search: Search, patience: Patience) -> str:
    """Return the report on a search: counts first, then for each file its path and its lines; OutOfTime."""
    files = files_below(search.place) if search.files is None else search.files
    return _report(list(_hits(search, files, patience)), search.query)


def packed(search: Search) -> bytes:
    """Return a search as JSON, for the process that carries it out."""
    query = search.query
    return json.dumps(
        {
            "root": str(search.root),
            "place": str(search.place),
            "files": None if search.files is None else [str(file) for file in search.files],
            "absolute": search.absolute,
            "query": [query.pattern, query.glob, query.context_lines, query.max_matches],
        }
    ).encode()


def unpacked(data: bytes) -> Search:
    """Return what `packed` was given."""
    said = json.loads(data)
    files = None if said["files"] is None else [Path(file) for file in said["files"]]
    return Search(Path(said["root"]), Path(said["place"]), files, Query(*said["query"]), said["absolute"])


def _hits(search: Search, files: Iterable[Path], patience: Patience) -> Iterator[Hits]:
    query = search.query
    pattern = re.compile(query.pattern)
    room = query.max_matches
    for file in files:
        if patience.is_over:
            raise OutOfTime
        path = file.relative_to(search.root).as_posix()
        if (query.glob is not None and not _like(path, query.glob)) or secret_by(path):
            continue
        tally = _Tally(pattern, room, query.context_lines)
        for lines in _lines_in(Place(search.root, file), patience):
            tally.take(lines)
        if tally.count:
            yield Hits(str(file) if search.absolute else path, tally.count, tally.shown, tally.lines)
            room -= len(tally.shown)


def _lines_in(place: Place, patience: Patience) -> Iterator[Sequence[str]]:
    """Yield the lines of a file, many at once; none of one that cannot be read as text."""
    text = text_of(place, place.path.name)
    if isinstance(text, Refusal):
        return
    if isinstance(text, Decoded):
        yield lines_of(text.text)
        return
    with opened(place.folder, place.path, os.O_RDONLY) as fd:
        yield from blocks(pieces(fd, text, patience), SEARCHED_LINE)
    if patience.is_over:
        raise OutOfTime


class _Tally:
    """Matches in lines that come in parts: all are counted, the first `room` kept with the lines around them."""

    def __init__(self, pattern: re.Pattern[str], room: int, around: int) -> None:
        self._pattern = pattern
        self._room = room
        self._around = around
        self._taken = 0
        self._before: Sequence[str] = ()
        """The last lines that were taken."""
        self.count = 0
        self.shown: list[int] = []
        self.lines: dict[int, str] = {}

    def take(self, lines: Sequence[str]) -> None:
        """Take the next lines."""
        matching = [at for at, line in enumerate(lines, self._taken) if self._pattern.search(line)]
        earlier = self.shown[-1:]  # what is around the last one may go on here
        new = matching[: self._room - len(self.shown)]
        self.count += len(matching)
        self.shown += new
        first = self._taken - len(self._before)
        known = [*self._before, *lines] if new or earlier else lines
        for match in (*earlier, *new):
            start = max(first, match - self._around)
            for at in range(start, min(match + self._around + 1, first + len(known))):
                self.lines[at] = known[at - first][:SHOWN_LINE]
        self._taken += len(lines)
        self._before = [*self._before, *lines[-self._around :]][-self._around :] if self._around else ()


def _like(path: str, glob: str) -> bool:
    sought = path if "/" in glob else path.rpartition("/")[2]
    return any(matches(each, sought) for each in _spelled_out(glob))


@lru_cache(maxsize=32)
def _spelled_out(glob: str) -> tuple[str, ...]:
    """Return what a glob with choices stands for: itself, and `*.py` and `*.md` if it is `*.{py,md}`."""
    done, waiting = [glob], [glob]
    while waiting:
        each = waiting.pop()
        choice = _CHOICE.search(each)
        if choice is None or len(done) + len(waiting) > MOST_GLOBS:
            done.append(each)
        else:
            waiting += (f"{each[: choice.start()]}{word}{each[choice.end() :]}" for word in choice[1].split(","))
    return tuple(dict.fromkeys(done))


def _report(found: Sequence[Hits], query: Query) -> str:
    total = sum(hits.count for hits in found)
    report = [f"total_matches_found {total}, matched_files {len(found)}"]
    room, left = ANSWER_LIMIT, query.max_matches
    for line, matching in _lines(found, query.context_lines):
        room -= len(line) + 1
        if room < 0:
            break
        report.append(line)
        left -= matching
    shown = query.max_matches - left
    if shown < total:
        report.append(f"... {total - shown} more matches; narrow `pattern`, `path` or `glob`.")
    return "\n".join(report)


def _lines(found: Sequence[Hits], around: int) -> Iterator[tuple[str, bool]]:
    """Yield what a report says of each file, line by line, and whether the line is a match."""
    for hits in found:
        if hits.shown:
            yield shown_name(hits.path), False
            yield from _passages(hits, around)


def _passages(hits: Hits, around: int) -> Iterator[tuple[str, bool]]:
    """Yield matches and what is around them, each line once, `--` where lines are left out in between."""
    matching = frozenset(hits.shown)
    previous = None
    for index in sorted(hits.lines):
        if around and previous is not None and index > previous + 1:
            yield "--", False
        mark = ":" if index in matching else "-"
        yield f"{index + 1}{mark} {hits.lines[index]}", index in matching
        previous = index


if __name__ == "__main__":
    report = found(unpacked(sys.stdin.buffer.read()), Patience(float("inf")))
    sys.stdout.buffer.write(report.encode(errors=ENCODING_ERRORS))
