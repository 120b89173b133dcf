"""What the commands cost that people call all day: processor time, beside a Python that does nothing."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from row import Row, medians, row
from sample_store import RUN, a_goal, an_action
from scaffold.core.ids import Assertion
from scaffold.host.clock import SystemClock
from scaffold.store.database import Store
from scaffold.store.driver.location import database_path

ACTIONS = 10


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: `--help` and `status` against `python -c pass`."""
    rounds = 1 if quick else 15
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        _cpu_s(["git", "init", "--quiet", folder], cwd=folder)
        lay_out(Path(folder))
        nothing, help_, status = medians(
            rounds,
            lambda: _cpu_s([sys.executable, "-c", "pass"], cwd=folder),
            lambda: _cpu_s([sys.executable, "-m", "scaffold", "--help"], cwd=folder),
            lambda: _cpu_s([sys.executable, "-m", "scaffold", "status"], cwd=folder),
        )
    yield row("command-help", help_ * 1000, nothing * 1000, unit="ms CPU", goal=5.0)
    yield row("command-status", status * 1000, nothing * 1000, unit="ms CPU", goal=8.0)


def lay_out(repository: Path) -> None:
    """Give the repository a run with a few actions to show."""
    actions = [an_action(n, needs=(), effects=(Assertion(f"made-{n}"),)) for n in range(ACTIONS)]
    with closing(Store.open(database_path(repository / ".git"), clock=SystemClock())) as store, store.transaction():
        store.runs.add(RUN)
        store.goals.add(a_goal(Assertion("made-0")))
        store.actions.add(actions)


def _cpu_s(argv: Sequence[str], *, cwd: str) -> float:
    """Return the processor time of a command, its children included, in seconds; what it prints is thrown away."""
    before = Path.cwd()
    os.chdir(cwd)
    try:
        quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
        pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=quiet)
    finally:
        os.chdir(before)
    _, status, used = os.wait4(pid, 0)
    if status != 0:
        raise AssertionError(argv, status)
    return used.ru_utime + used.ru_stime
