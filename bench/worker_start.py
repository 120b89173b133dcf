"""How soon a worker begins, forked by a zygote and as a fresh interpreter, and what memory is its own."""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from os import environ
from pathlib import Path
from tempfile import TemporaryDirectory

from row import Row, row
from scaffold.host.child_environment import child_environment
from scaffold.host.process.child import start_child
from scaffold.host.process.zygote_client import Zygote, can_fork, open_zygote

LONGEST_FORK_MS = 10.0
MOST_MEGABYTES = 6.0
LOADED = "import os, scaffold.cli.commands.processes.worker"
FRESH = f"{LOADED}\nos._exit(0)"
WARM = f"""
{LOADED}
import socket, sys
from scaffold.host.process import zygote_server
born = zygote_server.serve(socket.socket(fileno=int(sys.argv[1])))
if born is not None and born.main == "wait":
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    kilobytes = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    print(kilobytes, flush=True)
    sys.stdin.read()
os._exit(0)
"""


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: a fork; a forked worker's beginning and end against a fresh one's; what each of many waiting has alone."""
    if not can_fork():
        sys.stderr.write("worker-start is not measured: workers are not forked on this system\n")
        return
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        forks, warm, fresh, megabytes = asyncio.run(_measured(Path(folder), 2 if quick else 30, 3 if quick else 20))
    yield row("worker-fork", forks, LONGEST_FORK_MS, unit="ms", goal=1.0)
    yield row("worker-forked-against-fresh", warm, fresh, unit="ms", goal=0.1)
    yield row("worker-own-memory", megabytes, MOST_MEGABYTES, unit="MB", goal=1.0)


async def _measured(folder: Path, rounds: int, crowd: int) -> tuple[float, float, float, float]:
    env, log = child_environment(environ), folder / "log"
    zygote = await open_zygote(lambda line: [sys.executable, "-c", WARM, str(line)], cwd=folder, env=env, log=log)

    async def forked() -> None:
        await (await zygote.fork("end", "", log=log)).wait()

    async def fork() -> None:
        await zygote.fork("end", "", log=log)

    async def fresh() -> None:
        await (await start_child([sys.executable, "-c", FRESH], cwd=folder, env=env, log=log)).wait()

    try:
        await forked()  # until then it loads
        taken = [[await _ms(each) for each in (fork, forked, fresh)] for _ in range(rounds)]
        own = await _own_megabytes(zygote, folder, crowd)
    finally:
        await zygote.close()
    forks, warm, cold = (statistics.median(column) for column in zip(*taken, strict=True))
    return forks, warm, cold, own


async def _ms(work: Callable[[], Awaitable[None]]) -> float:
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1000


async def _own_megabytes(zygote: Zygote, folder: Path, crowd: int) -> float:
    """Return what each of a crowd of workers that wait has in its memory that is nobody else's, in MB."""
    logs = [folder / f"waiting-{number}" for number in range(crowd)]
    waiting = [await zygote.fork("wait", "", log=log) for log in logs]
    while not all(log.exists() and log.read_text().endswith("\n") for log in logs):  # noqa: ASYNC110 - theirs to tell
        await asyncio.sleep(0.01)
    for child in waiting:
        await child.end(0.0)
    return statistics.mean(int(log.read_text()) for log in logs) / 1000
