"""How several processes share the right to write: each books money and moves its attempt on, as workers do."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.json import decode, encode

from row import Row, row
from sample_store import BASE, RUN, a_goal, an_action
from scaffold.core.ids import Assertion, AttemptId
from scaffold.core.model import Action, Attempt, ProcessIdentity, Usage
from scaffold.host.clock import SystemClock
from scaffold.store.database import Store

WRITERS = 8
NOBODY = ProcessIdentity(1, "", "")
SPENT = Usage(input_tokens=900, output_tokens=100, cost_usd=0.01, requests=1)


class WriterResult(Struct, frozen=True):
    """What a writer tells at its end."""

    commits: int
    longest_s: float
    """The longest that one of its transactions took."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: the commits of one process against those of several together, and how unevenly they are shared."""
    for_s = 0.1 if quick else 2.0
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        path = Path(folder) / "state.db"
        attempts = _lay_out(path)
        (alone,) = _write(path, attempts[:1], for_s)
        together = _write(path, attempts, for_s)
    commits = [result.commits for result in together]
    one, all_ = alone.commits / for_s, sum(commits) / for_s
    yield row(f"store-commits-of-1-against-{WRITERS}-writers", one, all_, unit="per s", goal=2.0)
    yield row(f"store-share-of-{WRITERS}-writers", max(commits), max(1, min(commits)), unit="commits", goal=4.0)
    longest = max(result.longest_s for result in together)
    yield row(f"store-longest-wait-of-{WRITERS}-writers", longest, 1.0, unit="s", goal=1.0)


def _lay_out(path: Path) -> list[AttemptId]:
    actions = [an_action(n, needs=(), effects=(Assertion(f"made-{n}"),)) for n in range(WRITERS)]
    with closing(Store.open(path, clock=SystemClock())) as store, store.transaction():
        store.runs.add(RUN)
        store.goals.add(a_goal(Assertion("made-0")))
        store.actions.add(actions)
        return [_claimed(store, action) for action in actions]


def _claimed(store: Store, action: Action) -> AttemptId:
    attempt = Attempt(
        id=AttemptId(f"attempt-{action.position}"),
        run_id=RUN.id,
        action_id=action.id,
        number=1,
        fence=1,
        status="queued",
        phase="workspace",
        base_sha=BASE,
        usage=Usage(),
        queued_at=RUN.created_at,
    )
    store.attempts.open(attempt)
    store.attempts.claim(attempt.id, fence=1, worker=NOBODY, worktree="", log_file="")
    return attempt.id


def _write(path: Path, attempts: list[AttemptId], for_s: float) -> list[WriterResult]:
    """Have one process for each attempt write for a while, all of them from the same moment on."""
    start = time.monotonic() + 0.5
    pipes = []
    for attempt in attempts:
        reading, writing = os.pipe()
        if os.fork() == 0:
            _be_a_writer(path, attempt, start, for_s, writing)
        os.close(writing)
        pipes.append(reading)
    return [_writer_result(pipe) for pipe in pipes]


def _writer_result(pipe: int) -> WriterResult:
    with os.fdopen(pipe, "rb") as file:
        result = file.read()
    _, status = os.wait()
    if status != 0 or not result:
        raise AssertionError(status)
    return decode(result, type=WriterResult)


def _be_a_writer(path: Path, attempt: AttemptId, start: float, for_s: float, writing: int) -> None:
    """Write until the time is up, tell what came of it, and end this process whatever happens."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with closing(Store.open(path, clock=SystemClock())) as store:
            result = _work(store, attempt, start, start + for_s)
        os.write(writing, encode(result))
        os._exit(0)
    finally:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def _work(store: Store, attempt: AttemptId, start: float, end: float) -> WriterResult:
    commits, longest_s = 0, 0.0
    while time.monotonic() < start:
        pass
    while (before := time.monotonic()) < end:
        with store.transaction():
            store.attempts.account(attempt, fence=1, usage=SPENT)
            store.attempts.advance(attempt, fence=1, phase="executing")
        commits += 1
        longest_s = max(longest_s, time.monotonic() - before)
    return WriterResult(commits, longest_s)
