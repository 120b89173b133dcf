"""Read the reports of test runners in the processes of a check: outcomes of tests, and whether the runs ended."""

import codecs
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from scaffold.core.printable_text import printable
from scaffold.host.contained_path import ContainedPath

MAX_BYTES = 20_000_000
MAX_PROCESSES = 200
PREFIX = "tests-"

ObservedOutcome = Literal["passed", "skipped", "xfailed", "failed"]
"""From good to bad: a test counts by its worst phase. `xfailed`: marked as an expected failure, whatever happened."""
_OUTCOMES: tuple[ObservedOutcome, ...] = get_args(ObservedOutcome)


class TestRuns(Struct, frozen=True, kw_only=True):
    """The reports of the runners of one check, not counting runs inside tests."""

    outcomes: Mapping[str, ObservedOutcome]
    """The worst outcome of each test whose file is in the checkout."""
    not_run: frozenset[str]
    """The tests in the checkout that were collected, and have no outcome."""
    began: bool
    """Whether a run began in the checkout."""
    unfinished: bool
    """Whether a run did not end."""


class _Process(Struct, frozen=True):
    pid: str
    lines: Sequence[tuple[str, str]]
    """The first word of each line, and the rest."""

    def began(self) -> Iterator[tuple[str, frozenset[str], str]]:
        """Yield the number of each run, the processes above it, and its folder."""
        for word, rest in self.lines:
            number, _, more = rest.partition(" ")
            above, _, root = more.partition(" ")
            if word == "began":
                yield number, frozenset(above.split(",")), root


def read_test_runs(folder: Path, top: Path) -> TestRuns:
    """Return the reports of runners in `folder`, with files relative to `top`."""
    processes = list(_read_processes(folder))
    runners = frozenset(each.pid for each in processes if any(each.began()))
    # A test that starts a runner, such as a plugin's test, may expect failures of it.
    own = [each for each in processes if not any(above & runners for _, above, _ in each.began())]
    outcomes = dict(_worst_outcomes(own, top))
    collected = {_test_name(rest, top) for each in own for word, rest in each.lines if word == "collected"}
    return TestRuns(
        outcomes=outcomes,
        not_run=frozenset(test for test in collected if test is not None and test not in outcomes),
        began=any(_runs_in_checkout(each, top) for each in own),
        unfinished=any(
            _runs_in_checkout(each, top) - frozenset(rest for word, rest in each.lines if word == "ended")
            for each in own
        ),
    )


def _read_processes(folder: Path) -> Iterator[_Process]:
    for path in sorted(folder.glob(f"{PREFIX}*"))[:MAX_PROCESSES]:
        data = ContainedPath(folder, path.name).read(MAX_BYTES)
        lines = [] if isinstance(data, str) else data.decode(errors="replace").splitlines()
        parts = (line.partition(" ") for line in lines)
        yield _Process(path.name.removeprefix(PREFIX), [(word, rest) for word, _, rest in parts])


def _runs_in_checkout(process: _Process, top: Path) -> frozenset[str]:
    return frozenset(number for number, _, root in process.began() if _test_name(root, top) is not None)


def _worst_outcomes(processes: Sequence[_Process], top: Path) -> Iterator[tuple[str, ObservedOutcome]]:
    worst = dict[str, int]()
    for process in processes:
        for outcome, name in process.lines:
            test = _test_name(name, top) if outcome in _OUTCOMES else None
            if test and outcome in _OUTCOMES:
                worst[test] = max(worst.get(test, 0), _OUTCOMES.index(outcome))
    yield from ((test, _OUTCOMES[rank]) for test, rank in worst.items())


def _test_name(escaped: str, top: Path) -> str | None:
    """Return the name of a test with its file relative to the checkout; None for one elsewhere."""
    try:
        path, separator, name = codecs.decode(escaped, "unicode_escape").partition("::")
        relative = os.path.relpath(os.path.realpath(path), top)
    except (UnicodeError, ValueError, OSError):
        return None
    return None if relative.startswith("..") else printable(f"{relative}{separator}{name}").replace("\n", "\\n")
