"""What `scaffold live` costs: until it shows a run, and while 20 agents write 10 events a second each.

Processor time and memory of the real command in a pseudo-terminal. The references are what it may take, so a ratio of 1
is the limit; a busy machine changes processor time little.
"""

import os
import pty
import select
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from fcntl import ioctl
from pathlib import Path
from signal import SIGTERM
from struct import pack
from tempfile import TemporaryDirectory
from termios import TIOCSWINSZ

from msgspec import structs

from row import Row, row
from sample_store import BASE, RUN, SLOTS, a_goal, an_action
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import Assertion, AttemptId
from scaffold.core.model import Attempt, Usage
from scaffold.core.states import Running
from scaffold.host.clock import SystemClock
from scaffold.host.process_identity import own_identity
from scaffold.store.database import Store
from scaffold.store.driver.location import database_path

EVENTS_A_SECOND = 10
PAINT_CPU_S, MEMORY_MB, CORE_SHARE = 0.4, 80.0, 0.10
SHOWN = b"key-0#1"
LIMIT_S = 120.0
MIB = 1_048_576


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: the first paint, the share of a core, the memory."""
    seconds = 2 if quick else 20
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        os.spawnvp(os.P_WAIT, "git", ["git", "init", "--quiet", folder])
        with closing(Store.open(database_path(Path(folder) / ".git"), clock=SystemClock())) as store:
            _lay_out(store)
            screen = _Screen(folder)
            try:
                screen.read_until(SHOWN)
                painted = screen.cpu_s()
                share = _share_while_busy(store, screen, seconds)
                memory = screen.peak_mb()
            finally:
                screen.end()
    yield row("live-first-paint", painted, PAINT_CPU_S, unit="s CPU", goal=1.0)
    yield row("live-20-agents", share, CORE_SHARE, unit="cores", goal=1.0)
    yield row("live-memory", memory, MEMORY_MB, unit="MB", goal=1.0)


def _lay_out(store: Store) -> None:
    mine, now = own_identity(), SystemClock().now()
    actions = [
        structs.replace(an_action(n, needs=(), effects=(Assertion(f"made-{n}"),)), state=Running())
        for n in range(SLOTS)
    ]
    with store.transaction():
        store.runs.add(structs.replace(RUN, owner=mine, created_at=now, updated_at=now))
        store.goals.add(a_goal(Assertion("made-0")))
        store.actions.add(actions)
        for each in actions:
            attempt = Attempt(
                id=AttemptId(f"{each.id}-1"),
                run_id=RUN.id,
                action_id=each.id,
                number=1,
                fence=1,
                status="queued",
                phase="workspace",
                base_sha=BASE,
                usage=Usage(),
                queued_at=now,
            )
            store.attempts.open(attempt)
            store.attempts.claim(attempt.id, fence=1, worker=mine, worktree="/nowhere", log_file="/nowhere")


def _share_while_busy(store: Store, screen: "_Screen", seconds: int) -> float:
    before, started = screen.cpu_s(), time.monotonic()
    while (passed := time.monotonic() - started) < seconds:
        with store.transaction():
            for agent in range(SLOTS):
                store.events.append(RUN.id, NoticeRaised("info", f"agent {agent} did something after {passed}"))
        screen.read_for(1 / EVENTS_A_SECOND)
    return (screen.cpu_s() - before) / (time.monotonic() - started)


class _Screen:
    """`scaffold live` in a terminal of 120 by 40, whose output is read."""

    def __init__(self, folder: str) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execve(sys.executable, [sys.executable, "-m", "scaffold", "live"], {**os.environ, "TERM": "xterm"})
        ioctl(self._terminal, TIOCSWINSZ, pack("HHHH", 40, 120, 0, 0))

    def read_until(self, words: bytes) -> None:
        """Read until the screen has shown `words`."""
        found, end = b"", time.monotonic() + LIMIT_S
        while words not in found:
            if time.monotonic() > end:
                raise AssertionError(found[-2_000:])
            found += self.read_for(0.02)

    def read_for(self, seconds: float) -> bytes:
        """Read what is shown within so many seconds."""
        found, end = b"", time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                found += os.read(self._terminal, 65_536)
        return found

    def cpu_s(self) -> float:
        """Return the processor time that the command has taken."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> float:
        """Return the most memory that the command has had."""
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / MIB

    def end(self) -> None:
        """End the command."""
        os.kill(self._pid, SIGTERM)
        with suppress(OSError):  # its side of the terminal is closed
            self.read_for(0.2)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)
