"""Migrations: a backup first, none under an active run, and the use of one database by different versions."""

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from builders import OWNER, a_run, an_action, store_run, unprivileged
from scaffold.core.errors import StoreError
from scaffold.host.process_identity import own_identity
from scaffold.store.database import Store, open_driver
from scaffold.store.driver.connection import Connection
from scaffold.store.driver.location import StoreLocation
from scaffold.store.driver.schema import MIGRATIONS
from support.fake_clock import FakeClock
from support.postgres import new_location
from support.samples import share_key

NOW = len(list(MIGRATIONS.glob("*.sql")))
NEXT = NOW + 1


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """The migrations of a version that is one schema ahead; its last one only adds."""
    folder = Path(shutil.copytree(MIGRATIONS, tmp_path / "new"))
    (folder / f"{NEXT:04}_more.sql").write_text("ALTER TABLE run ADD COLUMN mood TEXT;\n")
    return folder


@pytest.fixture
def breaking(new: Path) -> Path:
    """The same, but its last migration breaks older readers."""
    (new / f"{NEXT:04}_more.sql").write_text(
        f"ALTER TABLE run RENAME COLUMN request TO wanted;\nUPDATE schema_history SET readable_from = {NEXT};\n"
    )
    return new


@pytest.fixture
def broken(new: Path) -> Path:
    """The same, but its last migration fails midway."""
    (new / f"{NEXT:04}_more.sql").write_text("ALTER TABLE run ADD COLUMN mood TEXT;\nINSERT INTO nowhere VALUES (1);\n")
    return new


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.slow])])
def place(request: pytest.FixtureRequest, path: Path) -> StoreLocation:
    """A separate location on either database, because its tables will change."""
    return path if request.param == "sqlite" else new_location(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(place: StoreLocation, clock: FakeClock) -> Iterator[Store]:
    with closing(Store.open(place, clock=clock)) as store:
        store_run(store, an_action("a"))
        yield store


def _version(store: Store) -> int:
    return store._connection.rows("SELECT MAX(version) AS version FROM schema_history")[0]["version"]


def test_a_newer_program_migrates_the_schema_and_keeps_all_data(
    store: Store, place: StoreLocation, clock: FakeClock, new: Path
) -> None:
    with closing(Store.open(place, clock=clock, migrations=new)) as newer:
        assert _version(newer) == NEXT
        assert newer.runs.latest() == a_run()
        assert newer._connection.rows("SELECT mood FROM run")[0]["mood"] is None
    with closing(Store.open(place, clock=clock, migrations=new)) as again:
        assert _version(again) == NEXT


def test_a_backup_precedes_a_migration(path: Path, clock: FakeClock, new: Path) -> None:
    """The backup is the database as it was, with the write-ahead log, and opens as one; a new one needs none."""
    with closing(Store.open(path, clock=clock)) as store:
        store_run(store, an_action("a"))
        assert not [*path.parent.glob("*.bak-*")]
        Store.open(path, clock=clock, migrations=new).close()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["state.db", f"state.db.bak-{NOW}"]
    with closing(Store.open(path.with_name(f"state.db.bak-{NOW}"), clock=clock, create=False, foreign="show")) as copy:
        assert _version(copy) == NOW
        assert copy.actions.for_run("run-1") == (an_action("a"),)


def test_without_space_for_a_backup_nothing_is_migrated(path: Path, clock: FakeClock, new: Path) -> None:
    Store.open(path, clock=clock).close()
    (path.parent / f"state.db.bak-{NOW}").mkdir()
    with pytest.raises(StoreError, match=re.escape(str(path))):
        Store.open(path, clock=clock, migrations=new)
    with closing(Store.open(path, clock=clock)) as store:
        assert _version(store) == NOW


def test_a_migration_that_fails_leaves_everything_as_it_was(
    store: Store, place: StoreLocation, clock: FakeClock, broken: Path
) -> None:
    with pytest.raises(Exception, match="nowhere"):
        Store.open(place, clock=clock, migrations=broken)
    assert _version(store) == NOW
    with pytest.raises(Exception, match="mood"):
        store._connection.rows("SELECT mood FROM run")


def test_nothing_is_migrated_under_an_active_run(
    store: Store, place: StoreLocation, clock: FakeClock, new: Path
) -> None:
    """A run whose owner died prevents no migration."""
    with store.transaction():
        fence = store.runs.take("run-1", own_identity(), expected_fence=0)
    with pytest.raises(StoreError, match="run-1") as caught:
        Store.open(place, clock=clock, migrations=new)
    assert store.name in caught.value.what
    assert "stop it" in caught.value.fix
    assert _version(store) == NOW
    with store.transaction():
        store.runs.release("run-1", fence=fence)
        store.runs.take("run-1", OWNER, expected_fence=fence)
    with closing(Store.open(place, clock=clock, migrations=new)) as newer:
        assert _version(newer) == NEXT


def test_an_older_program_reads_a_compatible_newer_database(
    store: Store, place: StoreLocation, clock: FakeClock, new: Path
) -> None:
    Store.open(place, clock=clock, migrations=new).close()
    with closing(Store.open(place, clock=clock, create=False)) as older:
        assert older.runs.latest() == a_run()
        with pytest.raises(StoreError, match=f"{NEXT}.* {NOW}") as caught, older.transaction():
            pytest.fail("an older program must not write")
        assert store.name in caught.value.what
    with pytest.raises(StoreError, match=f"{re.escape(store.name)}.* {NEXT}"):
        Store.open(place, clock=clock)


def test_an_older_program_refuses_an_incompatible_newer_database(
    store: Store, place: StoreLocation, clock: FakeClock, breaking: Path
) -> None:
    Store.open(place, clock=clock, migrations=breaking).close()
    for create in (True, False):
        with pytest.raises(StoreError, match=f"{re.escape(store.name)}.* {NEXT}"):
            Store.open(place, clock=clock, create=create)


@pytest.mark.parametrize("versions", ["schema_version", "schema_migration"])
def test_a_pre_release_database_is_refused_as_such(place: StoreLocation, clock: FakeClock, versions: str) -> None:
    """It is never taken for a newer or a current one, whatever its number is, and nothing of it changes."""
    Store.open(place, clock=clock).close()
    with closing(open_driver(place, create=False, timeout_s=5)) as driver:
        connection = Connection(driver)
        with connection.transaction():
            connection.write(f"ALTER TABLE schema_history RENAME TO {versions}")
            connection.write(f"INSERT INTO {versions} VALUES (30, '', 29)")
        tables = driver.tables()
    for create in (True, False):
        with pytest.raises(StoreError, match="pre-release") as caught:
            Store.open(place, clock=clock, create=create)
        assert "Move" in caught.value.fix
    with closing(open_driver(place, create=False, timeout_s=5)) as driver:
        assert driver.tables() == tables


def test_an_old_database_on_a_read_only_medium_is_an_error(public: Path, clock: FakeClock, new: Path) -> None:
    path = public / "state.db"
    Store.open(path, clock=clock).close()
    new = Path(shutil.copytree(new, public / "new"))
    public.chmod(0o555)
    share_key()
    with unprivileged(), pytest.raises(StoreError, match="older scaffold") as caught:
        Store.open(path, clock=clock, create=False, migrations=new)
    assert "writable" in caught.value.fix


def test_migrations_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in MIGRATIONS.glob("*.sql"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
