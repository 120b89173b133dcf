"""Searching the files of a workspace, line by line."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.globs import matches
from scaffold.policy.paths import Refusal, confine
from scaffold.tools.arguments import object_schema
from scaffold.tools.files import lines_of, readable_text
from scaffold.tools.workspace import ANSWER_LIMIT, Workspace, failed, in_a_thread

DEFAULT_MATCHES = 100
MOST_MATCHES = 1_000
MOST_CONTEXT = 20
SHOWN_LINE = 400
SKIPPED_FOLDERS = frozenset({".git", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"})


class Query(Struct, frozen=True):
    """What is searched for; `glob` is matched against names, or against whole paths if it has a slash."""

    pattern: re.Pattern[str]
    glob: str | None
    context_lines: int
    max_matches: int


class Hits(Struct, frozen=True):
    """The matching lines of one file: its path, its lines and the indexes, from 0, of those that match.

    Files beyond the last match that is shown keep no lines.
    """

    path: str
    lines: Sequence[str]
    matches: Sequence[int]


def search_files(workspace: Workspace) -> Tool:
    """Return the tool that finds lines: counts first, then `PATH` and `NUMBER: LINE` (context as `NUMBER- LINE`)."""

    def work(args: Mapping[str, Any]) -> ToolOutput:
        place = confine(workspace.root, args.get("path", "."))
        if isinstance(place, Refusal):
            return failed(place.reason)
        if not place.exists():
            return failed(f"There is no {args['path']}; leave `path` out to search the whole workspace.")
        try:
            pattern = re.compile(args["pattern"])
        except re.error as error:
            return failed(f"`pattern` is no regular expression ({error}); escape what is meant literally.")
        query = Query(
            pattern,
            args.get("glob"),
            min(args.get("context_lines", 0), MOST_CONTEXT),
            min(args.get("max_matches", DEFAULT_MATCHES), MOST_MATCHES),
        )
        return ToolOutput(_report(list(_hits(workspace.root.resolve(), place, query)), query))

    return Tool(
        name="search_files",
        description=(
            "Find the lines of text files that match a regular expression (Python syntax). Skips .git, binary files "
            "and folders of installed packages; name such a folder in `path` to search it."
        ),
        schema=object_schema(
            {"pattern": {"type": "string", "description": "Regular expression, matched within a line."}},
            path={"type": "string", "description": "File or folder to search; default the whole workspace."},
            glob={"type": "string", "description": "Only files like this: `*.py`, or with folders `src/**/*.py`."},
            context_lines={"type": "integer", "minimum": 0, "description": "Lines around each match; default 0."},
            max_matches={"type": "integer", "minimum": 1, "description": f"Default {DEFAULT_MATCHES}."},
        ),
        category="file_read",
        run=in_a_thread(work),
    )


def _hits(root: Path, place: Path, query: Query) -> Iterator[Hits]:
    matched = 0
    for file in _files(place):
        path = file.relative_to(root).as_posix()
        if query.glob is not None and not _like(path, query.glob):
            continue
        text = readable_text(file, path)
        if isinstance(text, Refusal):
            continue
        lines = lines_of(text)
        found = [index for index, line in enumerate(lines) if query.pattern.search(line)]
        if found:
            yield Hits(path, lines if matched < query.max_matches else (), found)
            matched += len(found)


def _files(place: Path) -> Iterator[Path]:
    """Yield the files below `place`, or itself, in the order of their paths; links are not followed."""
    if place.is_file():
        yield place
        return
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        files = (Path(folder, name) for name in sorted(names) if name != ".git")
        yield from (file for file in files if not file.is_symlink())


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
