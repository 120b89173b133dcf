"""What supervision costs: CPU for an action, its share of a run, and how soon a stopped owner loses its run."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from row import Row, row
from scaffold.orchestrator.owner.run_lease import LEASE_S
from scratch_run import ScratchRun

MOST_CPU_MS = 40.0
"""For an action, without the time of a model."""
TAKEOVER_S = LEASE_S + 1.0
WORKERS = 6
NAP_S = 2.0
GLANCE_S = 0.02
SAMPLE_S = 0.2
"""Between looks at what a process used: to look is work, too."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: CPU of owner and supervisors for an action; a run's length against its bound; a takeover."""
    actions, nap_s = (6, 0.2) if quick else (60, NAP_S)
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        wall_s, cpu_ms = NapRun(Path(folder), actions, nap_s).run()
    yield row("supervision-cpu", cpu_ms / actions, MOST_CPU_MS, unit="ms", goal=1.0)
    yield row("run-against-bound", wall_s, actions / WORKERS * nap_s, unit="s", goal=20.0 if quick else 1.15)
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        yield row("takeover", NapRun(Path(folder), 2, 30.0).takeover_s(), TAKEOVER_S, unit="s", goal=1.0)


class NapRun:
    """A run of naps in two goals."""

    def __init__(self, folder: Path, actions: int, nap_s: float) -> None:
        goals, replies = _goals(actions), _replies(actions, nap_s)
        self._run = ScratchRun(folder, goals=goals, replies=replies, agents=WORKERS, files={})

    def run(self) -> tuple[float, float]:
        """Carry the plan out; return its wall time in seconds, and the CPU of owner and supervisors in milliseconds."""
        begun = time.perf_counter()
        owner = self._run.start()
        spent: dict[int, float] = {}
        while owner.poll() is None:
            spent |= {pid: cpu for pid in (owner.pid, *self._supervisors()) if (cpu := _cpu_ms(pid)) is not None}
            time.sleep(SAMPLE_S)  # noqa: TID251 - other processes are waited for
        wall_s = time.perf_counter() - begun
        if owner.returncode != 0:
            raise RuntimeError(f"the run ended with {owner.returncode}")
        return wall_s, sum(spent.values())

    def takeover_s(self) -> float:
        """Stop the owner of a run, and return how long another one takes to become it."""
        owner = self._run.start()
        try:
            self._until(lambda: self._asked("SELECT COUNT(*) FROM attempt WHERE status = 'claimed'") == [(2,)])
            (run_id,) = self._asked("SELECT id FROM run")[0]
            owner.send_signal(signal.SIGSTOP)
            begun = time.perf_counter()
            other = self._run.scaffold("resume", run_id)
            self._until(lambda: self._asked("SELECT fence FROM run")[0][0] > 1)
            taken_s = time.perf_counter() - begun
            other.kill()
            other.wait()
        finally:
            owner.kill()
            owner.wait()
        return taken_s

    def _supervisors(self) -> Sequence[int]:
        rows = self._asked("SELECT supervisor FROM goal WHERE supervisor IS NOT NULL")
        return [json.loads(words)["pid"] for (words,) in rows if words != "null"]

    def _asked(self, statement: str) -> list[tuple[object, ...]]:
        path = self._run.repo / ".git" / "scaffold" / "state.db"
        if not path.exists():
            return []
        database = sqlite3.connect(path)
        try:
            return database.execute(statement).fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            database.close()

    def _until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(GLANCE_S)  # noqa: TID251 - other processes are waited for


def _goals(actions: int) -> Sequence[Mapping[str, object]]:
    names = [[f"nap{n}" for n in range(start, actions, 2)] for start in (0, 1)]
    return [
        {
            "name": f"goal{number}",
            "goal_state": [f"{name}-done" for name in half],
            "actions": [
                {"key": name, "effects": [f"{name}-done"], "contract": {"commands": [{"command": f"test -f {name}"}]}}
                for name in half
            ],
        }
        for number, half in enumerate(names)
    ]


def _replies(actions: int, nap_s: float) -> Sequence[object]:
    return [
        {
            "when": {"action": f"nap{n}", "turn": 1},
            "tool_calls": [{"name": "shell", "args": {"command": f"sleep {nap_s}; echo x > nap{n}"}}],
        }
        for n in range(actions)
    ]


def _cpu_ms(pid: int) -> float | None:
    """Return the CPU a process has used so far by itself, in milliseconds; None once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")
