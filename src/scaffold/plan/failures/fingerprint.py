"""Fingerprints of failures: a recurring failure keeps its fingerprint when line numbers, times and folders differ.

A fingerprint compares texts, some of which an agent writes. So it affects what the next attempt reads, never whether
work is right.
"""

import hashlib
import re
from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.printable_text import utf8_safe, without_colors

MAX_SEARCHED_CHARS = 300

# pytest, unittest, go, node, jest, cargo, tsc, eslint, compilers and make.
_DECIDING = re.compile(
    r"^E  +\S|^(?:FAILED|ERROR|FAIL)\b|^\s*--- FAIL|^\s*not ok \d|^panic:|^thread '.*' panicked|^\s*[✕✖×●] \S"
    r"|^(?:\w+\.)*\w*(?:Error|Exception)\b|(?:^|: )(?:fatal )?error\b(?:\[\w+\])?:|: error TS\d+: |^\w+: \*\*\* "
    r"|^\s+\d+:\d+\s+error\s"
)

# A message about a place in a file, as of a test in Go; a failed test of cargo; what was compared.
_DETAIL = re.compile(
    r"^\s*\S+\.\w{1,8}:\d+(?::\d+)?:? +(?!.*warning|\+0x)\S|^test .* \.\.\. FAILED$"
    r"|^\s*(?:left|right|expected|actual|received|error|code): ",
    re.IGNORECASE,
)


MAX_CHARS = 200_000
"""Of a longer text its beginning and its end are read, half of this each."""
MAX_LINE_CHARS = 2_000
DIGEST_CHARS = 16

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# The folders of an absolute path; what is before its slash is not part of a relative path.
_FOLDERS = re.compile(r"(?:[a-z]:)?(?:[/\\][\w.@+~-]+)+[/\\](?=[\w.@+~-])")
_UNIT = r"(?:ns|[µμ]s|us|ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|kb|mb|gb|kib|mib|gib|bytes?)"
_VARYING = re.compile(
    r"0x[0-9a-f]+"
    r"|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|\b(?=[a-z]*\d)[0-9a-f]{7,64}\b"  # a hash: it has at least one digit
    r"|\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b"
    rf"|\b\d+(?:[.,]\d+)? ?{_UNIT}\b(?: ?\d+(?:[.,]\d+)? ?{_UNIT}\b)*"
    r"|(?<=:)\d+(?::\d+)?(?=[:)\s]|$)"  # of a line, a column, a port
    r"|(?<=\()\d+,\d+(?=\))"  # tsc(3,5)
    r"|^\s*\d+:\d+(?=\s)|(?<=^not ok )\d+"  # eslint; the numbers of node follow the order of the tests
    r"|\b(?:line|column|col|port|pid|process|thread|goroutine|worker|attempt|seed|gw|run)[ =#:]*\d+"
    r"|\b\d{5,}\b"
)
# Temporary folders and files have a new name in each run.
_TEMPORARY = re.compile(r"\b(?:tmp|temp|pytest-of-|pytest-)(?=[\w.-]{0,40}\d)[\w.-]{0,80}|\btmp\w{6,10}\b")
# The margin that a compiler draws left of quoted source.
_GUTTER = re.compile(r"^\s*\d*\s*\|\s?")


class ShownFailure(Struct, frozen=True):
    """One failure as it was shown."""

    check: str
    """Which check failed, in our words."""
    output: str = ""
    """What its program printed, or the failed tests or files, a line each."""


def failure_fingerprint(*shown: ShownFailure) -> str:
    """Return the fingerprint of what failed together; empty without text.

    Line numbers, times, durations, addresses, hashes, ids and the folders of absolute paths do not count, nor does the
    order of the failures and of their lines. Of an output with lines that say what is wrong, only these count.
    """
    # Sorted and without repetitions: the order of tests, and how often one is repeated, say nothing.
    failures = sorted({(_normalize_line(each.check), *_telling_lines(each.output)) for each in shown})
    told = [line for each in failures for line in each if line]
    if not told:
        return ""
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:DIGEST_CHARS]


def _telling_lines(output: str) -> Sequence[str]:
    """Return the lines that say what is wrong, in their normal form and order; all of them if none says so."""
    # The end and the beginning of an output tell most; the middle of megabytes is noise.
    if len(output) > MAX_CHARS:
        output = f"{output[: MAX_CHARS // 2]}\n{output[-MAX_CHARS // 2 :]}"
    lines = [_CONTROL.sub("", without_colors(line))[:MAX_LINE_CHARS] for line in utf8_safe(output).splitlines()]
    # A program prints much besides its failure; without a line that decides, all lines have to count.
    told = [line for line in lines if is_deciding(line) or _DETAIL.search(line[:MAX_SEARCHED_CHARS])]
    return sorted({normal for line in told or lines if (normal := _normalize_line(line))})


def _normalize_line(line: str) -> str:
    """Return a line without what differs each time the same failure is shown."""
    # Case differs between shells and tools for the same path or word.
    text = _GUTTER.sub("", line.casefold()[:MAX_LINE_CHARS])
    text = _FOLDERS.sub("/", text)
    return " ".join(_VARYING.sub("#", _TEMPORARY.sub("#", text)).split())


def is_deciding(line: str) -> bool:
    """Return whether the line says what is wrong."""
    return _DECIDING.search(line[:MAX_SEARCHED_CHARS]) is not None
