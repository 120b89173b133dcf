"""A process that remembers, computes vectors, forgets and makes indices until it is killed, and what it left.

`python memory_kills.py FOLDER` reads numbers, one a line; for each it forks a process that works with that seed, with a
negative one only with what it has remembered itself, and prints its id. What such a process has done it prints
afterwards: `kept ID WORD`, `moved ID WORD` or `forgot ID WORD`; what it is about to do with a memory before:
`moving ID WORD`, `forgetting ID -`.
"""

import asyncio
import hashlib
import os
import random  # noqa: TID251 - a seed makes a killed process repeatable
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import onnxruntime  # noqa: F401 - before what loads usearch

from scaffold.core.knowledge import MEMORIES
from scaffold.host.clock import SystemClock
from scaffold.memory.embedders.vector_bytes import packed
from scaffold.memory.hybrid import VectorLeg
from scaffold.memory.memories import Memories, MemoryDatabases
from scaffold.memory.vectors.database_search import open_searches
from scaffold.memory.vectors.memory_cache import index_folder
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.database import Store

EXACT_UNTIL = 12
"""An index is made of more vectors than these."""
MOST = 60
"""Memories that are kept before some are forgotten."""


class HashEmbedder:
    """A model whose vectors come from a hash of the text: equal texts have equal ones. Implements `Embedder`."""

    model = "hash"
    dimension = 32

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Return the vector of each text."""
        return [vector_of(each) for each in texts]


def vector_of(text: str) -> bytes:
    """Return the vector of a text."""
    digest = hashlib.sha256(text.encode()).digest()
    return packed([[each - 127.5 for each in digest]])[0]


@contextmanager
def opened(folder: Path) -> Iterator[Memories]:
    """Open the memories in a folder, with small indices."""
    with closing(Store.open(folder / "git" / "state.db", clock=SystemClock())) as store:
        cache = folder / "cache"
        memories = Memories(MemoryDatabases(store, None, cache), clock=SystemClock(), redactor=Redactor())
        searches = open_searches(store.knowledge, index_folder(cache, store.name), exact_until=EXACT_UNTIL)
        memories.databases.legs["project"] = VectorLeg(HashEmbedder(), searches)
        yield memories


def prepare(folder: Path) -> None:
    """Make the database."""
    with opened(folder):
        pass


def work(folder: Path, seed: int) -> None:
    """Change memories until killed, and say what has been done."""
    chance = random.Random(seed)
    with opened(folder) as memories:
        known = {each.id: each for each in memories.newest(most=MOST * 2)} if seed >= 0 else {}
        while True:
            word = f"zq{chance.getrandbits(64):016x}"
            match chance.choice(("keep", "keep", "keep", "find", "move", "forget", "index")):
                case "keep":
                    memory = memories.remember(f"The animal {word} lives at home", source="user").memory
                    known[memory.id] = memory
                    say("kept", memory.id, word)
                case "move" if known:
                    former = known[chance.choice(sorted(known))]
                    say("moving", former.id, word)
                    memory = memories.edit(former, text=f"The animal {word} has moved")
                    known[memory.id] = memory
                    say("moved", memory.id, word)
                case "forget" if known:
                    chosen = chance.sample(sorted(known), 1 if len(known) < MOST else MOST // 2)
                    for each in chosen:
                        say("forgetting", each, "-")
                    memories.forget([known[each] for each in chosen])
                    for each in chosen:
                        say("forgot", each, known.pop(each).chunk.text.split()[2])
                case "index":
                    asyncio.run(memories.index())
                case _:
                    asyncio.run(memories.find(f"animal {word}", most=5))


def say(*words: str) -> None:
    """Print a line that is whole or not there: it is one write."""
    os.write(1, f"{' '.join(words)}\n".encode())


def main() -> None:
    """Fork a working process for each number."""
    folder = Path(sys.argv[1])
    say("ready", MEMORIES)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            work(folder, int(line))
        say("started", str(child))
        os.waitpid(child, 0)
        say("ended", str(child))


if __name__ == "__main__":
    main()
