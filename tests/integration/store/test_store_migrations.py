"""Migrations: a copy first, none beneath a run, and what programs of different age may do with one database."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from integration.store.nouns import OWNER, a_run, an_action, lay_out, unprivileged
from postgres import new_place
from scaffold.core.errors import StoreTrouble
from scaffold.host.clock import FakeClock
from scaffold.host.identity import own_identity
from scaffold.store import actions
from scaffold.store.columns import SETTINGS
from scaffold.store.database import Store
from scaffold.store.place import Place
from scaffold.store.schema import MIGRATIONS

ADD_AT_FIRST = """
INSERT INTO action (id, run_id, goal_id, parent_id, position, key, description, kind, method, role, preconditions,
                    effects, files, contract, status, reason, result, unmet, failures, created_at, updated_at)
VALUES (:id, :run_id, :goal_id, :parent_id, :position, :key, :description, :kind, :method, :role, :preconditions,
        :effects, :files, :contract, :status, :reason, :result, 0, 0, :created_at, :updated_at)
"""
"""How the first release wrote an action."""

NOW = len(list(MIGRATIONS.glob("*.sql")))
NEXT = NOW + 1


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """The migrations of a scaffold that is one schema ahead; its last one only adds."""
    folder = Path(shutil.copytree(MIGRATIONS, tmp_path / "new"))
    (folder / f"{NEXT:04}_more.sql").write_text("ALTER TABLE run ADD COLUMN mood TEXT;\n")
    return folder


@pytest.fixture
def breaking(new: Path) -> Path:
    """The same, but its last migration changes what older programs read."""
    (new / f"{NEXT:04}_more.sql").write_text(
        f"ALTER TABLE run RENAME COLUMN request TO wanted;\nUPDATE schema_version SET readable_from = {NEXT};\n"
    )
    return new


@pytest.fixture
def broken(new: Path) -> Path:
    """The same, but its last migration fails on the way."""
    (new / f"{NEXT:04}_more.sql").write_text("ALTER TABLE run ADD COLUMN mood TEXT;\nINSERT INTO nowhere VALUES (1);\n")
    return new


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, path: Path) -> Place:
    """A place of its own on either database, for its tables will change."""
    return path if request.param == "sqlite" else new_place(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(place: Place, clock: FakeClock) -> Iterator[Store]:
    with closing(Store.open(place, clock=clock)) as store:
        lay_out(store, an_action("a"))
        yield store


def _version(store: Store) -> int:
    return store._connection.rows("SELECT MAX(version) AS version FROM schema_version")[0]["version"]


def test_a_newer_program_brings_the_schema_up_to_date_and_keeps_all(
    store: Store, place: Place, clock: FakeClock, new: Path
) -> None:
    with closing(Store.open(place, clock=clock, migrations=new)) as newer:
        assert _version(newer) == NEXT
        assert newer.runs.latest() == a_run()
        assert newer._connection.rows("SELECT mood FROM run")[0]["mood"] is None
    with closing(Store.open(place, clock=clock, migrations=new)) as again:
        assert _version(again) == NEXT


def test_a_copy_precedes_a_migration(path: Path, clock: FakeClock, new: Path) -> None:
    """The copy is the database as it was, and opens as one."""
    with closing(Store.open(path, clock=clock)) as store:
        lay_out(store, an_action("a"))
    assert [entry.name for entry in path.parent.iterdir()] == ["state.db"]
    Store.open(path, clock=clock, migrations=new).close()
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["state.db", f"state.db.bak-{NOW}"]
    with closing(Store.open(path.with_name(f"state.db.bak-{NOW}"), clock=clock, create=False)) as copy:
        assert _version(copy) == NOW
        assert copy.actions.of_run("run-1") == (an_action("a"),)


def test_a_new_database_needs_no_copy(path: Path, clock: FakeClock, new: Path) -> None:
    Store.open(path, clock=clock, migrations=new).close()
    assert [entry.name for entry in path.parent.iterdir()] == ["state.db"]


def test_without_room_for_a_copy_nothing_is_migrated(path: Path, clock: FakeClock, new: Path) -> None:
    Store.open(path, clock=clock).close()
    (path.parent / f"state.db.bak-{NOW}").mkdir()
    with pytest.raises(StoreTrouble, match="copy") as caught:
        Store.open(path, clock=clock, migrations=new)
    assert str(path) in caught.value.what
    with closing(Store.open(path, clock=clock)) as store:
        assert _version(store) == NOW


def test_a_migration_that_fails_leaves_everything_as_it_was(
    store: Store, place: Place, clock: FakeClock, broken: Path
) -> None:
    with pytest.raises(Exception, match="nowhere"):
        Store.open(place, clock=clock, migrations=broken)
    assert _version(store) == NOW
    with pytest.raises(Exception, match="mood"):
        store._connection.rows("SELECT mood FROM run")


def test_nothing_is_migrated_beneath_a_run(store: Store, place: Place, clock: FakeClock, new: Path) -> None:
    with store.transaction():
        fence = store.runs.take("run-1", own_identity(), expected_fence=0)
    with pytest.raises(StoreTrouble, match="carries out run run-1") as caught:
        Store.open(place, clock=clock, migrations=new)
    assert store.name in caught.value.what
    assert "stop it" in caught.value.fix
    assert _version(store) == NOW
    with store.transaction():
        store.runs.release("run-1", fence=fence)
    with closing(Store.open(place, clock=clock, migrations=new)) as newer:
        assert _version(newer) == NEXT


def test_an_owner_that_died_holds_nothing_up(store: Store, place: Place, clock: FakeClock, new: Path) -> None:
    with store.transaction():
        store.runs.take("run-1", OWNER, expected_fence=0)
    with closing(Store.open(place, clock=clock, migrations=new)) as newer:
        assert _version(newer) == NEXT


def test_an_older_program_reads_what_a_newer_one_wrote(store: Store, place: Place, clock: FakeClock, new: Path) -> None:
    Store.open(place, clock=clock, migrations=new).close()
    with closing(Store.open(place, clock=clock, create=False)) as older:
        assert older.runs.latest() == a_run()
        with pytest.raises(StoreTrouble, match=f"schema {NEXT}, this one knows {NOW}") as caught, older.transaction():
            pytest.fail("an older program must not write")
        assert store.name in caught.value.what
    with pytest.raises(StoreTrouble, match="newer scaffold") as caught:
        Store.open(place, clock=clock)
    assert "Use that version" in caught.value.fix


@pytest.mark.parametrize("create", [True, False])
def test_an_older_program_leaves_alone_what_it_cannot_read(
    store: Store, place: Place, clock: FakeClock, breaking: Path, create: bool
) -> None:
    Store.open(place, clock=clock, migrations=breaking).close()
    with pytest.raises(StoreTrouble, match="newer scaffold"):
        Store.open(place, clock=clock, create=create)


def test_the_first_schema_is_brought_up_to_date(place: Place, clock: FakeClock, tmp_path: Path) -> None:
    """What the first release wrote is still read."""
    (tmp_path / "old").mkdir()
    shutil.copy(MIGRATIONS / "0001_first.sql", tmp_path / "old")
    with closing(Store.open(place, clock=clock, migrations=tmp_path / "old")) as old:
        lay_out(old)
        with old.transaction():
            old._connection.write_each(ADD_AT_FIRST, [actions._columns(an_action("a"))])
    with closing(Store.open(place, clock=clock, create=False)) as store:
        assert store.actions.of_run("run-1") == (an_action("a"),)
        assert store.actions.tally("run-1/shop") == {"pending": 1}
        assert store.inbox.open_of_run("run-1") == ()


def test_runs_of_before_there_was_a_sandbox_go_on_with_the_best_there_is(
    place: Place, clock: FakeClock, tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    for step in sorted(MIGRATIONS.glob("*.sql"))[:5]:
        shutil.copy(step, tmp_path / "old")
    with closing(Store.open(place, clock=clock, migrations=tmp_path / "old")) as old:
        lay_out(old)
        with old.transaction():
            stored = SETTINGS.write(a_run().settings).replace('"sandbox":"auto"', '"sandbox":"none"')
            old._connection.write("UPDATE run SET settings = :settings", settings=stored)
    with closing(Store.open(place, clock=clock, create=False)) as store:
        assert store.runs.get("run-1").settings.sandbox == "auto"


def test_messages_of_before_the_mailbox_was_one_are_kept(place: Place, clock: FakeClock, tmp_path: Path) -> None:
    """RA-12: runs keep their messages and channels; programs that know the old tables are kept away."""
    (tmp_path / "old").mkdir()
    for step in sorted(MIGRATIONS.glob("*.sql"))[:4]:
        shutil.copy(step, tmp_path / "old")
    with closing(Store.open(place, clock=clock, migrations=tmp_path / "old")) as old:
        lay_out(old)
        with old.transaction():
            old._connection.write(
                "INSERT INTO message (run_id, seq, sender, recipient, body, created_at) "
                "VALUES ('run-1', 7, 'ada', 'bob', '{}', '2030-01-01T00:00:00.000000+00:00')"
            )
            old._connection.write("INSERT INTO subscription VALUES ('run-1', 'news', 'bob')")
    with closing(Store.open(place, clock=clock)) as store:
        assert [envelope.seq for envelope in store.messages.peek("run-1", "bob")] == [7]
        with store.transaction():
            assert store.messages.publish("run-1", sender="ada", channel="news", body={}) == 1
            assert store.messages.send("run-1", sender="ada", recipient="bob", body={}) == 9
    with pytest.raises(StoreTrouble, match="newer scaffold"):
        Store.open(place, clock=clock, create=False, migrations=tmp_path / "old")


def test_an_old_database_on_a_read_only_medium_is_trouble(public: Path, clock: FakeClock, new: Path) -> None:
    path = public / "state.db"
    Store.open(path, clock=clock).close()
    new = Path(shutil.copytree(new, public / "new"))
    public.chmod(0o555)
    with unprivileged(), pytest.raises(StoreTrouble, match="older scaffold") as caught:
        Store.open(path, clock=clock, create=False, migrations=new)
    assert "writable" in caught.value.fix


def test_migrations_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in MIGRATIONS.glob("*.sql"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


def test_a_copy_holds_what_is_still_in_the_log(path: Path, clock: FakeClock, new: Path) -> None:
    with closing(Store.open(path, clock=clock)) as store:
        lay_out(store)
        Store.open(path, clock=clock, migrations=new).close()
        with closing(sqlite3.connect(path.with_name(f"state.db.bak-{NOW}"))) as copy:
            assert copy.execute("SELECT id FROM run").fetchall() == [("run-1",)]
