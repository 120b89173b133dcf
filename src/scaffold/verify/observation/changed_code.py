"""The lines that a change adds to its Python and JavaScript files, tests excluded, as far as they can be executed."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.added_lines import added_lines
from scaffold.git.client.command_line import Git
from scaffold.git.commits import path_changes
from scaffold.git.trees.links import follow_links, linked_files
from scaffold.host.atomic_files import read_untrusted
from scaffold.verify.observation.node_coverage import SUFFIXES, SourceLines, code_lines
from scaffold.verify.observation.python_lines import ExecutableLines, MarkedLines, executable_lines
from scaffold.verify.paths.conventions import is_test

PYTHON = ".py"
MAX_FILE_BYTES = 5_000_000
MAX_LINES = 50_000
"""Most changed lines that are observed."""


class PythonFile(Struct, frozen=True, kw_only=True):
    """A changed Python file of a checkout; size and checksum tell it, and copies of it, from other files."""

    size: int
    checksum: int
    lines: ExecutableLines


class ChangedCode(Struct, frozen=True, kw_only=True):
    """The changed lines that can be executed, by paths relative to the checkout."""

    python: Mapping[str, PythonFile] = {}
    javascript: Mapping[str, SourceLines] = {}
    readable: bool = True
    """False if the change is too large to tell which of its lines ran."""

    @property
    def empty(self) -> bool:
        """True if nothing of the change can be seen running."""
        return not (self.marked() or self.javascript)

    def marked(self) -> dict[str, tuple[MarkedLines, ...]]:
        """Return the lines of Python files that show whether the changed behaviour ran.

        Those in functions, if any changed: importing a module runs the others, and shows nothing about these.
        """
        inside = {path: file.lines.in_functions for path, file in self.python.items() if file.lines.in_functions}
        return inside or {path: file.lines.at_import for path, file in self.python.items() if file.lines.at_import}


NOTHING = ChangedCode()


async def changed_code(git: Git, base: Commit, head: Commit) -> ChangedCode:
    """Return the executable changed lines of a commit that is checked out where `git` works."""
    try:
        added = await added_lines(git, base, head, (PYTHON, *SUFFIXES))
    except GitError:  # a patch that is too large to be read
        return ChangedCode(readable=False)
    judged = {path: lines for path, lines in added.items() if not is_test(path)}
    if sum(map(len, judged.values())) > MAX_LINES:
        return ChangedCode(readable=False)
    linked = await _changed_links(git, base, head)
    return await asyncio.to_thread(_read_changed_code, git.cwd, judged, linked)


async def _changed_links(git: Git, base: Commit, head: Commit) -> dict[str, str]:
    """Return {link: file} for links with the suffix of code to changed files without it, or changed links to such."""
    linked = await linked_files(git, head)
    if not linked:
        return {}
    changes = await follow_links(git, base, head, await path_changes(git, base, head))
    code = (each.path for each in changes if each.path.endswith((PYTHON, *SUFFIXES)) and not is_test(each.path))
    return {path: linked[path] for path in code if path in linked}


def _read_changed_code(top: Path, added: Mapping[str, tuple[int, ...]], linked: Mapping[str, str]) -> ChangedCode:
    python, javascript = dict[str, PythonFile](), dict[str, SourceLines]()
    for path in {**added, **linked}:
        file = linked.get(path, path)
        data = read_untrusted(top / file, MAX_FILE_BYTES)
        if isinstance(data, str):
            continue
        # Behind a link all lines count: it may be the link that is new.
        changed = range(1, data.count(b"\n") + 2) if path in linked else added[path]
        match _lines_of(path, data, tuple(changed)):
            case ExecutableLines() as lines:
                python[path] = PythonFile(size=len(data), checksum=crc32(data), lines=lines)
            case SourceLines() as lines if lines.changed:
                # Node names a file by where its link leads.
                javascript[file] = lines
            # A file that is no code, such as a template, says nothing about the others.
            case _:
                pass
    return ChangedCode(python=python, javascript=javascript)


def _lines_of(path: str, data: bytes, changed: tuple[int, ...]) -> ExecutableLines | SourceLines | None:
    """Return the changed lines of a file that can be executed; None if it cannot be read as code."""
    if path.endswith(PYTHON):
        return executable_lines(data, changed)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return SourceLines(text, code_lines(text, changed))
