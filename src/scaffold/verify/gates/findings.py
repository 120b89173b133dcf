"""Findings of linters and type checkers: one a line, told without the line's number, which every change moves."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scaffold.verify.gates.family import Bench, Ended, Family, Order
from scaffold.verify.gates.reading import Reading, in_trouble, named

MOST_FINDINGS = 20_000
LONGEST_LINE = 2_000

_PLACED = re.compile(
    r"^(?:vet: )?(?P<path>[^\s:(][^:(\n]*?)(?::\d+(?::\d+)?(?:-\d+(?::\d+)?)?|\(\d+,\d+\))(?::| -|\s) *(?P<said>\S.*)$"
)
_HEADING = re.compile(r"^(?P<path>[^\s:][^:]*\.\w+)$")
_BELOW = re.compile(r"^\s+\d+:\d+\s+(?P<said>\S.*)$")
_NOTE = re.compile(r"^(note|info|hint|help)\b", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_GAPS = re.compile(r"\s{2,}")


def asked(command: str, _: Bench) -> Order:
    """Return the command as it is; ruff is told to say each finding in one line."""
    return Order(command=command, variables={"RUFF_OUTPUT_FORMAT": "concise"})


def read(ended: Ended) -> Reading:
    """Return what a run showed that came to its end by itself; where it ended well, there is nothing to tell."""
    if ended.exit_code == 0:
        return Reading()
    found = Counter(_findings(ended.output.decode(errors="replace"), ended.bench.place))
    if not found:
        found[f"exit {ended.exit_code}"] = 1
    if len(found) > MOST_FINDINGS:
        return in_trouble("error", f"There are {len(found)} findings; more than {MOST_FINDINGS} are not compared.")
    counts = {name: count for name, count in found.items() if count > 1}
    return Reading(outcomes=dict.fromkeys(found, "failed"), counts=counts)


def _findings(text: str, top: Path) -> Iterator[str]:
    """Yield a finding for each line that names a place, also below the name of a file as eslint does."""
    heading = ""
    for whole in _COLOUR.sub("", text).splitlines():
        line = whole[:LONGEST_LINE]
        placed, below, titled = _PLACED.match(line.strip()), _BELOW.match(line), _HEADING.match(line)
        if below and heading:
            yield _told(heading, below["said"], top)
        elif placed and not _NOTE.match(placed["said"]):
            yield _told(placed["path"], placed["said"], top)
        heading = titled["path"] if titled else heading if below else ""


def _told(path: str, said: str, top: Path) -> str:
    place = Path(path)
    inside = place.relative_to(top) if place.is_relative_to(top) else place
    return named(f"{inside}: {_GAPS.sub(' ', said).strip()}")


FINDINGS = Family(asked=asked, read=read, prints=True)
