"""Which lines of Python code do something when they run, and before which statements that can be seen."""

import ast
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

_NEVER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass, ast.Global, ast.Nonlocal)
"""Statements that run when a module is loaded, whatever they define, and those that do nothing."""
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)
"""Nodes after which what follows a statement need not run."""


class MarkedLines(Struct, frozen=True):
    """Changed lines that run together, unless an exception comes between: no jump leads into them or out of them."""

    number: int
    """The line where the first statement begins; a mark before it shows that all of them were reached."""
    lines: tuple[int, ...]


class ExecutableLines(Struct, frozen=True):
    """The changed lines of a file that can be executed."""

    in_functions: tuple[MarkedLines, ...] = ()
    at_import: tuple[MarkedLines, ...] = ()
    """Those that run whenever the file is loaded, such as constants and fields of classes."""


def executable_lines(source: bytes, changed: Collection[int]) -> ExecutableLines | None:
    """Return which of the `changed` lines can be executed; None if this Python cannot read the file.

    Lines of definitions, imports and docstrings, and lines without code, are none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    text = source.splitlines()
    # A comment inside a statement is no part of what runs.
    counted = frozenset(n for n in changed if 0 < n <= len(text) and text[n - 1].strip()[:1] not in {b"", b"#"})
    inside, outside = list[MarkedLines](), list[MarkedLines]()
    for statements, in_function in _statement_lists(tree):
        (inside if in_function else outside).extend(_marked_groups(statements, counted, in_function=in_function))
    return ExecutableLines(_by_line(inside), _by_line(outside))


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
    """Yield the changed statements of a list; those that run together share a mark, which costs time in a loop."""
    number, lines = 0, list[int]()
    for statement in statements:
        if _has_effect(statement, in_function) and (found := [n for n in _own_lines(statement) if n in changed]):
            number = number if lines else statement.lineno
            lines += found
        # Unless it can be left halfway, what follows a statement runs whenever that does.
        if lines and _can_be_left(statement):
            yield MarkedLines(number, tuple(lines))
            lines = []
    if lines:
        yield MarkedLines(number, tuple(lines))


def _can_be_left(statement: ast.stmt) -> bool:
    """Return True if executing the statement may end before its end without an exception."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    return any(isinstance(node, _LEAVES) for node in ast.walk(statement))


def _has_effect(statement: ast.stmt, in_function: bool) -> bool:
    """Return True if executing the statement does something that a caller could notice."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
            return False
        case ast.AnnAssign(value=None):
            return not in_function
        case _:
            return not isinstance(statement, _NEVER)


def _own_lines(statement: ast.stmt) -> range:
    """Return the lines of a statement without those of the statements in it."""
    end = statement.end_lineno or statement.lineno
    inner = [each.lineno for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt)]
    inner += [each.pattern.lineno for each in ast.iter_child_nodes(statement) if isinstance(each, ast.match_case)]
    return range(statement.lineno, max(statement.lineno, min([end, *(line - 1 for line in inner)])) + 1)


def _by_line(groups: Sequence[MarkedLines]) -> tuple[MarkedLines, ...]:
    """Return the groups in order, with those that begin in the same line as one: they get the same mark."""
    joined = dict[int, tuple[int, ...]]()
    for group in sorted(groups, key=lambda each: each.number):
        joined[group.number] = tuple(dict.fromkeys((*joined.get(group.number, ()), *group.lines)))
    return tuple(MarkedLines(number, lines) for number, lines in joined.items())
