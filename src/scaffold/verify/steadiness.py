"""Files of tests stay as they are while they judge: who writes into one before it is loaded decides what it says.

Putting back what was there hides nothing: when a file was last touched is the kernel's to say.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.legible import few
from scaffold.git import commit
from scaffold.git.command import Git
from scaffold.verify.testlike import is_test, is_test_file

SHOWN = 3
"""So many files are named."""

_RUNS_TESTS = re.compile(
    r"\b(?:pytest|py\.test|unittest|jest|vitest|tox|nox|(?:go|cargo|hatch) test)\b|\bnode\b.*--test\b"
    r"|\b(?:make|just|task|rake|npm|pnpm|yarn|bun)\b.*\btests?\b|\btests?\.sh\b"
)
_COMPILES_NONE = re.compile(r"^(?!.*\s-\w*[IE]).*\b(?:pytest|py\.test|unittest)\b", re.DOTALL)
"""Commands that write no compiled files, as they are told by the environment; who isolates them does not tell them."""
_PREPARING = frozenset({"conftest.py", "__init__.py"})
"""Files that are loaded with the tests beside them."""

Mark = tuple[int, int, int]
"""Which file it is, how long, and when it was last touched."""


class Watch(Struct, frozen=True):
    """Files of tests of a checkout, as they were before something ran."""

    top: Path
    paths: Collection[str]
    compiled: bool
    """Whether compiled forms of the files count, too."""
    marks: Mapping[str, Mark]
    """By path; of what is there."""

    async def touched(self) -> tuple[str, ...]:
        """Return the files that somebody has written, replaced, removed or compiled since, sorted."""
        now = await asyncio.to_thread(_marks, self.top, self.paths, compiled=self.compiled)
        return tuple(sorted(path for path in {*self.marks, *now} if now.get(path) != self.marks.get(path)))


async def watch(git: Git, at: Commit, command: str) -> Watch:
    """Return what the files of tests of a checkout, which is that of a commit, are like before a command runs."""
    paths = [path for path in await commit.listed_paths(git, at) if is_test_file(path) or _prepares(path)]
    compiled = _COMPILES_NONE.match(command) is not None
    return Watch(git.cwd, paths, compiled, await asyncio.to_thread(_marks, git.cwd, paths, compiled=compiled))


def runs_tests(command: str) -> bool:
    """Tell whether a command names a runner of tests."""
    return _RUNS_TESTS.search(command) is not None


def told(touched: Collection[str]) -> str:
    """Return what is wrong with files of tests that were touched, as a sentence."""
    return f"Tests were changed while they ran, so they show nothing: {few(sorted(touched), SHOWN)}."


def _prepares(path: str) -> bool:
    return path.rpartition("/")[2] in _PREPARING and is_test(path)


def _marks(top: Path, paths: Collection[str], *, compiled: bool) -> dict[str, Mark]:
    """Return the marks of those files that are there, and of what a Python may run in place of them."""
    found = {}
    for path in (*paths, *(_compiled(top, paths) if compiled else ())):
        try:
            status = os.lstat(top / path)
        except OSError:
            continue
        found[path] = (status.st_ino, status.st_size, status.st_ctime_ns)
    return found


def _compiled(top: Path, paths: Collection[str]) -> Iterator[str]:
    """Yield the compiled forms of the files."""
    sources = frozenset(path.removesuffix(".py") for path in paths if path.endswith(".py"))
    for folder in sorted({path.rpartition("/")[0] for path in sources}):
        place = f"{folder}/__pycache__" if folder else "__pycache__"
        with contextlib.suppress(OSError):
            for name in os.listdir(top / place):  # noqa: PTH208 - names alone
                if f"{place.removesuffix('__pycache__')}{name.partition('.')[0]}" in sources:
                    yield f"{place}/{name}"
