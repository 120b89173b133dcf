"""The names that a Python module defines and uses. Pure."""

import ast
import builtins
import symtable
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_entities import bound_names
from scaffold.landing.conflicts.python_source import NO_PYTHON, parse_python

BUILTINS = frozenset(dir(builtins))


class ModuleNames(Struct, frozen=True):
    """What a module defines and uses."""

    bound: frozenset[str]
    """The names of the module."""
    used: frozenset[str]
    """The names that are looked up in the module: not parameters and other names of functions and classes."""
    members: frozenset[str]
    """The names that bodies of classes define."""
    attributes: Counter[str]
    """How often each attribute is read, of whatever."""


def names_in(source: str) -> ModuleNames:
    """Return the names of a module; raise NotMergeable if it is no Python."""
    module = parse_python(source)
    try:
        table = symtable.symtable(source, "module", "exec")
    except NO_PYTHON as error:
        raise NotMergeable(f"its names cannot be told: {error}") from error
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
