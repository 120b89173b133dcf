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

from msgspec import Struct, structs

from scaffold.landing.conflicts.not_mergeable import NotMergeable

EntityKind = Literal["header", "doc", "def", "class", "from", "import", "assign", "case", "statement", "tail"]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Statement = ast.stmt | ast.match_case
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
    """Split a compound statement into its heads and the entities of its bodies; their texts joined are its own.

    Raises NotMergeable if it is on one line.
    """
    node, lines = entity.node, entity.text.splitlines(keepends=True)
    if not isinstance(node, ast.stmt) or not (blocks := list(_blocks_of(node))):
        raise NotMergeable(f"`{entity.key.name}` has no body of entities")
    # The entity begins with the comments before it, and ends with its last line.
    offset = (node.end_lineno or 0) - len(lines)
    at = node.lineno - 1 - offset if isinstance(node, FUNCTIONS) else 0
    members = [Entity(EntityKey("header", ""), "".join(lines[:at]))] if at else []
    is_weak = not isinstance(node, ast.ClassDef)
    for label, body in blocks:
        start = _body_start(body, lines, offset, at) if label else _header_end(node, lines, offset)
        key = EntityKey("header", label or entity.key.name)
        members.append(Entity(key, "".join(lines[at:start]), node=None if label else node))
        end = at = _last_line(body[-1]) - offset
        inside = _split_body(body, lines, offset, end, start=start, weakly=is_weak)
        within = f" ({label})" if label else ""
        members += [
            structs.replace(each, key=structs.replace(each.key, name=each.key.name + within)) for each in inside
        ]
    if at < len(lines):
        members.append(Entity(EntityKey("tail", ""), "".join(lines[at:])))
    return tuple(_number_entities(iter(members)))


def _blocks_of(node: ast.stmt) -> Iterator[tuple[str, Sequence[Statement]]]:
    """Yield (label, body) of each block of a compound statement; without a label, it is the only one."""
    match node:
        case ast.ClassDef(body=body) | ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
            yield "", body
        case ast.Match(cases=cases):
            yield "", cases
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith() | ast.Try():
            yield _name_weakly(node), node.body
            for handler in getattr(node, "handlers", ()):
                yield f"except {ast.unparse(handler.type) if handler.type else ''}", handler.body
            # An `elif` is an `if` inside of the `else`.
            if orelse := getattr(node, "orelse", ()):
                yield "else", orelse
            if final := getattr(node, "finalbody", ()):
                yield "finally", final


def _body_start(body: Sequence[Statement], lines: Sequence[str], offset: int, after: int) -> int:
    # The comments before the first statement belong to the body.
    start = _first_line(body[0]) - 1 - offset
    while start > after and (not lines[start - 1].strip() or lines[start - 1].lstrip().startswith("#")):
        start -= 1
    if start <= after:
        raise NotMergeable("its body is on the line of its head, or it has an `elif`")
    return start


def _header_end(node: ast.stmt, lines: Sequence[str], offset: int) -> int:
    # The comments before the first statement belong to the body.
    body: Sequence[Statement]
    parts: Sequence[ast.AST]
    match node:
        case ast.ClassDef(bases=bases, keywords=named, body=body):
            parts = [*bases, *(each.value for each in named)]
        case ast.Match(subject=subject, cases=body):
            parts = [subject]
        case (
            ast.FunctionDef(args=args, returns=returns, body=body)
            | ast.AsyncFunctionDef(args=args, returns=returns, body=body)
        ):
            parts = [*ast.walk(args), *([returns] if returns else [])]
        case _:
            raise NotMergeable("it has several bodies")
    ends = [(getattr(each, "end_lineno", 0) or 0, getattr(each, "end_col_offset", 0) or 0) for each in parts]
    row, column = max([(node.lineno, node.col_offset), *ends])
    for at in range(row, _first_line(body[0])):
        line = lines[at - 1 - offset].encode()[column:].decode(errors="replace")
        if line.partition("#")[0].rstrip().endswith(":"):
            return at - offset
        column = 0
    raise NotMergeable("its body is on the line of its name")


def _split_body(
    body: Sequence[Statement], lines: Sequence[str], offset: int, end: int, *, start: int = 0, weakly: bool = False
) -> Iterator[Entity]:
    # Line n of the file is `lines[n - 1 - offset]`.
    at = start
    for group in _by_lines(body):
        last = max(_last_line(node) for node in group) - offset
        text = "".join(lines[at:last])
        alone = group[0] if len(group) == 1 else None
        key = _entity_key(group, text, first=at == start)
        if weakly and key.kind == "statement" and alone is not None:
            key = EntityKey("statement", _name_weakly(alone))
        yield Entity(key, text, tuple(bound_names(group)), alone)
        at = last
    if at < end:
        yield Entity(EntityKey("tail", ""), "".join(lines[at:end]))


def _by_lines(body: Sequence[Statement]) -> Iterator[list[Statement]]:
    # Statements that share a line cannot be moved apart.
    group: list[Statement] = []
    for node in body:
        if group and _first_line(node) > _last_line(group[-1]):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _first_line(node: Statement) -> int:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    decorators = node.decorator_list if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else []
    return min([node.lineno, *(each.lineno for each in decorators)])


def _last_line(node: Statement) -> int:
    end = node.body[-1] if isinstance(node, ast.match_case) else node
    return end.end_lineno or end.lineno


def _name_weakly(node: Statement) -> str:
    """Return what stays the same of a statement in a function when its entries change, e.g. what it calls or sets."""
    said: Sequence[ast.AST] = (node,)
    kind = ""
    match node:
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            kind, said = "set", (target,)
        case ast.Expr(value=ast.Call(func=called) | ast.Await(value=ast.Call(func=called))):
            kind, said = "call", (called,)
        case ast.Return() | ast.Try():
            kind, said = type(node).__name__.lower(), ()
        case ast.Match(subject=each) | ast.If(test=each) | ast.While(test=each):
            kind, said = type(node).__name__.lower(), (each,)
        case ast.For(target=target, iter=each) | ast.AsyncFor(target=target, iter=each):
            kind, said = "for", (target, each)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            kind, said = "with", items
    return " ".join([kind, *map(ast.unparse, said)]).strip()


def _entity_key(group: Sequence[Statement], text: str, *, first: bool) -> EntityKey:
    if len(group) > 1:
        return EntityKey("statement", text.strip())
    return EntityKey(*_kind_and_name(group[0], first=first))


def _kind_and_name(node: Statement, *, first: bool) -> tuple[EntityKind, str]:
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
        case ast.match_case():
            guard = f" if {ast.unparse(node.guard)}" if node.guard else ""
            kind, name = "case", ast.unparse(node.pattern) + guard
        case ast.Expr(value=ast.Constant(value=str())) if first:
            kind = "doc"
    return (kind, name) if kind != "statement" else (kind, ast.unparse(node))


def bound_names(group: Iterable[Statement]) -> Iterator[str]:
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
