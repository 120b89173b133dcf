"""What a report says, once it was read: a value, and the bounds in which everything that others wrote is taken."""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.core.gates import TestOutcome, Trouble
from scaffold.core.legible import few, legible
from scaffold.verify.gates.inside.scaffold_scribe import tidy

MOST_TESTS = 20_000
MOST_BYTES = 50_000_000
"""Of a report, or of the output that is one."""
EXIT = "exit"
"""The name of the outcome that is the exit code itself."""


class Reading(Struct, frozen=True, kw_only=True):
    """What one run showed."""

    outcomes: Mapping[str, TestOutcome] = {}
    counts: Mapping[str, int] = {}
    trouble: Trouble | None = None
    why: str = ""
    """A sentence about the trouble."""
    said: str | None = None
    """What is to be shown instead of what was printed, where that is for machines."""


def in_trouble(trouble: Trouble, why: str, outcomes: Mapping[str, TestOutcome] | None = None) -> Reading:
    """Return the reading of a run whose outcomes say nothing; they may still say where to look."""
    return Reading(trouble=trouble, why=why, outcomes=outcomes or {})


def named(name: str) -> str:
    """Return a name as a runner gave it, in one printable line of bounded length."""
    return legible(tidy(name))


def unusable(what: str, names: Sequence[str]) -> Reading:
    """Return the reading of a run in which some of what was to be tested could not even be loaded."""
    return in_trouble("error", f"{what}: {few(names, 3)}.", dict.fromkeys(names, "error"))


def worst(outcomes: Iterable[tuple[str, TestOutcome]]) -> dict[str, TestOutcome]:
    """Return one outcome by name, of several the worst."""
    found: dict[str, TestOutcome] = {}
    for name, outcome in outcomes:
        known = found.get(name)
        if known is None or RANK[outcome] > RANK[known]:
            found[name] = outcome
    return found


RANK: Mapping[TestOutcome, int] = {"skipped": 0, "passed": 1, "flaky": 2, "error": 3, "failed": 4}


def concluded(outcomes: Mapping[str, TestOutcome], exit_code: int | None, *, whole: bool) -> Reading:
    """Return the reading of a complete report, once it was held against the exit code.

    An exit code that complains although no test does, as that of a missed coverage, is an outcome of its own; not
    where only some tests ran.
    """
    if len(outcomes) > MOST_TESTS:
        return in_trouble("error", f"The report names {len(outcomes)} tests; more than {MOST_TESTS} are not read.")
    failed = [name for name, outcome in outcomes.items() if outcome in {"failed", "error"}]
    if failed and exit_code == 0:
        return in_trouble("error", f"The report has {len(failed)} failures, {failed[0]} among them, but it ended well.")
    if not any(outcome != "skipped" for outcome in outcomes.values()):
        return in_trouble("vacuous", "It ran no test at all." if not outcomes else "Every test was skipped.", outcomes)
    if exit_code != 0 and not failed and whole:
        return Reading(outcomes={**outcomes, EXIT: "failed"}, why=f"All tests passed, yet it ended with {exit_code}.")
    return Reading(outcomes=outcomes)


def content(path: Path, most_bytes: int = MOST_BYTES) -> bytes | str:
    """Return what is in a file that others could write, or why it is not read: a link, no file, too big."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return "there is none"
    except OSError as error:
        return f"it cannot be opened ({error.strerror})"
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "it is no file"
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(most_bytes + 1)
    finally:
        os.close(descriptor)
    return data if len(data) <= most_bytes else f"it is longer than {most_bytes} bytes"
