"""What an agent is told about its folder at the start: git's state, latest commits, files, how tests are run."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from scaffold.agent.instructions import FILE_NAMES
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import Commit
from scaffold.core.printable_text import printable, utf8_safe
from scaffold.git.command import Git
from scaffold.host.startup import lazy_import
from scaffold.tools.workspace import printable_name

TIME_LIMIT_S = 3.0
"""A repository that takes longer is described by its files alone."""
MAX_CHANGES, MAX_COMMITS, MAX_ENTRIES, MAX_INSTRUCTIONS, MAX_TEST_COMMANDS = 20, 5, 50, 10, 4
MAX_LINE = 100
MAX_OUTPUT_BYTES = 64 * 1024
DETECTION = "scaffold.verify.gates.detection:detect_at_commit"
"""Imported for a repository with commits only: a session elsewhere starts without it."""


async def repository_note(git: Git) -> str:
    """Return lines about the directory of `git` and the repository that it is in, if any; raises nothing."""
    lines: Sequence[str] = ()
    with suppress(TimeoutError, ScaffoldError):
        async with asyncio.timeout(TIME_LIMIT_S):
            lines = await _repository(git)
    return "\n".join(filter(None, [*lines, files_note(git.cwd)]))


async def _repository(git: Git) -> list[str]:
    found = await git("rev-parse", "--show-toplevel", "HEAD", ok=frozenset({0, 128}))
    if found.exit_code:
        return []
    top, head = found.line.rsplit("\n", 1)
    async with asyncio.TaskGroup() as group:
        changes = group.create_task(_output(git, "status", "--short", "--untracked-files=normal"))
        commits = group.create_task(_output(git, "log", f"-{MAX_COMMITS}", "--format=%h %s"))
        globs = [f":(glob)*/**/{name}" for name in FILE_NAMES]
        instructions = group.create_task(_output(git, "ls-files", "--", *globs))
        tests = group.create_task(_test_commands(git.at(Path(top)), Commit(head)))
    return [*_status(changes.result()), *_log(commits.result()), *tests.result(), *_nested(instructions.result())]


async def _output(git: Git, *args: str) -> Sequence[str]:
    """Return the lines of the output, safe to show and limited in length; none if git fails."""
    try:
        answer = await git(*args, limit_bytes=MAX_OUTPUT_BYTES)
    except ScaffoldError:
        return ()
    return [_line(line) for line in answer.line.split("\n") if line]


async def _test_commands(git: Git, head: Commit) -> Sequence[str]:
    try:
        found = await lazy_import(DETECTION)(git, head)
    except ScaffoldError:
        return ()
    tests = [gate for gate in found.gates if gate.kind == "test"][:MAX_TEST_COMMANDS]
    return [_line(f"Tests of {gate.folder or 'the repository'}: `{gate.command}`") for gate in tests]


def _status(changes: Sequence[str]) -> Iterator[str]:
    if not changes:
        yield "Git status at the start: clean"
        return
    yield "Git status at the start (changes that are not yours):"
    yield from changes[:MAX_CHANGES]
    if len(changes) > MAX_CHANGES:
        yield f"... {len(changes) - MAX_CHANGES} more"


def _log(commits: Sequence[str]) -> Iterator[str]:
    yield "Latest commits at the start:"
    yield from commits


def _nested(paths: Sequence[str]) -> Iterator[str]:
    if paths:
        yield _line(f"Read before you change files beside it: {', '.join(paths[:MAX_INSTRUCTIONS])}")


def files_note(folder: Path) -> str:
    """Return a line with the names in the folder, folders with a slash; empty if it cannot be read."""
    try:
        with os.scandir(folder) as found:
            names = sorted(each.name + "/" * each.is_dir() for each in found if each.name != ".git")
    except OSError:
        return ""
    shown = [printable_name(utf8_safe(name)) for name in names[:MAX_ENTRIES]]
    more = [f"... {len(names) - MAX_ENTRIES} more"] if len(names) > MAX_ENTRIES else []
    return f"Files at the start: {' '.join([*shown, *more])}" if shown else "Files at the start: none"


def _line(text: str) -> str:
    shown = printable(utf8_safe(text))
    return shown if len(shown) <= MAX_LINE else f"{shown[:MAX_LINE]}..."
