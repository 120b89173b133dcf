"""The executable lines that a change adds to its Python and JavaScript files, tests excluded."""

import ast
import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit
from scaffold.git.added_lines import added_lines
from scaffold.git.client.command_line import Git
from scaffold.git.commits import path_changes
from scaffold.git.trees.links import follow_links, linked_files
from scaffold.host.contained_path import ContainedPath
from scaffold.verify.observation.node_coverage import SUFFIXES, SourceLines, code_lines
from scaffold.verify.paths.conventions import is_test

_NEVER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass, ast.Global, ast.Nonlocal)
"""Statements that run when a module is loaded, whatever they define, and those that do nothing."""
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)
"""Nodes that can leave a statement early, so that the next one need not run."""
PYTHON = ".py"
MAX_FILE_BYTES = 5_000_000
MAX_LINES = 50_000
"""The most changed lines to observe."""


class MarkedLines(Struct, frozen=True):
    """Changed lines that run together, unless an exception comes between: no jump leads into them or out of them."""

    number: int
    """The line where the first statement begins; a mark before it shows that all of them were reached."""
    lines: tuple[int, ...]


class ExecutableLines(Struct, frozen=True):
    """The changed lines of a file that can be executed."""

    in_functions: tuple[MarkedLines, ...] = ()
    at_import: tuple[MarkedLines, ...] = ()
    """The lines that run whenever the file is loaded, such as constants and fields of classes."""


class PythonFile(Struct, frozen=True, kw_only=True):
    """A changed Python file of a checkout; size and checksum identify it and its copies."""

    size: int
    checksum: int
    lines: ExecutableLines


class ChangedCode(Struct, frozen=True, kw_only=True):
    """The changed lines that can be executed, by paths relative to the checkout."""

    python: Mapping[str, PythonFile] = {}
    javascript: Mapping[str, SourceLines] = {}
    readable: bool = True
    """False if the change is too large to tell which of its lines ran."""

    def marked(self) -> dict[str, tuple[MarkedLines, ...]]:
        """Return the lines of Python files that show whether the changed behaviour ran.

        Lines in functions if any changed: the others run on import, which proves nothing about functions.
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
        data = ContainedPath(top, file).read(MAX_FILE_BYTES)
        if isinstance(data, str):
            continue
        # Behind a link all lines count, because the link may be new.
        changed = range(1, data.count(b"\n") + 2) if path in linked else added[path]
        match _lines_of(path, data, tuple(changed)):
            case ExecutableLines() as lines:
                python[path] = PythonFile(size=len(data), checksum=crc32(data), lines=lines)
            case SourceLines() as lines if lines.changed:
                # Node names a file by where its link leads.
                javascript[file] = lines
            # A file that is not code, such as a template, does not matter for the others.
            case _:
                pass
    return ChangedCode(python=python, javascript=javascript)


def _lines_of(path: str, data: bytes, changed: tuple[int, ...]) -> ExecutableLines | SourceLines | None:
    if path.endswith(PYTHON):
        return executable_lines(data, changed)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return SourceLines(text, code_lines(text, changed))


def executable_lines(source: bytes, changed: Collection[int]) -> ExecutableLines | None:
    """Return the executable ones of the `changed` lines; None if this Python cannot parse the file.

    Definitions, imports, docstrings and lines without code do not count.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    text = source.splitlines()
    # A comment inside a statement does not run.
    counted = frozenset(n for n in changed if 0 < n <= len(text) and text[n - 1].strip()[:1] not in {b"", b"#"})
    inside, outside = list[MarkedLines](), list[MarkedLines]()
    for statements, in_function in _statement_lists(tree):
        (inside if in_function else outside).extend(_marked_groups(statements, counted, in_function=in_function))
    return ExecutableLines(_merge_by_line(inside), _merge_by_line(outside))


def _statement_lists(node: ast.AST, *, in_function: bool = False) -> Iterator[tuple[Sequence[ast.stmt], bool]]:
    """Yield every list of statements below a node, and whether it runs only when a function is called."""
    for _, value in ast.iter_fields(node):
        if not isinstance(value, list):
            continue
        if value and isinstance(value[0], ast.stmt):
            yield value, in_function
        for each in value:
            if isinstance(each, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                is_function = isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
                yield from _statement_lists(each, in_function=in_function or is_function)


def _marked_groups(
    statements: Sequence[ast.stmt], changed: Collection[int], *, in_function: bool
) -> Iterator[MarkedLines]:
    # Statements that run together share a mark, which costs time in a loop.
    number, lines = 0, list[int]()
    for statement in statements:
        if _has_effect(statement, in_function) and (found := [n for n in _own_lines(statement) if n in changed]):
            number = number if lines else statement.lineno
            lines += found
        # Unless it can be left halfway, what follows a statement runs whenever that does.
        is_definition = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if lines and not is_definition and any(isinstance(node, _LEAVES) for node in ast.walk(statement)):
            yield MarkedLines(number, tuple(lines))
            lines = []
    if lines:
        yield MarkedLines(number, tuple(lines))


def _has_effect(statement: ast.stmt, in_function: bool) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
            return False
        case ast.AnnAssign(value=None):
            return not in_function
        case _:
            return not isinstance(statement, _NEVER)


def _own_lines(statement: ast.stmt) -> range:
    end = statement.end_lineno or statement.lineno
    inner = [each.lineno for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt)]
    inner += [each.pattern.lineno for each in ast.iter_child_nodes(statement) if isinstance(each, ast.match_case)]
    return range(statement.lineno, max(statement.lineno, min([end, *(line - 1 for line in inner)])) + 1)


def _merge_by_line(groups: Sequence[MarkedLines]) -> tuple[MarkedLines, ...]:
    # Groups that begin in the same line get the same mark.
    joined = dict[int, tuple[int, ...]]()
    for group in sorted(groups, key=lambda each: each.number):
        joined[group.number] = tuple(dict.fromkeys((*joined.get(group.number, ()), *group.lines)))
    return tuple(MarkedLines(number, lines) for number, lines in joined.items())
