"""Merge two versions of a Python file by its functions, classes, imports and assignments, and keep the formatting."""

import ast
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import structs

from scaffold.landing.conflicts.line_merge import merge_lines
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_entities import (
    BUILTINS,
    FUNCTIONS,
    Entity,
    EntityKey,
    entities_of,
    members_of,
    names_in,
    require_python,
)

IMPORT_ORDERS: Sequence[Callable[[EntityKey], Any]] = (
    lambda key: (key.kind == "from", key.name),
    lambda key: (key.kind == "from", key.name.lower()),
    lambda key: key.name,
    lambda key: key.name.lower(),
)
"""The usual sort orders of imports."""
ONE_LINE = 88
"""An import of one line stays on one line up to this length, or up to its length in a version."""


def merge_python(base: str, ours: str, theirs: str) -> str:
    """Return the file with the changes of both sides. Raises NotMergeable with the reason.

    Two changes of one function are merged by lines. Statements without a name, e.g. calls at the top of a module, may
    be changed by one side only, because their order matters.
    """
    merged = "".join(each.text for each in _merge_bodies(*(entities_of(text) for text in (base, ours, theirs))))
    require_python(merged)
    # One side may remove an import or a method that the other side has begun to use.
    now = names_in(merged)
    versions = [names_in(each) for each in (base, ours, theirs)]
    for side in versions[1:]:
        gone = {name for each in versions for name in each.bound} - side.bound - now.bound
        missing = {name for name in gone & now.used if name not in BUILTINS or name not in side.used}
        members = {name for each in versions for name in each.members} - side.members - now.members
        missing |= {name for name in members if now.attributes[name] > side.attributes[name]}
        if missing:
            raise NotMergeable(f"one side removes `{min(missing)}`, the other uses it")
    return merged


def _merge_bodies(base: Sequence[Entity], ours: Sequence[Entity], theirs: Sequence[Entity]) -> list[Entity]:
    was, mine, other = ({each.key: each for each in version} for version in _imports_told_apart(base, ours, theirs))
    base_ones, our_ones, their_ones = ({key for key in each if key.kind == "statement"} for each in (was, mine, other))
    if our_ones not in (base_ones, their_ones) and their_ones != base_ones:
        raise NotMergeable("both sides change statements without a name")
    _require_one_side_for_repeated(base, ours, theirs)
    chosen: dict[EntityKey, Entity] = {}
    for key in {**was, **mine, **other}:
        entity = _merge_entity(was.get(key), mine.get(key), other.get(key))
        if entity is not None:
            chosen[key] = entity
    order = [key for key in merge_order(list(was), list(mine), list(other), chosen) if key in chosen]
    merged = [chosen[key] for key in sorted_imports(order, chosen, [list(mine), list(other)])]
    # Both sides may have added the same name, e.g. as a function and as a class.
    known = [_count_bindings(each) for each in (base, ours, theirs)]
    for name, times in _count_bindings(merged).items():
        if times > max(each[name] for each in known):
            raise NotMergeable(f"both sides define `{name}`")
    return merged


def _imports_told_apart(*versions: Sequence[Entity]) -> Iterator[Sequence[Entity]]:
    # Where a version has several statements for one module, an import is identified by what it imports, too.
    several = {(key.kind, key.name) for each in versions for key in (entity.key for entity in each) if key.number}
    for version in versions:
        yield [
            structs.replace(each, key=EntityKey(each.key.kind, f"{each.key.name}: {', '.join(sorted(each.names))}"))
            if each.key.kind in {"from", "import"} and (each.key.kind, each.key.name) in several
            else each
            for each in version
        ]


def _count_bindings(entities: Sequence[Entity]) -> Counter[str]:
    return Counter(name for each in entities for name in set(each.names))


def _require_one_side_for_repeated(*versions: Sequence[Entity]) -> None:
    # Entities of one name, e.g. a property and its setter, are told apart by their number only, which changes as soon
    # as one of them is added, removed or moved.
    repeated = {name for each in versions for name, times in _count_bindings(each).items() if times > 1}
    base, *sides = ([(each.key.kind, each.text.strip()) for each in v if {*each.names} & repeated] for v in versions)
    keys = [[each.key for each in version] for version in versions]
    if repeated and all(side != base or _has_moved(keys[0], mine) for side, mine in zip(sides, keys[1:], strict=True)):
        raise NotMergeable(f"both sides change the file, and `{min(repeated)}` is defined several times")


def _merge_entity(base: Entity | None, ours: Entity | None, theirs: Entity | None) -> Entity | None:
    """Return the merged entity; None if it is removed. Raises NotMergeable if the sides disagree."""
    was, mine, other = (each and each.text for each in (base, ours, theirs))
    if mine in (other, was):
        return theirs
    if other == was:
        return ours
    if ours is None or theirs is None:
        changed = ours or theirs
        raise NotMergeable(f"one side changes `{changed.key.name if changed else ''}`, the other removes it")
    gone = set(base.names if base else ()) - (set(ours.names) & set(theirs.names))
    names = tuple(dict.fromkeys(name for name in (*ours.names, *theirs.names) if name not in gone))
    return Entity(ours.key, _merge_text(base, ours, theirs), names, ours.node)


def _merge_text(base: Entity | None, ours: Entity, theirs: Entity) -> str:
    name = ours.key.name or ours.key.kind
    if base is None:
        raise NotMergeable(f"both sides add `{name}`, and differently")
    nodes = [each.node for each in (base, ours, theirs)]
    if all(isinstance(node, ast.ClassDef) for node in nodes):
        _require_one_side_for_repeated(*map(members_of, (base, ours, theirs)))
    by_lines = merge_lines(*(each.text.splitlines(keepends=True) for each in (base, ours, theirs)))
    if by_lines is not None:
        return "".join(by_lines)
    if all(isinstance(node, ast.ClassDef) for node in nodes):
        return "".join(each.text for each in _merge_bodies(*map(members_of, (base, ours, theirs))))
    if all(isinstance(node, ast.ImportFrom) for node in nodes):
        return merge_imports(base.text, ours.text, theirs.text)
    what = "function" if isinstance(ours.node, FUNCTIONS) else "part"
    raise NotMergeable(f"both sides change the same lines of the {what} `{name}`")


def merge_order(
    base: Sequence[EntityKey], ours: Sequence[EntityKey], theirs: Sequence[EntityKey], chosen: Container[EntityKey]
) -> list[EntityKey]:
    """Return all keys in an order that fits each side; raise NotMergeable if both sides reorder existing entities.

    An added entity stays after its predecessor. If both sides add in one place, ours comes first; neither addition may
    then be a statement. The place of a key that is not `chosen` has no meaning.
    """
    moved_by_ours, moved_by_theirs = _has_moved(base, ours), _has_moved(base, theirs)
    if moved_by_ours and moved_by_theirs:
        raise NotMergeable("both sides change the order")
    order, added = (theirs, ours) if moved_by_theirs else (ours, theirs)
    there, was, both = set(order), set(base), {*order} & {*added}
    behind: dict[EntityKey | None, list[EntityKey]] = {}
    previous: EntityKey | None = None
    for key in added:
        previous = key if key in there else previous
        if key not in there:
            behind.setdefault(previous, []).append(key)
    merged: list[EntityKey] = []
    for place, own in _by_place(order, both):
        more = behind.get(place, [])
        new_own, new_more = ([key for key in keys if key not in was and key in chosen] for keys in (own, more))
        if new_own and new_more and any(key.kind == "statement" or key.number for key in (*new_own, *new_more)):
            raise NotMergeable("both sides add to one place, and one of them a statement, whose order matters")
        merged += [] if place is None else [place]
        merged += [*own, *more] if order is ours else [*more, *own]
    return merged


def _by_place(
    order: Sequence[EntityKey], both: Container[EntityKey]
) -> Iterator[tuple[EntityKey | None, list[EntityKey]]]:
    """Yield each key that both sides have, with the keys after it up to the next; first, None with those before all."""
    place: EntityKey | None = None
    own: list[EntityKey] = []
    for key in order:
        if key in both:
            yield place, own
            place, own = key, []
        else:
            own.append(key)
    yield place, own


def sorted_imports(
    order: Sequence[EntityKey], chosen: Mapping[EntityKey, Entity], sides: Sequence[Sequence[EntityKey]]
) -> list[EntityKey]:
    """Return the order with each run of imports sorted if it is sorted on both sides."""
    result: list[EntityKey] = []
    for is_run, run in groupby(order, key=lambda key: _is_bare_import(chosen[key])):
        keys = list(run)
        result += _sorted_as_on(sides, keys) if is_run else keys
    return result


def _is_bare_import(entity: Entity) -> bool:
    # Empty lines and comments before an import would move with it.
    return entity.key.kind in {"from", "import"} and entity.text.lstrip(" \t").startswith(entity.key.kind)


def _sorted_as_on(sides: Sequence[Sequence[EntityKey]], keys: list[EntityKey]) -> list[EntityKey]:
    run = set(keys)
    there = [[key for key in side if key in run] for side in sides]
    if any(len(side) == len(keys) for side in there):
        return keys
    for by in IMPORT_ORDERS:
        if all(len(side) > 1 and side == sorted(side, key=by) for side in there):
            return sorted(keys, key=by)
    return keys


def _has_moved(base: Sequence[EntityKey], side: Sequence[EntityKey]) -> bool:
    there, before = set(side), set(base)
    return [key for key in base if key in there] != [key for key in side if key in before]


def merge_imports(base: str, ours: str, theirs: str) -> str:
    """Return a `from` import with the names of both sides, in the form of ours. Raises NotMergeable with the reason."""
    before, statement = _taken_apart(ours)
    if any("#" in _taken_apart(text)[1] for text in (base, ours, theirs)):
        raise NotMergeable("both sides change an import with a comment")
    if len({_taken_apart(text)[0] for text in (base, ours, theirs)}) > 1:
        raise NotMergeable("both sides change the lines before an import")
    was, mine, other = (_imported_names(text) for text in (base, ours, theirs))
    removed = {name for name in was if name not in mine or name not in other}
    names = [name for name in mine if name not in removed]
    for name in other:
        if name not in names and name not in removed:
            names.append(name)
    if not names:
        raise NotMergeable("both sides together import nothing from a module")
    for order in (str, str.lower):
        if all(each == sorted(each, key=order) for each in (mine, other)):
            names.sort(key=order)
            break
    longest = max(ONE_LINE, *(len(line) for text in (ours, theirs) for line in text.split("\n")))
    return before + _import_text(statement, names, longest)


def _taken_apart(text: str) -> tuple[str, str]:
    """Return (comments and empty lines before the statement, statement)."""
    lines = text.splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
    return "".join(lines[:first]), "".join(lines[first:])


def _imported_names(text: str) -> list[str]:
    (node,) = ast.parse(_taken_apart(text)[1].lstrip()).body
    if not isinstance(node, ast.ImportFrom):
        raise NotMergeable("not an import")
    return [ast.unparse(each) for each in node.names]


def _import_text(statement: str, names: Sequence[str], longest: int) -> str:
    head = re.match(r"\s*from\s+\S+\s+import\s*", statement)
    if head is None:
        raise NotMergeable("unknown form of import")
    start = head[0].rstrip() + " "
    line = start + ", ".join(names)
    if "\n" not in statement.rstrip("\n") and len(line) <= longest:
        return line + "\n"
    indent = re.match(r"\s*", statement)
    margin = indent[0] if indent else ""
    inner = re.search(r"\n([ \t]+)\S", statement)
    by = inner[1] if inner else f"{margin}    "
    return f"{start}(\n" + "".join(f"{by}{name},\n" for name in names) + f"{margin})\n"
