"""Opening: new, old, missing, broken, foreign and newer databases, and several processes at once."""

import os
import re
import sqlite3
import sys
import threading
from contextlib import ExitStack, closing
from itertools import product
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from builders import a_run, unprivileged
from integration.store.builders import end_together
from scaffold.core.errors import StoreEmpty, StoreError, StoreUnavailable
from scaffold.store.database import Store
from scaffold.store.driver.schema import MIGRATIONS
from support.fake_clock import FakeClock
from support.samples import share_key

OPEN_WHEN_TOLD = """
import sys
from builders import parse_location
from scaffold.host.clock import SystemClock
from scaffold.store.database import Store

sys.stdin.readline()
store = Store.open(parse_location(sys.argv[1:]), clock=SystemClock())
assert store.runs.all() == ()
store.close()
"""


def _sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        for statement in statements:
            raw.execute(statement)


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
    with pytest.raises(StoreError, match=re.escape(str(path))) as caught:
        Store.open(path, clock=clock, create=False)
    assert "scaffold run" in caught.value.fix
    assert not path.parent.exists()


def test_without_create_an_empty_file_is_an_error_and_stays_empty(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "state.db"
    path.touch()
    with pytest.raises(StoreEmpty):
        Store.open(path, clock=clock, create=False)
    assert path.read_bytes() == b""


def test_what_is_no_database_of_ours_is_an_error_and_is_not_changed(tmp_path: Path, clock: FakeClock) -> None:
    """Garbage, the database of another program, and one of a later version."""
    garbage, foreign, newer = (tmp_path / name for name in ("garbage", "foreign", "newer"))
    garbage.write_bytes(b"not a database at all " * 400)
    _sql(foreign, "CREATE TABLE bookmark (url TEXT)")
    Store.open(newer, clock=clock).close()
    _sql(newer, "INSERT INTO schema_history (version, applied_at) VALUES (999, '')")
    fixes = {}
    for path, create in ((garbage, False), (garbage, True), (foreign, True), (newer, True)):
        before = path.read_bytes()
        with pytest.raises(StoreError, match=re.escape(str(path))) as caught:
            Store.open(path, clock=clock, create=create)
        assert path.read_bytes() == before
        fixes[path.name] = caught.value.fix
    assert fixes == snapshot(
        {
            "garbage": "Nothing was changed. Move the file away and restore a backup, or start without it.",
            "foreign": "Nothing was changed. Move it away or use another location, then repeat the command.",
            "newer": "Nothing was changed. Use that version of scaffold, or a newer one.",
        }
    )


def test_a_path_that_cannot_be_opened_is_an_error_that_names_it(tmp_path: Path, public: Path, clock: FakeClock) -> None:
    """A folder, a path below a file, and one in a folder that is closed to the user."""
    (tmp_path / "file").touch()
    (public / "closed").mkdir(mode=0)
    for path in (tmp_path, tmp_path / "file" / "state.db", public / "closed" / "inner" / "state.db"):
        for create in (True, False):
            with unprivileged(), pytest.raises(StoreError, match=re.escape(str(path))):
                Store.open(path, clock=clock, create=create)


def test_a_read_only_folder_or_database_is_an_error_for_writers(public: Path, clock: FakeClock) -> None:
    path = public / "state.db"
    Store.open(path, clock=clock).close()
    path.chmod(0o444)
    public.chmod(0o555)
    for each in (path, public / "new.db"):
        with unprivileged(), pytest.raises(StoreUnavailable, match=re.escape(str(each))):
            Store.open(each, clock=clock)


def test_a_read_only_database_can_be_read(public: Path, clock: FakeClock) -> None:
    """Reading commands work on a read-only medium, beside a writer, too."""
    modes = [(0o444, 0o755), (0o644, 0o555), (0o444, 0o555)]
    for number, ((file, directory), in_use) in enumerate(product(modes, (True, False))):
        path = public / str(number) / "state.db"
        with ExitStack() as until_the_end:
            writer = until_the_end.enter_context(closing(Store.open(path, clock=clock)))
            with writer.transaction():
                writer.runs.add(a_run())
            if not in_use:
                writer.close()
            path.chmod(file)
            path.parent.chmod(directory)
            share_key()
            with unprivileged(), closing(Store.open(path, clock=clock, create=False)) as store:
                assert store.runs.all() == (a_run(),), (oct(file), oct(directory), in_use)
                with pytest.raises(StoreUnavailable, match=re.escape(str(path))), store.transaction():
                    pytest.fail("nothing can be written here")
        path.parent.chmod(0o755)


def test_a_failed_opening_leaves_no_connection_behind(path: Path, clock: FakeClock) -> None:
    Store.open(path, clock=clock).close()
    _sql(path, "INSERT INTO schema_history (version, applied_at) VALUES (999, '')")
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
        assert end_together(*[[sys.executable, "-c", OPEN_WHEN_TOLD, str(path)]] * 4) == [0] * 4
        with closing(sqlite3.connect(path)) as raw:
            steps = range(1, len(list(MIGRATIONS.glob("*.sql"))) + 1)
            assert raw.execute("SELECT version FROM schema_history").fetchall() == [(step,) for step in steps]
            assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
