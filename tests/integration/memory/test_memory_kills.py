"""Whatever a process does with memories when it is killed: nothing that was said to be done is lost, or comes back."""

import asyncio
import os
import random  # noqa: TID251 - a seed makes each kill repeatable
import signal
import subprocess  # noqa: TID251 - the test is about killing another process
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from integration.memory.builders import needs_extra
from scaffold.core.knowledge import MEMORIES
from scaffold.host.atomic_files import delete_path
from scaffold.memory.vectors.memory_cache import let_go

pytestmark = needs_extra
KILLS = int(os.environ.get("SCAFFOLD_KILLS", "20"))
"""How many times; 1,000 take about ten minutes."""
LONGEST_S = 0.25
SUPPORT = Path(__file__).parents[2] / "support" / "memory_kills.py"


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with launched(tmp_path) as process:
        yield process


@contextmanager
def launched(folder: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, str(SUPPORT), str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("ready")
        yield process
        process.stdin.close()


def killed(launcher: subprocess.Popen[str], seed: int, *, after_s: float | None = None) -> list[list[str]]:
    """Let a process work for a moment, kill it, and return what it said."""
    launcher.stdin.write(f"{seed}\n")
    launcher.stdin.flush()
    said = []
    while (line := launcher.stdout.readline().split())[0] != "started":
        said.append(line)
    time.sleep(after_s or random.Random(seed).uniform(0.01, LONGEST_S))  # noqa: TID251 - it is to work for that long
    os.kill(int(line[1]), signal.SIGKILL)
    while (line := launcher.stdout.readline().split())[0] != "ended":
        said.append(line)
    return said


def on_disk(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file())


class Expected:
    """What is known of the memories from what the processes said."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.gone: list[str] = []
        """Texts that were forgotten, for certain."""
        self.unsure: dict[str, set[str | None]] = {}
        """What the memories may be with which something was being done; None for forgotten."""
        self.done = 0

    def take(self, said: list[list[str]]) -> None:
        for word, memory, token in said:
            former = self.texts.get(memory)
            match word:
                case "moving":
                    self.unsure[memory] = {former, f"The animal {token} has moved"}
                case "forgetting":
                    self.unsure[memory] = {former, None}
                case _:
                    self.unsure.pop(memory, None)
                    self.gone += [former] if former and word != "kept" else []
                    self.done += 1
                    self.texts.pop(memory, None)
                    if word != "forgot":
                        self.texts[memory] = f"The animal {token} {'lives at home' if word == 'kept' else 'has moved'}"

    def settle(self, known: dict[str, str]) -> None:
        """Require that all is as it was said; what was not said may have been done or not."""
        fate = {memory: known.get(memory) for memory in self.unsure}
        assert all(fate[memory] in allowed for memory, allowed in self.unsure.items())
        forgetting = {memory for memory, allowed in self.unsure.items() if None in allowed}
        assert len({fate[memory] is None for memory in forgetting}) <= 1, "several are forgotten together"
        certain = {memory: text for memory, text in self.texts.items() if memory not in self.unsure}
        assert {memory: known.get(memory) for memory in certain} == certain
        self.texts, self.unsure = dict(known), {}


def results(folder: Path, support: Any, expected: Expected) -> None:
    """Require that search finds each memory by its words and vector, and the same without the cache."""
    with support.opened(folder) as memories:
        known = {each.id: each.chunk.text for each in memories.newest(most=500)}
        expected.settle(known)
        for memory, text in list(known.items())[:4]:
            first = asyncio.run(memories.find(text, most=3))[0]
            assert (first.memory.id, first.hit.cosine) == (memory, pytest.approx(1, abs=2e-3))
        asyncio.run(memories.find("nothing", most=1))
        searches = memories.databases.legs["project"].vectors
        vectors = [support.vector_of(text) for text in list(known.values())[:8]]

        def nearest() -> list[tuple[tuple[int, float], ...]]:
            return [searches.search_of(MEMORIES, "hash").search(each, most=5) for each in vectors]

        with_cache = nearest()
        delete_path(folder / "cache")
        let_go(memories.databases.get("project").name, MEMORIES)
        for exact, found in zip(nearest(), with_cache, strict=True):
            assert found[0][0] == exact[0][0]
            # Of two that are equally near but for rounding, an index may return the other one.
            assert [near for _, near in found] == pytest.approx([near for _, near in exact], abs=2e-3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_kill_loses_what_was_remembered_or_leaves_what_was_forgotten(
    launcher: subprocess.Popen[str], tmp_path: Path
) -> None:
    """RA-6, RA-7: while it remembers, computes vectors, edits, forgets or makes an index; deleting the cache heals."""
    support = import_module("support.memory_kills")
    expected = Expected()
    for seed in range(KILLS):
        expected.take(killed(launcher, seed))
        left = on_disk(tmp_path)
        for text in expected.gone[-200:]:
            assert text.split()[2].encode() not in left
            assert support.vector_of(text) not in left
        results(tmp_path, support, expected)
    assert expected.done > KILLS
    assert expected.gone


@pytest.mark.slow
def test_two_processes_remember_and_forget_at_the_same_time(tmp_path: Path) -> None:
    """RA-6: each finds what it did, and no other's vector; one index is made at a time."""
    support = import_module("support.memory_kills")
    support.prepare(tmp_path)
    with launched(tmp_path) as one, launched(tmp_path) as other, ThreadPoolExecutor(2) as threads:
        said = [threads.submit(killed, each, seed, after_s=1.5) for each, seed in ((one, -1), (other, -2))]
    texts: dict[str, str] = {}
    for each in said:
        expected = Expected()
        expected.take(each.result())
        assert expected.done > 5
        with support.opened(tmp_path) as memories:
            expected.settle({memory.id: memory.chunk.text for memory in memories.newest(most=500)})
        texts |= expected.texts
    expected = Expected()
    expected.texts = texts
    results(tmp_path, support, expected)
