"""Find lines in files, here or in a separate process: `python -m scaffold.tools.search.grep_process < SEARCH`."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from scaffold.policy.path.containment import Refusal
from scaffold.policy.path.globs import matches
from scaffold.policy.secret.unreadable_files import secret_entry
from scaffold.tools.content.near_paths import files_below
from scaffold.tools.content.safe_open import open_file
from scaffold.tools.content.text_encoding import Decoded, split_lines
from scaffold.tools.file.line_reader import batched_lines, decode_chunks
from scaffold.tools.file.read_write import decode_file
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Deadline, ReadablePath, printable_name

MAX_SHOWN_CHARS = 400
MAX_SEARCHED_CHARS = 1_000_000
"""In a file too long to read whole, only this many characters of a line are searched."""
MAX_GLOBS = 100
"""Limit of the globs that one glob with `{a,b}` choices expands to."""
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
"""An innermost choice."""
ENCODING_ERRORS = "surrogatepass"
"""Undecodable file names contain lone surrogates, which must survive the transfer between processes."""


class SearchQuery(Struct, frozen=True):
    """What to search for; `glob` matches file names, or whole paths if it contains a slash."""

    pattern: str
    glob: str | None
    context_lines: int
    max_matches: int


class SearchRequest(Struct, frozen=True):
    """A query and where to run it: on `files` in their order, or on all files below `folder` if None.

    The report names paths relative to `root`, or absolute ones with `absolute`.
    """

    root: Path
    folder: Path
    files: Sequence[Path] | None
    query: SearchQuery
    absolute: bool = False


class SearchTimeout(Exception):
    """A search did not finish before its deadline."""


_LINE_BREAK = re.compile(r"\n|(?<!\\)(?:\\\\)*\\n")
_SPECIAL = re.compile(r"[()\[\]{}*+?|^$]")
"""Characters with a meaning in a pattern; a dot is left out, as it matches itself, too."""


class FileMatches(Struct, frozen=True):
    """The matches of one file: path, count, 0-based line indexes of the shown matches, and lines.

    `lines` maps the index to the text of each shown match and context line.
    """

    path: str
    count: int
    shown: Sequence[int]
    lines: Mapping[int, str]


def run_search(search: SearchRequest, deadline: Deadline) -> str:
    """Return the search report: counts first, then each file's path and lines. Raises SearchTimeout."""
    files = files_below(search.folder) if search.files is None else search.files
    return _search_report(list(_matching_files(search, files, deadline)), search.query)


def encode_search(search: SearchRequest) -> bytes:
    """Return a search as JSON, for the process that runs it."""
    query = search.query
    return json.dumps(
        {
            "root": str(search.root),
            "folder": str(search.folder),
            "files": None if search.files is None else [str(file) for file in search.files],
            "absolute": search.absolute,
            "query": [query.pattern, query.glob, query.context_lines, query.max_matches],
        }
    ).encode()


def decode_search(data: bytes) -> SearchRequest:
    """Return the search that `encode_search` encoded."""
    fields = json.loads(data)
    files = None if fields["files"] is None else [Path(file) for file in fields["files"]]
    query = SearchQuery(*fields["query"])
    return SearchRequest(Path(fields["root"]), Path(fields["folder"]), files, query, fields["absolute"])


def _matching_files(search: SearchRequest, files: Iterable[Path], deadline: Deadline) -> Iterator[FileMatches]:
    query = search.query
    pattern = re.compile(query.pattern)
    room = query.max_matches
    for file in files:
        if deadline.expired:
            raise SearchTimeout
        path = file.relative_to(search.root).as_posix()
        if (query.glob is not None and not matches_glob(path, query.glob)) or secret_entry(path):
            continue
        tally = _MatchCollector(pattern, room, query.context_lines)
        for lines in _lines_in(ReadablePath(search.root, file), deadline):
            tally.take(lines)
        if tally.count:
            yield FileMatches(str(file) if search.absolute else path, tally.count, tally.shown, tally.lines)
            # Matches beyond the limit are still counted, so the other files are searched as well.
            room -= len(tally.shown)


def _lines_in(readable: ReadablePath, deadline: Deadline) -> Iterator[Sequence[str]]:
    text = decode_file(readable, readable.path.name)
    if isinstance(text, Refusal):
        return
    if isinstance(text, Decoded):
        yield split_lines(text.text)
        return
    with open_file(readable.folder, readable.path, os.O_RDONLY) as fd:
        yield from batched_lines(decode_chunks(fd, text, deadline), MAX_SEARCHED_CHARS)
    if deadline.expired:
        raise SearchTimeout


class _MatchCollector:
    """Collects matches from batches of lines: counts all, keeps the first `room` with `around` context lines."""

    def __init__(self, pattern: re.Pattern[str], room: int, around: int) -> None:
        self._pattern = pattern
        self._room = room
        self._around = around
        self._taken = 0
        self._before: Sequence[str] = ()
        """The last lines of the previous batches, as context."""
        self.count = 0
        self.shown: list[int] = []
        self.lines: dict[int, str] = {}

    def take(self, lines: Sequence[str]) -> None:
        """Search the next batch of lines."""
        matching = [at for at, line in enumerate(lines, self._taken) if self._pattern.search(line)]
        earlier = self.shown[-1:]  # the context after the last match may continue in this batch
        new = matching[: self._room - len(self.shown)]
        self.count += len(matching)
        self.shown += new
        first = self._taken - len(self._before)
        known = [*self._before, *lines] if new or earlier else lines
        for match in (*earlier, *new):
            start = max(first, match - self._around)
            for at in range(start, min(match + self._around + 1, first + len(known))):
                self.lines[at] = known[at - first][:MAX_SHOWN_CHARS]
        self._taken += len(lines)
        self._before = [*self._before, *lines[-self._around :]][-self._around :] if self._around else ()


def matches_glob(path: str, glob: str) -> bool:
    """Return True if a path matches a glob; one without a slash is compared with the name alone."""
    name = path if "/" in glob else path.rpartition("/")[2]
    return any(matches(each, name) for each in _expand_choices(glob))


@lru_cache(maxsize=32)
def _expand_choices(glob: str) -> tuple[str, ...]:
    done, waiting = [glob], [glob]
    while waiting:
        each = waiting.pop()
        choice = _CHOICE.search(each)
        if choice is None or len(done) + len(waiting) > MAX_GLOBS:
            done.append(each)
        else:
            waiting += (f"{each[: choice.start()]}{word}{each[choice.end() :]}" for word in choice[1].split(","))
    return tuple(dict.fromkeys(done))


def _search_report(found: Sequence[FileMatches], query: SearchQuery) -> str:
    total = sum(hits.count for hits in found)
    report = [f"total_matches_found {total}, matched_files {len(found)}"]
    room, left = MAX_ANSWER_CHARS, query.max_matches
    for line, matching in _report_lines(found, query.context_lines):
        room -= len(line) + 1
        if room < 0:
            break
        report.append(line)
        left -= matching
    if not total:
        report += _why_nothing(query.pattern)
    shown = query.max_matches - left
    if shown < total:
        report.append(f"... {total - shown} more matches; narrow `pattern`, `path` or `glob`.")
    return "\n".join(report)


def _why_nothing(pattern: str) -> Sequence[str]:
    # A model would take a pattern that matches nothing as proof of absence.
    line = max(_LINE_BREAK.split(pattern), key=len)
    # A pattern with an escape was meant as a regex.
    text = line if "\\" in line else _SPECIAL.sub(r"\\\g<0>", line)
    if line != pattern:
        return [f"`pattern` is matched within each line, so a line break never matches; look for one line: `{text}`."]
    return [] if text == line else [f"`pattern` is a regular expression; if it is meant as text, it is `{text}`."]


def _report_lines(found: Sequence[FileMatches], around: int) -> Iterator[tuple[str, bool]]:
    for hits in found:
        if not hits.shown:
            continue
        yield printable_name(hits.path), False
        matching, previous = frozenset(hits.shown), None
        for index in sorted(hits.lines):
            if around and previous is not None and index > previous + 1:
                yield "--", False
            mark = ":" if index in matching else "-"
            yield f"{index + 1}{mark} {hits.lines[index]}", index in matching
            previous = index


if __name__ == "__main__":
    report = run_search(decode_search(sys.stdin.buffer.read()), Deadline(float("inf")))
    sys.stdout.buffer.write(report.encode(errors=ENCODING_ERRORS))
