"""The lines in which the programs of a repository say what is wrong."""

import re

MAX_LINE_CHARS = 300
"""How much of a line is looked at."""

_DECIDING = re.compile(
    r"^E  +\S|^(?:FAILED|ERROR|FAIL)\b|^\s*--- FAIL|^\s*not ok \d|^panic:|^thread '.*' panicked|^\s*[✕✖×●] \S"
    r"|^(?:\w+\.)*\w*(?:Error|Exception)\b|(?:^|: )(?:fatal )?error\b(?:\[\w+\])?:|: error TS\d+: |^\w+: \*\*\* "
    r"|^\s+\d+:\d+\s+error\s"
)
"""pytest, unittest, go, node, jest, cargo, tsc, eslint, compilers and make."""
_DETAIL = re.compile(
    r"^\s*\S+\.\w{1,8}:\d+(?::\d+)?:? +(?!.*warning|\+0x)\S|^test .* \.\.\. FAILED$"
    r"|^\s*(?:left|right|expected|actual|received|error|code): ",
    re.IGNORECASE,
)
"""A message about a place in a file, as of a test in Go; a failed test of cargo; what was compared."""


def is_deciding(line: str) -> bool:
    """Return whether the line says what is wrong."""
    return _DECIDING.search(line[:MAX_LINE_CHARS]) is not None


def is_detail(line: str) -> bool:
    """Return whether the line says more about what is wrong; alone it may also be about something else."""
    return _DETAIL.search(line[:MAX_LINE_CHARS]) is not None
