"""Read Node's own coverage of changed lines. The reports are untrusted: processes with foreign code wrote them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

SUFFIXES = (".js", ".mjs", ".cjs")
VARIABLE = "NODE_V8_COVERAGE"
MAX_REPORTS = 500
MAX_REPORT_BYTES = 50_000_000
MAX_TOTAL_BYTES = 200_000_000

_NO_CODE = re.compile(r"^[\s{}()\[\];,]*$|^(?://|/?\*|#!)|^import\b|^export\s+(?:\*|\{[^}]*\})\s+from\b")
"""Lines that do nothing when they run, such as brackets, comments and imports."""


class CoveredRange(Struct, frozen=True, rename="camel"):
    """How often a part of a script ran; offsets are in UTF-16 units."""

    start_offset: int
    end_offset: int
    count: int


class Function(Struct, frozen=True):
    """A function with its parts; the first of them is the whole, later ones lie within earlier ones."""

    ranges: tuple[CoveredRange, ...]


class Script(Struct, frozen=True):
    """A script; its first function is the script itself."""

    url: str
    functions: tuple[Function, ...]


class Report(Struct, frozen=True):
    """The scripts that one process ran."""

    result: tuple[Script, ...]


class SourceLines(Struct, frozen=True):
    """A JavaScript file as it was run."""

    text: str
    changed: tuple[int, ...]
    """The changed lines that hold code."""


class NodeLines(Struct, frozen=True, kw_only=True):
    """The coverage of a changed file in all processes."""

    executed: frozenset[int] = frozenset()
    in_functions: frozenset[int] = frozenset()
    """The changed lines inside of functions."""
    loaded: bool = False
    """Whether any process loaded the file as it is."""
    transformed: bool = False
    """Whether any process ran it in another form, compiled by a tool."""


def code_lines(text: str, changed: Sequence[int]) -> tuple[int, ...]:
    """Return the changed lines of a JavaScript file that contain effective code."""
    lines = text.split("\n")
    return tuple(n for n in changed if 0 < n <= len(lines) and not _NO_CODE.search(lines[n - 1].strip()))


def read_reports(folder: Path) -> tuple[Report, ...] | None:
    """Return the reports in a folder; None if they are too large to be read."""
    paths = sorted(folder.glob("*.json"))
    sizes = [path.lstat().st_size for path in paths]
    if len(paths) > MAX_REPORTS or sum(sizes) > MAX_TOTAL_BYTES:
        return None
    return tuple(
        report
        for path, size in zip(paths, sizes, strict=True)
        if size <= MAX_REPORT_BYTES and path.is_file() and not path.is_symlink()
        for report in _decode_report(path)
    )


def loaded_files(reports: Sequence[Report]) -> frozenset[str]:
    """Return the absolute paths of the files that ran unchanged."""
    return frozenset(
        path for report in reports for script in report.result if (path := _script_path(script)) is not None
    )


def lines_seen(reports: Sequence[Report], sources: Mapping[str, SourceLines]) -> dict[str, NodeLines]:
    """Return the coverage of each file, by absolute path."""
    found = {path: NodeLines() for path in sources}
    for report in reports:
        for script in report.result:
            path = _script_path(script)
            if path in found:
                before = found[path]
                now = _seen_lines(script, sources[path])
                found[path] = NodeLines(
                    executed=before.executed | now.executed,
                    in_functions=before.in_functions | now.in_functions,
                    loaded=before.loaded or now.loaded,
                    transformed=before.transformed or now.transformed,
                )
    return found


def _decode_report(path: Path) -> Iterator[Report]:
    try:
        yield msgspec.json.decode(path.read_bytes(), type=Report)
    except (OSError, msgspec.DecodeError, RecursionError):
        return


def _script_path(script: Script) -> str | None:
    return unquote(urlsplit(script.url).path) if script.url.startswith("file:///") else None


def _seen_lines(script: Script, source: SourceLines) -> NodeLines:
    length = len(source.text.encode("utf-16-le", "surrogatepass")) // 2
    whole = script.functions[0].ranges[:1] if script.functions else ()
    # A script that was compiled from the file by a tool has another length.
    if not whole or (whole[0].start_offset, whole[0].end_offset) != (0, length):
        return NodeLines(transformed=True)
    # The offset of the first character of code in each line, in UTF-16 units.
    starts, begin = list[int](), 0
    for line in source.text.split("\n"):
        starts.append(begin + _utf16_length(line[: len(line) - len(line.lstrip())]))
        begin += _utf16_length(line) + 1
    at = {number: starts[number - 1] for number in source.changed}
    inner = [function for function in script.functions[1:] if function.ranges]
    return NodeLines(
        loaded=True,
        executed=frozenset(number for number, offset in at.items() if _run_count(script, offset)),
        in_functions=frozenset(
            number
            for number, offset in at.items()
            if any(each.ranges[0].start_offset < offset < each.ranges[0].end_offset for each in inner)
        ),
    )


def _run_count(script: Script, offset: int) -> int:
    """Return how often the code at an offset ran, which is the count of the smallest part around it."""
    parts = (part for function in script.functions for part in function.ranges)
    around = [part for part in parts if part.start_offset <= offset < part.end_offset]
    return min(around, key=lambda part: part.end_offset - part.start_offset).count if around else 0


def _utf16_length(text: str) -> int:
    return len(text) + sum(each > "\uffff" for each in text)
