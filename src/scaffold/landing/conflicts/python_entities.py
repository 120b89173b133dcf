"""Take a Python file apart: the functions, classes, imports and statements that are merged as units, and its names.

Pure. Parses with this interpreter's grammar.
"""

import ast
import builtins
import symtable
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.landing.conflicts.not_mergeable import NotMergeable

EntityKind = Literal["header", "doc", "def", "class", "from", "import", "assign", "statement", "tail"]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python raises for a text that it cannot parse."""
BUILTINS = frozenset(dir(builtins))


class EntityKey(Struct, frozen=True):
    """Identifies an entity across the versions of a file."""

    kind: EntityKind
    name: str
    number: int = 0
    """Counts entities of the same kind and name in one body, e.g. a property and its setter."""


class Entity(Struct, frozen=True):
    """A statement, or several that share a line, with the comments and empty lines before it."""

    key: EntityKey
    text: str
    """Its lines, each with its newline."""
    names: tuple[str, ...] = ()
    """The names that it binds."""
    node: object | None = None
    """Its syntax, if it is one statement alone."""


def entities_of(source: str) -> tuple[Entity, ...]:
    """Split a module into entities; their texts joined are the source. Raises NotMergeable."""
    lines = source.splitlines(keepends=True)
    # `splitlines` also splits at characters that do not end a line of Python.
    if lines != [line + "\n" for line in source.split("\n")[:-1]]:
        raise NotMergeable("its last line has no newline, or a character in it splits lines")
    module = parse_python(source)
    return tuple(_number_entities(_split_body(module.body, lines, 0, len(lines))))


def members_of(entity: Entity) -> tuple[Entity, ...]:
    """Split a class into its header and the entities of its body. Raises NotMergeable if it is on one line."""
    node = entity.node
    if not isinstance(node, ast.ClassDef):
        raise NotMergeable("not a class")
    lines = entity.text.splitlines(keepends=True)
    # The entity begins with the comments before the class, and ends with the class.
    offset = (node.end_lineno or 0) - len(lines)
    header_end = _header_end(node, lines, offset)
    header = Entity(EntityKey("header", node.name), "".join(lines[:header_end]))
    return header, *_number_entities(_split_body(node.body, lines, offset, len(lines), start=header_end))


def _header_end(node: ast.ClassDef, lines: Sequence[str], offset: int) -> int:
    # The comments before the first statement belong to the body.
    parts = [*node.bases, *(each.value for each in node.keywords)]
    _, row, column = max(
        [(0, node.lineno, node.col_offset), *((1, each.end_lineno or 0, each.end_col_offset or 0) for each in parts)]
    )
    for at in range(row, _first_line(node.body[0])):
        line = lines[at - 1 - offset].encode()[column:].decode(errors="replace")
        if line.partition("#")[0].rstrip().endswith(":"):
            return at - offset
        column = 0
    raise NotMergeable("its body is on the line of its name")


def _split_body(
    body: Sequence[ast.stmt], lines: Sequence[str], offset: int, end: int, *, start: int = 0
) -> Iterator[Entity]:
    # Line n of the file is `lines[n - 1 - offset]`.
    at = start
    for group in _by_lines(body):
        last = max(node.end_lineno or node.lineno for node in group) - offset
        text = "".join(lines[at:last])
        alone = group[0] if len(group) == 1 else None
        yield Entity(_entity_key(group, text, first=at == start), text, tuple(bound_names(group)), alone)
        at = last
    if at < end:
        yield Entity(EntityKey("tail", ""), "".join(lines[at:end]))


def _by_lines(body: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
    # Statements that share a line cannot be moved apart.
    group: list[ast.stmt] = []
    for node in body:
        if group and _first_line(node) > (group[-1].end_lineno or 0):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else []
    return min([node.lineno, *(each.lineno for each in decorators)])


def _entity_key(group: Sequence[ast.stmt], text: str, *, first: bool) -> EntityKey:
    if len(group) > 1:
        return EntityKey("statement", text.strip())
    return EntityKey(*_kind_and_name(group[0], first=first))


def _kind_and_name(node: ast.stmt, *, first: bool) -> tuple[EntityKind, str]:
    kind: EntityKind = "statement"
    name = ""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            kind, name = "def", node.name
        case ast.ClassDef():
            kind, name = "class", node.name
        case ast.ImportFrom():
            kind, name = "from", "." * node.level + (node.module or "")
        case ast.Import():
            kind, name = "import", ", ".join(sorted(each.name for each in node.names))
        case ast.Assign() | ast.AnnAssign():
            name = ", ".join(bound_names([node]))
            kind = "assign" if name else "statement"
        case ast.Expr(value=ast.Constant(value=str())) if first:
            kind = "doc"
    return (kind, name) if kind != "statement" else (kind, ast.unparse(node))


def bound_names(group: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that the statements bind directly, not in nested scopes."""
    for node in group:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import() | ast.ImportFrom():
                yield from (each.asname or each.name.partition(".")[0] for each in node.names)
            case ast.Assign():
                stored = (each for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name))
                yield from (each.id for each in stored if isinstance(each.ctx, ast.Store))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def _number_entities(entities: Iterator[Entity]) -> Iterator[Entity]:
    seen: Counter[EntityKey] = Counter()
    for each in entities:
        number = seen[each.key]
        seen[each.key] += 1
        yield Entity(EntityKey(each.key.kind, each.key.name, number), each.text, each.names, each.node)


def parse_python(source: str) -> ast.Module:
    """Return the syntax tree of a module; raise NotMergeable if it cannot be parsed."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(source)
    except NO_PYTHON as error:
        version = ".".join(map(str, sys.version_info[:2]))
        raise NotMergeable(f"it cannot be read as Python {version}: {error}") from error


def require_python(source: str) -> None:
    """Raise NotMergeable if a merge cannot be compiled, e.g. because an import from `__future__` is not the first."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(source, "merged", "exec", dont_inherit=True)
    except NO_PYTHON as error:
        raise NotMergeable(f"the result would not be valid Python: {error}") from error


class ModuleNames(Struct, frozen=True):
    """What a module defines and uses."""

    bound: frozenset[str]
    """The names that the module defines."""
    used: frozenset[str]
    """The names that are looked up in the module, without the local names of functions and classes."""
    members: frozenset[str]
    """The names that class bodies define."""
    attributes: Counter[str]
    """How often each attribute is read, on any object."""


def names_in(source: str) -> ModuleNames:
    """Return the names of a module; raise NotMergeable if it is not valid Python."""
    module = parse_python(source)
    try:
        table = symtable.symtable(source, "module", "exec")
    except NO_PYTHON as error:
        raise NotMergeable(f"its names cannot be determined: {error}") from error
    bound = {each.get_name() for each in table.get_symbols() if _is_bound(each)}
    used = {each.get_name() for each in table.get_symbols() if each.is_referenced()}
    for inner in _inner_tables(table):
        outside = [each for each in inner.get_symbols() if each.is_global()]
        used |= {each.get_name() for each in outside if each.is_referenced()}
        bound |= {each.get_name() for each in outside if _is_bound(each)}
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    read = [node for node in ast.walk(module) if isinstance(node, ast.Attribute)]
    return ModuleNames(
        frozenset(bound),
        frozenset(used),
        frozenset(name for each in classes for name in bound_names(each.body)),
        Counter(node.attr for node in read if isinstance(node.ctx, ast.Load)),
    )


def _is_bound(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _inner_tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for inner in table.get_children():
        yield inner
        yield from _inner_tables(inner)
