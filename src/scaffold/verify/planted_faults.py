"""Faults that are planted into changes to see whether a reviewer finds them. Pure; the same seed gives the same faults.

Faults in Python are found in the syntax tree and written into the text, so that its format stays. In other languages
they follow from rules about single lines.
"""

import ast
import hashlib
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

Chosen = TypeVar("Chosen")
MAX_FILE_BYTES = 200_000
"""A larger file gets no fault: few people write such files."""
ENDINGS = frozenset(
    (
        *("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "go", "rs", "java", "kt", "kts", "scala", "swift"),
        *("c", "h", "cc", "cpp", "cxx", "hpp", "cs", "rb", "php", "dart", "lua"),
    )
)
_COMMENTS = (b"//", b"#", b"*", b"/*", b"--")
FaultKind = Literal["operator", "boundary", "deleted_check", "removed_test", "swapped_arguments"]
_RULES: tuple[tuple[FaultKind, re.Pattern[bytes], bytes], ...] = (
    ("boundary", re.compile(rb"(?<=\s)<=(?=\s)"), b"<"),
    ("boundary", re.compile(rb"(?<=\s)>=(?=\s)"), b">"),
    ("boundary", re.compile(rb"(?<=[\w)\]] )<(?= [\w(])"), b"<="),
    ("boundary", re.compile(rb"(?<=[\w)\]] )>(?= [\w(])"), b">="),
    ("operator", re.compile(rb"(?<=\s)===(?=\s)"), b"!=="),
    ("operator", re.compile(rb"(?<=\s)!==(?=\s)"), b"==="),
    ("operator", re.compile(rb"(?<=\s)==(?=\s)"), b"!="),
    ("operator", re.compile(rb"(?<=\s)!=(?=\s)"), b"=="),
    ("operator", re.compile(rb"&&"), b"||"),
    ("operator", re.compile(rb"\|\|"), b"&&"),
    ("operator", re.compile(rb"(?<=[\w)\]] )\+(?= [\w(])"), b"-"),
    ("operator", re.compile(rb"(?<=[\w)\]] )-(?= [\w(])"), b"+"),
    ("operator", re.compile(rb"\btrue\b"), b"false"),
    ("operator", re.compile(rb"\bfalse\b"), b"true"),
    ("swapped_arguments", re.compile(rb"(?<=\w\()(\w+), (\w+)(?=\))"), rb"\2, \1"),
    ("deleted_check", re.compile(rb"^[ \t]*if\b.*\b(?:return|throw|continue|break)\b[^{}]*;?[ \t]*\r?\n"), b""),
)
COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is"}
COMPARISONS |= {"in": "not in", "not in": "in"}
BOUNDARIES = frozenset({"<", "<=", ">", ">="})
ARITHMETIC = {"+": "-", "-": "+", "*": "+", "//": "/", "/": "*", "%": "*"}
MOST_FAULTS = 60
"""About how many faults of one file are tried, spread over all of it, because each is parsed."""
_ONLY_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break)


class LandedFile(Struct, frozen=True, kw_only=True):
    """A file of a change as it is afterwards, and the lines of it that are new."""

    path: str
    content: bytes
    lines: frozenset[int]


class Fault(Struct, frozen=True, kw_only=True, order=True):
    """Replaces the bytes from `start` to `end` of a file by `new`."""

    path: str
    line: int
    """Where it is in the file with the fault; from 1."""
    start: int
    end: int
    new: bytes
    kind: FaultKind

    def planted(self, content: bytes) -> bytes:
        """Return the file with the fault."""
        return content[: self.start] + self.new + content[self.end :]


def faults_in(files: Sequence[LandedFile]) -> tuple[Fault, ...]:
    """Return every fault that can be planted in the new lines of a change, in order."""
    found = []
    for file in files:
        if len(file.content) <= MAX_FILE_BYTES:
            make = python_faults if file.path.endswith((".py", ".pyi")) else text_faults
            found += [*make(file.path, file.content, file.lines)]
    return tuple(sorted(found))


def chosen_fault(faults: Sequence[Fault], seed: str) -> Fault | None:
    """Return one of the faults, each kind with the same chance; None without faults."""
    by_kind: Mapping[FaultKind, list[Fault]] = {}
    by_kind = {kind: [each for each in faults if each.kind == kind] for kind in sorted({each.kind for each in faults})}
    if not by_kind:
        return None
    kind = _pick_one([*by_kind], f"{seed}/kind")
    return _pick_one(by_kind[kind], f"{seed}/fault")


def shuffled(values: Sequence[Chosen], seed: str) -> list[Chosen]:
    """Return the values in an order that depends only on the seed."""
    numbered = sorted(range(len(values)), key=lambda number: _hash_text(f"{seed}/{number}"))
    return [values[number] for number in numbered]


def _pick_one(values: Sequence[Chosen], seed: str) -> Chosen:
    return values[int.from_bytes(_hash_text(seed), "big") % len(values)]


def _hash_text(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def python_faults(path: str, content: bytes, lines: Collection[int]) -> Iterator[Fault]:
    """Yield the faults that can be planted at `lines` (from 1) of a Python file; none if it cannot be parsed."""
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
        warnings.simplefilter("ignore")  # warnings about the code of others
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
            for name in ("body", "orelse", "finalbody"):
                # The body of a lambda is an expression.
                if isinstance(body := getattr(node, name, None), list):
                    yield from self._removal_faults(body)
            if isinstance(node, ast.expr) and node.lineno in self._lines:
                yield from self._expression_faults(node)

    def _expression_faults(self, node: ast.expr) -> Iterator[Fault]:
        match node:
            case ast.Compare(left=left, ops=[_], comparators=[right]):
                kind: FaultKind = "boundary" if self._word_between(left, right) in BOUNDARIES else "operator"
                yield from self._exchange_faults(left, right, COMPARISONS, kind)
            case ast.BinOp(left=left, right=right) if not (_is_text(left) or _is_text(right)):
                yield from self._exchange_faults(left, right, ARITHMETIC, "operator")
            case ast.BoolOp(values=[left, right, *_]):
                yield from self._exchange_faults(left, right, {"and": "or", "or": "and"}, "operator")
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
            elif isinstance(statement, ast.Assert) or (
                isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], _ONLY_LEAVES)
            ):
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


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def text_faults(path: str, content: bytes, lines: Collection[int]) -> Iterator[Fault]:
    """Yield the faults that can be planted at `lines` (from 1) of a file; none if its language is not known."""
    if path.rpartition(".")[2].lower() not in ENDINGS or b"\0" in content:
        return
    at = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if number in lines and not line.lstrip().startswith(_COMMENTS):
            for kind, pattern, new in _RULES:
                for found in pattern.finditer(line):
                    after = found.expand(new)
                    if after != found[0]:
                        yield Fault(
                            path=path, line=number, start=at + found.start(), end=at + found.end(), new=after, kind=kind
                        )
        at += len(line)
