"""A store for the tests of memory."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scaffold.memory.memories import Memories, MemoryDatabases
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.database import Store
from support.fake_clock import FakeClock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store in the folder `git`."""
    with closing(Store.open(tmp_path / "git" / "state.db", clock=FakeClock())) as store:
        yield store


@pytest.fixture
def memories_by_meaning(store: Store, tmp_path: Path) -> Memories:
    """Memories of that store, with vectors."""
    return Memories(MemoryDatabases(store, None, tmp_path / "cache"), clock=FakeClock(), redactor=Redactor())
