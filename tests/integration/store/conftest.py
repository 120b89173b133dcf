"""A real database in a directory of its own, on a clock that stands still."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scaffold.host.clock import FakeClock
from scaffold.store.database import Store


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "git" / "scaffold" / "state.db"


@pytest.fixture
def store(path: Path, clock: FakeClock) -> Iterator[Store]:
    store = Store.open(path, clock=clock)
    yield store
    store.close()


@pytest.fixture
def rival(store: Store, path: Path, clock: FakeClock) -> Iterator[Store]:
    """A second connection to the same database, of little patience."""
    rival = Store.open(path, clock=clock, patience_s=0.05)
    yield rival
    rival.close()
