"""Finding lines in files, here or in a process of its own: `python -m scaffold.tools.seeking < SEARCH`."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.policy.globs import matches
from scaffold.policy.paths import Refusal
from scaffold.tools.files import readable_text
from scaffold.tools.text import lines_of
from scaffold.tools.walk import files_below
from scaffold.tools.workspace import ANSWER_LIMIT

SHOWN_LINE = 400
ENCODING_ERRORS = "surrogatepass"
"""Names of files that are no text reach us as half surrogate pairs, and have to pass between processes."""


class Query(Struct, frozen=True):
    """What is searched for; `glob` is matched against names, or against whole paths if it has a slash."""

    pattern: str
    glob: str | None
    context_lines: int
    max_matches: int


class Search(Struct, frozen=True):
    """A query and where: the files below `place`, or only `files`, in their order; `root` is what paths begin at."""

    root: Path
    place: Path
    files: Sequence[Path] | None
    query: Query


class Hits(Struct, frozen=True):
    """The matching lines of one file: its path, its lines and the indexes, from 0, of those that match.

    Files beyond the last match that is shown keep no lines.
    """

    path: str
    lines: Sequence[str]
    matches: Sequence[int]


def found(search: Search) -> str:
    """Return the report on a search: counts first, then for each file its path and its lines."""
    files = files_below(search.place) if search.files is None else search.files
    return _report(list(_hits(search.root, files, search.query)), search.query)


def packed(search: Search) -> bytes:
    """Return a search as JSON, for the process that carries it out."""
    query = search.query
    return json.dumps(
        {
            "root": str(search.root),
            "place": str(search.place),
            "files": None if search.files is None else [str(file) for file in search.files],
            "query": [query.pattern, query.glob, query.context_lines, query.max_matches],
        }
    ).encode()


def unpacked(data: bytes) -> Search:
    """Return what `packed` was given."""
    said = json.loads(data)
    files = None if said["files"] is None else [Path(file) for file in said["files"]]
    return Search(Path(said["root"]), Path(said["place"]), files, Query(*said["query"]))


def _hits(root: Path, files: Iterable[Path], query: Query) -> Iterator[Hits]:
    pattern = re.compile(query.pattern)
    matched = 0
    for file in files:
        path = file.relative_to(root).as_posix()
        if query.glob is not None and not _like(path, query.glob):
            continue
        decoded = readable_text(root, file, path)
        if isinstance(decoded, Refusal):
            continue
        lines = lines_of(decoded.text)
        matching = [index for index, line in enumerate(lines) if pattern.search(line)]
        if matching:
            yield Hits(path, lines if matched < query.max_matches else (), matching)
            matched += len(matching)


def _like(path: str, glob: str) -> bool:
    return matches(glob, path if "/" in glob else path.rpartition("/")[2])


def _report(found: Sequence[Hits], query: Query) -> str:
    total = sum(len(hits.matches) for hits in found)
    report = [f"total_matches_found {total}, matched_files {len(found)}"]
    room, left = ANSWER_LIMIT, query.max_matches
    for line, matching in _lines(found, query):
        room -= len(line) + 1
        if room < 0:
            break
        report.append(line)
        left -= matching
    shown = query.max_matches - left
    if shown < total:
        report.append(f"... {total - shown} more matches; narrow `pattern`, `path` or `glob`.")
    return "\n".join(report)


def _lines(found: Sequence[Hits], query: Query) -> Iterator[tuple[str, bool]]:
    """Yield what a report says of each file, line by line, and whether the line is a match."""
    left = query.max_matches
    for hits in found:
        shown = hits.matches[: max(left, 0)]
        left -= len(hits.matches)
        if shown:
            yield hits.path, False
            yield from _passages(hits, shown, query.context_lines)


def _passages(hits: Hits, shown: Sequence[int], around: int) -> Iterator[tuple[str, bool]]:
    """Yield matches and what is around them, each line once, `--` where lines are left out in between."""
    wanted = sorted({n for m in shown for n in range(max(0, m - around), min(len(hits.lines), m + around + 1))})
    matching = frozenset(shown)
    previous = None
    for index in wanted:
        if around and previous is not None and index > previous + 1:
            yield "--", False
        mark = ":" if index in matching else "-"
        yield f"{index + 1}{mark} {hits.lines[index][:SHOWN_LINE]}", index in matching
        previous = index


if __name__ == "__main__":
    report = found(unpacked(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(report.encode(errors=ENCODING_ERRORS))
