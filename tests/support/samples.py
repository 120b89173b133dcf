"""What tests copy instead of making it anew: making it takes longer than most tests."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from scaffold.host.clock import FakeClock
from scaffold.store.database import Store


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
