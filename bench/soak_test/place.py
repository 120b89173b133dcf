"""The place of a soak: a repository, a home, their database, and if possible a small disk of their own."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess  # noqa: TID251 - the real command is used as a user uses it
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

from soak_test.workload import FILES

DISK_MB = 3000
BALLAST = "ballast"
DATABASE_URL = "SCAFFOLD_DATABASE_URL"


class Place:
    """A repository in `folder`, with a home of its own."""

    def __init__(self, folder: Path, *, database_url: str | None = None) -> None:
        """Keep the state on the server `database_url`, or in a file."""
        self.folder = folder
        self.repo, self.home = folder / "repo", folder / "home"
        self.temporary = folder / "tmp"
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SCAFFOLD_HOME": str(self.home / "scaffold"),
            "TMPDIR": str(self.temporary),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LANG": "C.UTF-8",
        }
        if database_url:
            self.environ[DATABASE_URL] = database_url

    def make(self) -> None:
        """Make the repository and the folders."""
        for each in (self.repo, self.home, self.temporary):
            each.mkdir()
        for name, content in FILES.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(content)
        for args in (
            ("init", "--quiet", "--initial-branch=main"),
            ("config", "user.name", "Ada"),
            ("config", "user.email", "ada@example.org"),
            ("config", "gc.auto", "0"),  # the user of a soak collects garbage; chance does not
            ("add", "--all"),
            ("commit", "--quiet", "--message=start"),
        ):
            self.git(*args)

    @property
    def common_dir(self) -> Path:
        """The git directory."""
        return self.repo / ".git"

    def git(self, *args: str) -> str:
        """Return what git prints in the repository; CalledProcessError if it fails."""
        done = subprocess.run(
            ["git", *args], cwd=self.repo, env=self.environ, capture_output=True, text=True, check=True
        )
        return done.stdout

    def argv(self, *args: str) -> list[str]:
        """Return the command line of the real command."""
        return [sys.executable, "-m", "scaffold", *args]

    def scaffold(self, *args: str) -> "subprocess.CompletedProcess[str]":
        """Run the real command to its end."""
        return subprocess.run(
            self.argv(*args),
            cwd=self.repo,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the state, read without Scaffold's code."""
        if url := self.environ.get(DATABASE_URL):
            schema = (self.common_dir / "scaffold" / "schema").read_text().strip()
            with psycopg.connect(url, options=f"-c search_path={schema}") as server:
                return server.execute(query.encode()).fetchall()
        path = self.common_dir / "scaffold" / "state.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(query).fetchall()

    def run(self) -> Mapping[str, Any]:
        """Return the latest run's row: status, reason, owner, branch, base."""
        columns = ("status", "reason", "owner", "session_branch", "base_sha")
        row = self.rows(f"SELECT {', '.join(columns)} FROM run ORDER BY position DESC LIMIT 1")[0]
        return dict(zip(columns, row, strict=True))

    def owner_pids(self) -> list[int]:
        """Return the pid of the process that owns the run; none if there is none."""
        return self._pids("SELECT owner FROM run WHERE owner IS NOT NULL")

    def worker_pids(self) -> list[int]:
        """Return the pids of the workers of open attempts."""
        return self._pids("SELECT worker FROM attempt WHERE status <> 'ended' AND worker IS NOT NULL")

    def _pids(self, query: str) -> list[int]:
        identities = (json.loads(stored) for (stored,) in self.rows(query))
        return [identity["pid"] for identity in identities if identity]

    def processes(self) -> dict[int, str]:
        """Return the command lines of all living processes of this home, by pid."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if f"HOME={self.home}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found[int(entry.name)] = _command_line(entry)
        return {pid: line for pid, line in found.items() if line}


def _command_line(entry: Path) -> str:
    """Return the command line of a process; empty for one that is dead and not yet waited for."""
    return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


@contextlib.contextmanager
def own_disk(folder: Path) -> Iterator[bool]:
    """Mount a small disk in memory at the folder while the block lasts; yields False where that is not allowed."""
    mounted = _succeeds("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder))
    try:
        yield mounted
    finally:
        if mounted:
            _succeeds("umount", "--lazy", str(folder))


def fill(folder: Path) -> None:
    """Fill the disk of the folder, to the last byte."""
    with (folder / BALLAST).open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)


def make_room(folder: Path) -> None:
    """Undo `fill`."""
    (folder / BALLAST).unlink(missing_ok=True)


def _succeeds(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
