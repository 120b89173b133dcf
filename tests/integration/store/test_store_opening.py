"""Opening: new, old, missing, broken, foreign and newer databases, and several processes at once."""

import os
import sqlite3
import subprocess  # noqa: TID251 - the test is about other processes
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from builders import a_run, unprivileged
from scaffold.core.errors import StoreError, StoreUnavailable
from scaffold.host.clock import FakeClock
from scaffold.store.database import Store
from scaffold.store.driver.schema import MIGRATIONS

OPEN_WHEN_TOLD = """
import sys
from builders import parse_location
from scaffold.host.clock import FakeClock
from scaffold.store.database import Store

sys.stdin.readline()
store = Store.open(parse_location(sys.argv[1:]), clock=FakeClock())
assert store.runs.all() == ()
store.close()
"""
BESIDE_TESTS = {"PYTHONPATH": str(Path(__file__).parents[2])}


def _sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        for statement in statements:
            raw.execute(statement)


def test_a_new_database_is_created_with_its_directories(path: Path, clock: FakeClock) -> None:
    Store.open(path, clock=clock).close()
    assert path.is_file()


def test_data_of_one_connection_is_read_by_the_next(path: Path, clock: FakeClock) -> None:
    for create in (True, False):
        with closing(Store.open(path, clock=clock, create=create)) as store:
            if create:
                with store.transaction():
                    store.runs.add(a_run())
            assert store.runs.get("run-1") == a_run()


def test_a_path_with_special_characters_is_taken_literally(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "a b?mode=memory&%20#ü" / "state.db"
    Store.open(path, clock=clock).close()
    assert path.is_file()


def test_without_create_a_missing_database_is_an_error_and_stays_missing(path: Path, clock: FakeClock) -> None:
    with pytest.raises(StoreError, match="no database yet") as caught:
        Store.open(path, clock=clock, create=False)
    assert str(path) in caught.value.what
    assert "scaffold run" in caught.value.fix
    assert not path.parent.exists()


def test_without_create_an_empty_file_is_an_error_and_stays_empty(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "state.db"
    path.touch()
    with pytest.raises(StoreError, match="empty"):
        Store.open(path, clock=clock, create=False)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("create", [True, False])
def test_garbage_is_an_error_and_is_not_changed(tmp_path: Path, clock: FakeClock, create: bool) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database at all " * 400)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not a database") as caught:
        Store.open(path, clock=clock, create=create)
    assert str(path) in caught.value.what
    assert "Move the file away" in caught.value.fix
    assert path.read_bytes() == before


def test_another_programs_database_is_not_changed(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "state.db"
    _sql(path, "CREATE TABLE bookmark (url TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store.open(path, clock=clock)
    assert path.read_bytes() == before


def test_a_newer_database_is_not_changed(path: Path, clock: FakeClock) -> None:
    Store.open(path, clock=clock).close()
    _sql(path, "INSERT INTO schema_migration (version, applied_at) VALUES (999, '')")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="schema 999") as caught:
        Store.open(path, clock=clock)
    assert "newer" in caught.value.fix
    assert path.read_bytes() == before


def test_a_directory_is_not_a_database(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(StoreError, match="cannot be opened") as caught:
        Store.open(tmp_path, clock=clock)
    assert str(tmp_path) in caught.value.what


@pytest.mark.parametrize("create", [True, False])
def test_a_parent_that_is_a_file_is_an_error(tmp_path: Path, clock: FakeClock, create: bool) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/state\.db"):
        Store.open(tmp_path / "file" / "state.db", clock=clock, create=create)


@pytest.mark.parametrize("create", [True, False])
def test_an_inaccessible_directory_is_an_error(public: Path, clock: FakeClock, create: bool) -> None:
    (public / "closed").mkdir(mode=0)
    with unprivileged(), pytest.raises(StoreError, match="not accessible"):
        Store.open(public / "closed" / "inner" / "state.db", clock=clock, create=create)


def test_a_read_only_directory_is_an_error(public: Path, clock: FakeClock) -> None:
    public.chmod(0o555)
    with unprivileged(), pytest.raises(StoreUnavailable, match="cannot be opened") as caught:
        Store.open(public / "state.db", clock=clock)
    assert "may write" in caught.value.fix


def test_a_read_only_database_is_an_error_for_writers(public: Path, clock: FakeClock) -> None:
    path = public / "state.db"
    Store.open(path, clock=clock).close()
    path.chmod(0o444)
    public.chmod(0o555)
    with unprivileged(), pytest.raises(StoreError, match="is not writable"):
        Store.open(path, clock=clock)


@pytest.mark.parametrize(("file", "directory"), [(0o444, 0o755), (0o644, 0o555), (0o444, 0o555)])
@pytest.mark.parametrize("in_use", [True, False], ids=["in use", "at rest"])
def test_a_read_only_database_can_be_read(
    public: Path, clock: FakeClock, file: int, directory: int, in_use: bool
) -> None:
    """Reading commands work on a read-only medium, beside a writer, too."""
    path = public / "state.db"
    with ExitStack() as until_the_end:
        writer = until_the_end.enter_context(closing(Store.open(path, clock=clock)))
        with writer.transaction():
            writer.runs.add(a_run())
        if not in_use:
            writer.close()
        path.chmod(file)
        public.chmod(directory)
        with unprivileged(), closing(Store.open(path, clock=clock, create=False)) as store:
            assert store.runs.all() == (a_run(),)
            with pytest.raises(StoreUnavailable, match="is read-only") as caught, store.transaction():
                pytest.fail("nothing can be written here")
        assert str(path) in caught.value.what


def test_a_failed_opening_leaves_no_connection_behind(path: Path, clock: FakeClock) -> None:
    Store.open(path, clock=clock).close()
    _sql(path, "INSERT INTO schema_migration (version, applied_at) VALUES (999, '')")
    with pytest.raises(StoreError) as caught:
        Store.open(path, clock=clock)
    open_files = [os.path.realpath(entry) for entry in Path("/dev/fd").iterdir()]
    assert str(path) not in open_files
    assert caught.traceback  # keeps every frame, and so the connection object, alive until here


def test_opening_a_new_database_waits_for_a_writer(tmp_path: Path, clock: FakeClock) -> None:
    """SQLite refuses at once, without waiting, to turn the write-ahead log on beside a writer."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            Store.open(path, clock=clock, timeout_s=0.01)
        release = threading.Timer(0.2, raw.execute, ["ROLLBACK"])
        release.start()
        with closing(Store.open(path, clock=clock)) as store:
            assert store.runs.all() == ()
        release.join()


@pytest.mark.slow
def test_several_processes_may_open_a_new_database_at_once(tmp_path: Path) -> None:
    """OR-8: the store is shared from the start."""
    for round_ in range(3):
        path = tmp_path / f"round-{round_}" / "state.db"
        children = [
            subprocess.Popen(
                [sys.executable, "-c", OPEN_WHEN_TOLD, str(path)], stdin=subprocess.PIPE, env=BESIDE_TESTS, text=True
            )
            for _ in range(4)
        ]
        for child in children:
            child.stdin.write("go\n")
            child.stdin.flush()
        for child in children:
            with child:
                child.communicate(timeout=60)
        assert [child.returncode for child in children] == [0] * 4
        with closing(sqlite3.connect(path)) as raw:
            steps = range(1, len(list(MIGRATIONS.glob("*.sql"))) + 1)
            assert raw.execute("SELECT version FROM schema_migration").fetchall() == [(step,) for step in steps]
            assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
