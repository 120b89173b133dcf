"""The recorded figures: each row's ratio with its machine and date, the bar it has to keep, and the causes behind it.

`bench/baseline.json` is written by `record.py` alone; the tables in `docs/speed.md` are made from it.
"""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode, encode

from row import Row

FILE = Path(__file__).with_name("baseline.json")
TOLERANCE = 1.10
"""How much worse than its bar a row may be before it counts: what a machine's moods make of a ratio."""


class Recorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was measured of a row the last time, and what it has to keep."""

    ratio: float
    value: float
    unit: str
    reference: float
    goal: float
    date: str
    machine: str
    bar: float
    """The best ratio since the last deliberate loss: many small losses in a row are one that nobody decided."""
    reason: str = ""
    """Why the bar was lowered the last time."""


class CausesRecord(Struct, frozen=True, kw_only=True):
    """The causes of a subject: its total by cause, as first recorded and as last recorded, with the dates."""

    first: Mapping[str, float]
    first_date: str
    last: Mapping[str, float] = {}
    last_date: str = ""


class Baseline(Struct, frozen=True, kw_only=True):
    """All that is recorded, by the names of rows and subjects."""

    rows: Mapping[str, Recorded]
    causes: Mapping[str, CausesRecord]


def read_baseline() -> Baseline:
    """Return what is recorded."""
    return parse_baseline(FILE.read_bytes())


def parse_baseline(text: bytes) -> Baseline:
    """Return what a version of the file records."""
    return decode(text, type=Baseline)


def write_baseline(baseline: Baseline) -> None:
    """Write the file, with a line for each row, so that a diff shows what changed."""
    sections = {
        section: [f'  "{name}": {encode(each).decode()}' for name, each in sorted(getattr(baseline, section).items())]
        for section in ("rows", "causes")
    }
    blocks = [f'"{section}": {{\n' + ",\n".join(lines) + "\n}" for section, lines in sections.items()]
    FILE.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


def is_worse(now: "Row | Recorded", recorded: Recorded) -> bool:
    """Return whether a row has lost what was recorded; below a tenth of its goal only noise is left to lose."""
    return now.ratio > TOLERANCE * max(recorded.bar, recorded.goal / 10)


def losses(before: Baseline, after: Baseline) -> list[str]:
    """Return the rows that are worse than before without a new reason."""
    return sorted(
        name
        for name, old in before.rows.items()
        if (new := after.rows.get(name))
        and (new.bar > old.bar or is_worse(new, old))
        and new.reason in {"", old.reason}
    )


def this_machine() -> str:
    """Return what this machine is called in a record."""
    models = [line.partition(":")[2].strip() for line in _cpu_lines() if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores of {models[0] if models else platform.machine()}, Python {platform.python_version()}"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
