"""What tests copy instead of making it anew: making it takes longer than most tests."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import pytest

from scaffold.host.user_dirs import user_dirs
from scaffold.store.database import Store
from scaffold.store.driver.connection import Connection
from scaffold.store.driver.signature import sign
from scaffold.store.driver.sqlite import SqliteDriver
from support.fake_clock import FakeClock


def folder_until_exit() -> Path:
    """Return a new folder that is removed when this process exits; a fork of it removes nothing."""
    folder, owner = Path(tempfile.mkdtemp(prefix="scaffold-sample-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)  # noqa: TID251 - with that of the test run, it may be gone

    atexit.register(remove)
    return folder


def sample_environ(folder: Path) -> Mapping[str, str]:
    """Return the variables with which a sample is made: those of no test, so that all tests get the same."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8"}


@cache
def _empty_store() -> Path:
    path = folder_until_exit() / "state.db"
    Store.open(path, clock=FakeClock()).close()
    return path


def place_empty_store(path: Path) -> None:
    """Put a store at `path` as its first opening would make it; that one takes 130 statements."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_empty_store(), path)
    sign_state(path)


def sign_state(path: Path, *, home: Path | None = None) -> None:
    """Let a copy of a state at `path` be that of the user with this SCAFFOLD_HOME, by default of this process."""
    with user_at(home or user_dirs().data.parent), closing(SqliteDriver(path, create=False, timeout_s=10)) as driver:
        connection = Connection(driver)
        with connection.transaction():
            sign(connection, path)


@contextmanager
def user_at(home: Path) -> Iterator[None]:
    """Let this process be the user with this SCAFFOLD_HOME in the block, so that his states are its own."""
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("SCAFFOLD_HOME", str(home))
        yield


def share_key() -> None:
    """Let `unprivileged` code be the same user to whom the states of this process belong."""
    folder = user_dirs().data
    folder.chmod(0o755)
    (folder / "state.key").chmod(0o644)
