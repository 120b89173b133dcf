"""Faults in Python code: found in its syntax tree, and written into its text, so that its format stays."""

import ast
import warnings
from collections.abc import Collection, Iterator

from scaffold.verify.planted_faults.fault import Fault, FaultKind

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is"}
COMPARISONS |= {"in": "not in", "not in": "in"}
BOUNDARIES = frozenset({"<", "<=", ">", ">="})
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "//": "/", "/": "*", "%": "*"}
LOGIC = {"and": "or", "or": "and"}
MOST_FAULTS = 60
"""About how many faults of one file are looked at, spread over all of it: each is parsed."""
_ONLY_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break)


def python_faults(path: str, content: bytes, lines: Collection[int]) -> Iterator[Fault]:
    """Yield the faults that can be planted at `lines` (from 1) of a Python file; none if it is no Python."""
    tree = _parse_source(content)
    if tree is None:
        return
    whole = ast.dump(tree)
    found = sorted(_Finder(path, content, lines).all(tree))
    for fault in found[:: 1 + len(found) // MOST_FAULTS]:
        after = _parse_source(fault.planted(content))
        if after is not None and ast.dump(after) != whole:
            yield fault


def _parse_source(content: bytes) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the code of others
        try:
            return ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


class _Finder:
    def __init__(self, path: str, content: bytes, lines: Collection[int]) -> None:
        self._path = path
        self._content = content
        self._lines = lines
        self._starts = [0]
        for line in content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def all(self, tree: ast.Module) -> Iterator[Fault]:
        for node in ast.walk(tree):
            for body in _statement_lists(node):
                yield from self._removal_faults(body)
            if isinstance(node, ast.expr) and node.lineno in self._lines:
                yield from self._in_expression(node)

    def _in_expression(self, node: ast.expr) -> Iterator[Fault]:
        match node:
            case ast.Compare(left=left, ops=[_], comparators=[right]):
                kind: FaultKind = "boundary" if self._word_between(left, right) in BOUNDARIES else "operator"
                yield from self._exchange_faults(left, right, COMPARISONS, kind)
            case ast.BinOp(left=left, right=right) if not (_is_text(left) or _is_text(right)):
                yield from self._exchange_faults(left, right, ARITHMETIC, "operator")
            case ast.BoolOp(values=[left, right, *_]):
                yield from self._exchange_faults(left, right, LOGIC, "operator")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._make_fault(node, self._start_offset(node), self._start_offset(operand), b"", "operator")
            case ast.Constant(value=bool() as value):
                yield self._make_fault(
                    node, self._start_offset(node), self._end_offset(node), str(not value).encode(), "operator"
                )
            case ast.Constant(value=int() as value):
                yield self._make_fault(
                    node, self._start_offset(node), self._end_offset(node), str(value + 1).encode(), "boundary"
                )
            case ast.Call(args=[first, second, *_]) if not isinstance(first, ast.Starred):
                one, other = self._source_text(first), self._source_text(second)
                between = self._content[self._end_offset(first) : self._start_offset(second)]
                if one != other and not isinstance(second, ast.Starred):
                    swapped = other + between + one
                    yield self._make_fault(
                        node, self._start_offset(first), self._end_offset(second), swapped, "swapped_arguments"
                    )
            case _:
                return

    def _removal_faults(self, body: list[ast.stmt]) -> Iterator[Fault]:
        if len(body) < 2:  # a block must not become empty
            return
        for statement in body:
            if statement.lineno not in self._lines:
                continue
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name.startswith("test"):
                yield self._removal_fault(statement, "removed_test")
            elif isinstance(statement, ast.Assert) or _is_check(statement):
                yield self._removal_fault(statement, "deleted_check")

    def _removal_fault(self, statement: ast.stmt, kind: FaultKind) -> Fault:
        above = [each.lineno for each in getattr(statement, "decorator_list", ())]
        first, last = min([statement.lineno, *above]), statement.end_lineno or statement.lineno
        start = self._starts[first - 1]
        return Fault(path=self._path, line=first, start=start, end=self._starts[last], new=b"", kind=kind)

    def _exchange_faults(
        self, left: ast.expr, right: ast.expr, words: dict[str, str], kind: FaultKind
    ) -> Iterator[Fault]:
        word = self._word_between(left, right)
        if word not in words:
            return
        between = self._content[self._end_offset(left) : self._start_offset(right)]
        start = self._end_offset(left) + between.index(word.split()[0].encode())
        end = self._end_offset(left) + between.rindex(word.split()[-1].encode()) + len(word.split()[-1])
        yield self._make_fault(left, start, end, words[word].encode(), kind)

    def _word_between(self, left: ast.expr, right: ast.expr) -> str:
        between = self._content[self._end_offset(left) : self._start_offset(right)].decode(errors="replace")
        return " ".join(between.replace("(", " ").replace(")", " ").replace("\\", " ").split())

    def _make_fault(self, node: ast.expr, start: int, end: int, new: bytes, kind: FaultKind) -> Fault:
        return Fault(path=self._path, line=node.lineno, start=start, end=end, new=new, kind=kind)

    def _source_text(self, node: ast.expr) -> bytes:
        return self._content[self._start_offset(node) : self._end_offset(node)]

    def _start_offset(self, node: ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end_offset(self, node: ast.expr) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)


def _statement_lists(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list):
            yield body


def _is_check(statement: ast.stmt) -> bool:
    """Return whether a statement is an `if` that only leaves: a guard."""
    return isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], _ONLY_LEAVES)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
