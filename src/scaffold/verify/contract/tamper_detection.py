"""Detect test files that were written while a check ran: code that edits a test before it loads controls its result.

Restoring the content does not hide the write: the kernel sets the ctime.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.verify.paths.conventions import is_test, is_test_file

MAX_LISTED = 3
"""Most files named in a message."""

_RUNS_TESTS = re.compile(
    r"\b(?:pytest|py\.test|unittest|jest|vitest|mocha|tox|nox|(?:go|cargo|hatch) test)\b|\bnode\b.*--test\b"
    r"|\b(?:make|just|task|rake|npm|pnpm|yarn|bun)\b.*\btests?\b|\btests?\.sh\b"
)
_COMPILES_NONE = re.compile(r"^(?!.*\s-\w*[IE]).*\b(?:pytest|py\.test|unittest)\b", re.DOTALL)
"""Commands that obey the environment, which forbids bytecode; with -I and -E Python ignores the environment."""
_SUPPORT_FILES = frozenset({"conftest.py", "__init__.py"})
"""Files that Python loads together with the tests in their folder."""

FileState = tuple[int, int, int]
"""(inode, size, ctime in ns)."""


class FileSnapshot(Struct, frozen=True):
    """The state of a checkout's test files before a command ran."""

    top: Path
    paths: Collection[str]
    compiled: bool
    """Whether bytecode files are compared, too."""
    marks: Mapping[str, FileState]
    """By path; missing files are left out."""

    async def touched(self) -> tuple[str, ...]:
        """Return the files that were written, replaced, removed or compiled since the snapshot, sorted."""
        now = await asyncio.to_thread(_file_states, self.top, self.paths, compiled=self.compiled)
        return tuple(sorted(path for path in {*self.marks, *now} if now.get(path) != self.marks.get(path)))


async def snapshot_files(git: Git, at: Commit, command: str) -> FileSnapshot:
    """Return the current state of the test files of a checkout, whose commit is `at`, before `command` runs."""
    listed = await commits.listed_paths(git, at)
    support = {path for path in listed if path.rpartition("/")[2] in _SUPPORT_FILES and is_test(path)}
    paths = [path for path in listed if path in support or is_test_file(path)]
    compiled = _COMPILES_NONE.match(command) is not None
    return FileSnapshot(
        git.cwd, paths, compiled, await asyncio.to_thread(_file_states, git.cwd, paths, compiled=compiled)
    )


def runs_tests(command: str) -> bool:
    """Return True if the command names a test runner."""
    return _RUNS_TESTS.search(command) is not None


def tamper_message(touched: Collection[str]) -> str:
    """Return the message about test files that changed during a run."""
    return f"Test files changed during the run, so the result is invalid: {join_limited(sorted(touched), MAX_LISTED)}."


def _file_states(top: Path, paths: Collection[str], *, compiled: bool) -> dict[str, FileState]:
    # Python may run bytecode instead of a source, so it counts, too, if `compiled`.
    found = {}
    for path in (*paths, *(_bytecode_files(top, paths) if compiled else ())):
        try:
            status = os.lstat(top / path)
        except OSError:
            continue
        # The mtime can be set back by any program, the ctime by none.
        found[path] = (status.st_ino, status.st_size, status.st_ctime_ns)
    return found


def _bytecode_files(top: Path, paths: Collection[str]) -> Iterator[str]:
    sources = frozenset(path.removesuffix(".py") for path in paths if path.endswith(".py"))
    for folder in sorted({path.rpartition("/")[0] for path in sources}):
        cache = f"{folder}/__pycache__" if folder else "__pycache__"
        with contextlib.suppress(OSError):
            for name in os.listdir(top / cache):  # noqa: PTH208 - names alone
                if f"{cache.removesuffix('__pycache__')}{name.partition('.')[0]}" in sources:
                    yield f"{cache}/{name}"
