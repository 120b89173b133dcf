"""A separate real database for each test, on a clock that does not move."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from scaffold.store.database import Store
from scaffold.store.driver.location import PostgresLocation, StoreLocation
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock
from support.postgres import new_location
from support.samples import place_empty_store


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "git" / "scaffold" / "state.db"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.slow])])
def place(request: pytest.FixtureRequest, path: Path) -> StoreLocation:
    """An empty location: a test that uses it, or a store, runs on SQLite, and in the slow lane on PostgreSQL."""
    return path if request.param == "sqlite" else request.getfixturevalue("emptied")


@pytest.fixture(scope="session")
def shared(postgres_url: str) -> PostgresLocation:
    """A schema that all tests of a process use one after another: making its tables takes longer than most tests."""
    place = new_location(postgres_url)
    Store.open(place, clock=FakeClock()).close()
    return place


@pytest.fixture
def emptied(shared: PostgresLocation) -> PostgresLocation:
    with psycopg.connect(shared.url) as raw:
        tables = raw.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [shared.schema]).fetchall()
        raw.execute("SET session_replication_role = replica")  # in any order, whatever refers to what
        for (table,) in tables:
            if table not in {"schema_history", "revision", "knowledge_change", "state_signature"}:
                raw.execute(f"DELETE FROM {shared.schema}.{table}")
    return shared


@pytest.fixture
def file_store(path: Path, clock: FakeClock) -> Iterator[Store]:
    """A store for behaviour specific to SQLite."""
    place_empty_store(path)
    with closing(Store.open(path, clock=clock)) as store:
        yield store


@pytest.fixture
def store(place: StoreLocation, clock: FakeClock) -> Iterator[Store]:
    if isinstance(place, Path):
        place_empty_store(place)
    store = Store.open(place, clock=clock)
    yield store
    store.close()


@pytest.fixture
def rival(store: Store, place: StoreLocation, clock: FakeClock) -> Iterator[Store]:
    """A second connection to the same database, with a short timeout."""
    rival = Store.open(place, clock=clock, timeout_s=0.05)
    yield rival
    rival.close()


@pytest.fixture
def user_path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "user.db"


@pytest.fixture
def user(user_path: Path, clock: FakeClock) -> Iterator[UserStore]:
    """The user's own database."""
    with closing(UserStore.open(user_path, clock=clock)) as user:
        yield user


@pytest.fixture
def neighbour(user: UserStore, user_path: Path, clock: FakeClock) -> Iterator[UserStore]:
    """The same database as another process sees it."""
    with closing(UserStore.open(user_path, clock=clock)) as neighbour:
        yield neighbour


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Path]:
    """A directory readable for any user, outside pytest's private ones."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory
        directory.chmod(0o755)
