"""The user's own database: its permissions, how it is opened, and what prevents a migration."""

import shutil
import sqlite3
import stat
import subprocess  # noqa: TID251 - the test is about other processes
import sys
from contextlib import closing
from pathlib import Path

import pytest

from builders import ALIVE, OWNER
from integration.store.builders import end_together
from scaffold.core.errors import StoreError
from scaffold.store.user_store import MIGRATIONS, UserStore, user_database
from support.fake_clock import FakeClock

NOW = len(list(MIGRATIONS.glob("*.sql")))
NEXT = NOW + 1

OPEN_WHEN_TOLD = """
import sys
from pathlib import Path
from scaffold.host.clock import SystemClock
from scaffold.store.user_store import UserStore

sys.stdin.readline()
with (store := UserStore.open(Path(sys.argv[1]), clock=SystemClock())).transaction():
    store.conversations.begin(sys.argv[2], cwd="/", model="m", title="t")
store.close()
"""


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _talk(store: UserStore, me=None) -> None:
    with store.transaction():
        store.conversations.begin("talk", cwd="/shop", model="m", title="hello")
        if me:
            store.conversations.claim("talk", me)


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The migrations of a version that is one schema ahead."""
    folder = Path(shutil.copytree(MIGRATIONS, tmp_path / "newer"))
    (folder / f"{NEXT:04}_more.sql").write_text("ALTER TABLE conversation ADD COLUMN mood TEXT;\n")
    return folder


def test_it_is_readable_only_by_its_user(user: UserStore, user_path: Path) -> None:
    """RA-10: conversations are private, in the log beside the database, too."""
    assert user_database(Path("/home/ann/data")) == Path("/home/ann/data/user.db")
    _talk(user)
    assert _mode(user_path.parent) == 0o700
    assert {path.name: _mode(path) for path in user_path.parent.iterdir()} == {
        "user.db": 0o600,
        "user.db-wal": 0o600,
        "user.db-shm": 0o600,
    }


def test_wrong_permissions_are_corrected(user_path: Path, clock: FakeClock) -> None:
    user_path.parent.mkdir(mode=0o755)
    UserStore.open(user_path, clock=clock).close()
    user_path.chmod(0o644)
    user_path.parent.chmod(0o755)
    UserStore.open(user_path, clock=clock).close()
    assert (_mode(user_path.parent), _mode(user_path)) == (0o700, 0o600)


def test_correct_permissions_are_not_changed(user_path: Path, clock: FakeClock) -> None:
    UserStore.open(user_path, clock=clock).close()
    user_path.parent.chmod(0o500)
    try:
        UserStore.open(user_path, clock=clock, create=False).close()
        assert _mode(user_path.parent) == 0o500
    finally:
        user_path.parent.chmod(0o700)


def test_reopening_it_in_one_process_keeps_the_locks(user: UserStore, user_path: Path, clock: FakeClock) -> None:
    """Closing any descriptor of a file releases all locks of the process on it; others could then remove the log."""
    _talk(user)
    UserStore.open(user_path, clock=clock).close()
    look = (
        "import sqlite3, sys; raw = sqlite3.connect(sys.argv[1]); "
        "raw.execute('SELECT * FROM budget_account'); raw.close()"
    )
    subprocess.run([sys.executable, "-c", look, user_path], check=True)
    assert user_path.with_name("user.db-wal").exists()


def test_without_create_a_missing_one_is_an_error_and_stays_missing(user_path: Path, clock: FakeClock) -> None:
    with pytest.raises(StoreError) as caught:
        UserStore.open(user_path, clock=clock, create=False)
    assert "ralph" in caught.value.fix
    assert not user_path.parent.exists()


def test_an_older_program_reads_a_compatible_newer_database(user_path: Path, clock: FakeClock, newer: Path) -> None:
    with closing(UserStore.open(user_path, clock=clock, migrations=newer)) as store:
        _talk(store)
    with closing(UserStore.open(user_path, clock=clock, create=False)) as older:
        assert older.conversations.get("talk") is not None
        with pytest.raises(StoreError), older.transaction():
            pytest.fail("an older program must not write")
    with pytest.raises(StoreError, match=f" {NEXT}"):
        UserStore.open(user_path, clock=clock)


def test_a_migration_keeps_all_data_and_a_private_backup(user_path: Path, clock: FakeClock, newer: Path) -> None:
    with closing(UserStore.open(user_path, clock=clock)) as store:
        _talk(store, OWNER)
    with closing(UserStore.open(user_path, clock=clock, migrations=newer)) as store:
        assert store.conversations.get("talk") is not None
    copy = user_path.with_name(f"user.db.bak-{NOW}")
    assert _mode(copy) == 0o600
    with closing(sqlite3.connect(copy)) as raw:
        assert raw.execute("SELECT id FROM conversation").fetchall() == [("talk",)]


def test_nothing_is_migrated_under_an_active_conversation(
    user: UserStore, user_path: Path, clock: FakeClock, newer: Path
) -> None:
    _talk(user, ALIVE)
    with pytest.raises(StoreError, match=rf"process {ALIVE.pid}\).* talk"):
        UserStore.open(user_path, clock=clock, migrations=newer)
    with user.transaction():
        user.conversations.release("talk", ALIVE)
    UserStore.open(user_path, clock=clock, migrations=newer).close()


@pytest.mark.slow
def test_several_processes_may_open_a_new_one_at_once(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "home" / "user.db"
    assert end_together(*([sys.executable, "-c", OPEN_WHEN_TOLD, path, name] for name in "abcd")) == [0] * 4
    with closing(UserStore.open(path, clock=clock)) as store:
        assert all(store.conversations.get(name) for name in "abcd")
