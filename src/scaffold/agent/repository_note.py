"""What an agent is told about its folder at the start: git's state, latest commits, files, how tests are run."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from scaffold.agent.files_note import files_note
from scaffold.agent.instructions import FILE_NAMES
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import Commit
from scaffold.core.printable_text import printable, utf8_safe
from scaffold.git.command import Git
from scaffold.git.worktree_metadata import find_checkout
from scaffold.verify.gates.detection import detect_at_commit

TIME_LIMIT_S = 3.0
"""A repository that takes longer is described by its files alone."""
MAX_CHANGES, MAX_COMMITS, MAX_INSTRUCTIONS, MAX_TEST_COMMANDS = 20, 5, 10, 4
MAX_LINE = 100
MAX_OUTPUT_BYTES = 64 * 1024


async def repository_note(folder: Path, environ: Mapping[str, str]) -> str:
    """Return lines about a folder and the repository that it is in, if any; raises nothing."""
    lines: Sequence[str] = ()
    top = find_checkout(folder)
    if top is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(TIME_LIMIT_S):
                lines = await _repository(Git(folder, environ=environ), top)
    return "\n".join(filter(None, [*lines, files_note(folder)]))


async def _repository(git: Git, top: Path) -> list[str]:
    globs = [f":(glob)*/**/{name}" for name in FILE_NAMES]
    async with asyncio.TaskGroup() as group:
        changes = group.create_task(_output(git, "status", "--short", "--untracked-files=normal"))
        instructions = group.create_task(_output(git, "ls-files", "--", *globs))
        # Not `log`: `rev-list` needs no look at the repository's configuration.
        head, *commits = await _output(git, "rev-list", f"-{MAX_COMMITS}", "--format=%h %s", "HEAD") or [""]
        tests = await _test_commands(git.at(top), Commit(head.removeprefix("commit "))) if head else ()
    if not head:
        return []
    return [*_status(changes.result()), *_log(commits[::2]), *tests, *_nested(instructions.result())]


async def _output(git: Git, *args: str) -> Sequence[str]:
    """Return the lines of the output, safe to show and limited in length; none if git fails."""
    try:
        answer = await git(*args, limit_bytes=MAX_OUTPUT_BYTES)
    except ScaffoldError:
        return ()
    return [_line(line) for line in answer.line.split("\n") if line]


async def _test_commands(git: Git, head: Commit) -> Sequence[str]:
    try:
        found = await detect_at_commit(git, head)
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


def _line(text: str) -> str:
    shown = printable(utf8_safe(text))
    return shown if len(shown) <= MAX_LINE else f"{shown[:MAX_LINE]}..."
