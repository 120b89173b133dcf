"""The temporary folder of a test run: at the run's end it goes, with all processes that were started with it."""

import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

FOLDER = pytest.StashKey[Path]()


@pytest.hookimpl(trylast=True)
def begin(config: pytest.Config) -> None:
    """Give the run a temporary folder, unless this is one of its workers, which inherits it.

    A pytest that a test starts numbers its folders there and deletes old ones. Among those of all runs of the user, it
    deleted the repositories of earlier test runs, which took it a minute after its last test.
    """
    if hasattr(config, "workerinput"):
        return
    config._tmp_path_factory.getbasetemp()  # stays where pytest keeps those of the last runs
    config.stash[FOLDER] = Path(tempfile.mkdtemp(prefix="scaffold-tests-"))
    config.stash[FOLDER].chmod(0o1777)  # like /tmp: some tests are another user
    os.environ["TMPDIR"] = str(config.stash[FOLDER])
    # States are signed with a key in it: that of the tests, not that of whoever runs them.
    os.environ["SCAFFOLD_HOME"] = str(config.stash[FOLDER] / "user")
    tempfile.tempdir = None


def end(config: pytest.Config) -> None:
    """End what is left of the run: its processes, then its temporary folder."""
    folder = config.stash.get(FOLDER, None)
    if folder is None:
        return
    # Nearly all have the folder; a test that gives its commands another one gives them a home of its own, too.
    marks = (f"TMPDIR={folder}", f"HOME={config._tmp_path_factory.getbasetemp()}/")
    # One that is about to start another may do so before it is killed.
    while left := processes_with(*marks):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)  # noqa: TID251


def processes_with(*marks: str) -> list[int]:
    """Return the living processes, other than this one, with a variable that starts with one of the marks."""
    starts = tuple(map(os.fsencode, marks))
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _is_marked(entry, starts)]


def _is_marked(entry: Path, starts: tuple[bytes, ...]) -> bool:
    try:
        is_alive = entry.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
        variables = entry.joinpath("environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False
    return is_alive and int(entry.name) != os.getpid() and any(each.startswith(starts) for each in variables)
