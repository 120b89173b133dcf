"""A note for an agent about its folder: git's state, the latest commits, the files, how tests are run."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from scaffold.agent.files_note import files_note
from scaffold.agent.instruction_files import FILE_NAMES
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited, printable, utf8_safe
from scaffold.core.proof.gates import Gate
from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.git.client.command_line import Git
from scaffold.verify.gates.detection import detect_at_commit

TIME_LIMIT_S = 3.0  # A repository that takes longer is described by its files alone
MAX_CHANGES, MAX_COMMITS, MAX_INSTRUCTIONS, MAX_TEST_COMMANDS = 20, 5, 10, 4
MAX_LINE = 200  # characters of a path or of a commit's subject
MAX_OUTPUT_BYTES = 64 * 1024


async def repository_note(folder: Path, environ: Mapping[str, str]) -> str:
    """Return lines about a folder and the repository that it is in, if any; raises nothing."""
    lines: Sequence[str] = ()
    top = find_checkout(folder)
    if top is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(TIME_LIMIT_S):
                lines = await _repository_lines(Git(folder, environ=environ), top)
    return "\n".join(filter(None, [*lines, files_note(folder)]))


async def _repository_lines(git: Git, top: Path) -> list[str]:
    # The form for programs: the user's configuration could colour the other one, or show other paths.
    status = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")
    names = [f":(glob)*/**/{name}" for name in FILE_NAMES]
    async with asyncio.TaskGroup() as group:
        changes = group.create_task(_output_records(git, *status))
        instructions = group.create_task(_output_records(git, "ls-files", "-z", "--", *names))
        # Not `log`: `rev-list` needs no look at the repository's configuration.
        head, commits = "", list[str]()
        with suppress(ScaffoldError):  # a repository without a commit
            listed = await git("rev-list", f"-{MAX_COMMITS}", "--format=%h %s", "HEAD", limit_bytes=MAX_OUTPUT_BYTES)
            head, *commits = [line for line in listed.line.split("\n") if line] or [""]
        gates: Sequence[Gate] = ()
        with suppress(ScaffoldError):
            if head:
                gates = (await detect_at_commit(git.at(top), Commit(head.removeprefix("commit ")))).gates
    if not head:
        return []
    status_lines = _status_lines(changes.result(), top, git.cwd)
    log = ["Latest commits at the start:", *map(_printable_line, commits[::2])]
    tests = [gate for gate in gates if gate.kind == "test"][:MAX_TEST_COMMANDS]
    shown = [_printable_line(f"Tests of {gate.folder or 'the repository'}: `{gate.command}`") for gate in tests]
    # One file of instructions for each folder below: the one that counts there.
    by_folder: dict[str, str] = {}
    for path in sorted(instructions.result(), key=lambda path: FILE_NAMES.index(path.rpartition("/")[2])):
        by_folder.setdefault(path.rpartition("/")[0], path)
    if by_folder:
        found = join_limited([_printable_line(path) for path in sorted(by_folder.values())], MAX_INSTRUCTIONS)
        shown.append(f"Before you change anything in a folder below, read its instructions: {found}")
    return [*status_lines, *log, *shown]


async def _output_records(git: Git, *args: str) -> Sequence[str]:
    try:
        return (await git(*args, limit_bytes=MAX_OUTPUT_BYTES)).records
    except ScaffoldError:
        return ()


def _status_lines(changes: Sequence[str], top: Path, folder: Path) -> Iterator[str]:
    # Paths as commands in the folder see them: git names them from the top.
    if not changes:
        yield "Git status at the start of this session: clean"
        return
    yield "Git status at the start of this session (changes from before it):"
    for each in changes[:MAX_CHANGES]:
        state, path = each[:3], each[3:]
        yield _printable_line(f"{state}{os.path.relpath(top / path, folder)}{'/' * path.endswith('/')}")
    if len(changes) > MAX_CHANGES:
        yield f"... {len(changes) - MAX_CHANGES} more"


def _printable_line(text: str) -> str:
    shown = printable(utf8_safe(text))
    return shown if len(shown) <= MAX_LINE else f"{shown[:MAX_LINE]}..."
