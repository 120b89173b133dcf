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
"""The orders in which projects keep their imports."""


ONE_LINE = 88
"""A statement of one line stays on one if it is not longer than this, or than it is in a version."""


def merge_python(base: str, ours: str, theirs: str) -> str:
    """Return the file with the changes of both sides. Raises NotMergeable with the reason.

    Two changes of one function are merged by lines; what neither way can merge is left to others. Statements without a
    name, e.g. calls at the top of a module, may be changed by one side only, because their order has a meaning.
    """
    merged = "".join(each.text for each in _merge_bodies(*(entities_of(text) for text in (base, ours, theirs))))
    require_python(merged)
    _require_names(merged, base, ours, theirs)
    return merged


def _require_names(merged: str, base: str, ours: str, theirs: str) -> None:
    """Raise NotMergeable if the merge uses a name that a side removed, e.g. an import that the other side needs now."""
    now = names_in(merged)
    versions = [names_in(each) for each in (base, ours, theirs)]
    for side in versions[1:]:
        gone = {name for each in versions for name in each.bound} - side.bound - now.bound
        missing = {name for name in gone & now.used if name not in BUILTINS or name not in side.used}
        members = {name for each in versions for name in each.members} - side.members - now.members
        missing |= {name for name in members if now.attributes[name] > side.attributes[name]}
        if missing:
            raise NotMergeable(f"one side removes `{min(missing)}`, the other uses it")


def _merge_bodies(base: Sequence[Entity], ours: Sequence[Entity], theirs: Sequence[Entity]) -> list[Entity]:
    """Merge what is in a module or class: each entity by itself, then their order."""
    was, mine, other = ({each.key: each for each in version} for version in _imports_told_apart(base, ours, theirs))
    _require_one_side_for_statements(was, mine, other)
    _require_one_side_for_repeated(base, ours, theirs)
    chosen: dict[EntityKey, Entity] = {}
    for key in {**was, **mine, **other}:
        entity = _merge_entity(was.get(key), mine.get(key), other.get(key))
        if entity is not None:
            chosen[key] = entity
    order = [key for key in merge_order(list(was), list(mine), list(other), chosen) if key in chosen]
    merged = [chosen[key] for key in sorted_imports(order, chosen, [list(mine), list(other)])]
    _require_no_new_doubles(merged, base, ours, theirs)
    return merged


def _imports_told_apart(*versions: Sequence[Entity]) -> Iterator[Sequence[Entity]]:
    """Name imports by what they import, too, where a version has several statements for one module."""
    several = {(key.kind, key.name) for each in versions for key in (entity.key for entity in each) if key.number}
    for version in versions:
        yield [
            structs.replace(each, key=EntityKey(each.key.kind, f"{each.key.name}: {', '.join(sorted(each.names))}"))
            if each.key.kind in {"from", "import"} and (each.key.kind, each.key.name) in several
            else each
            for each in version
        ]


def _require_no_new_doubles(merged: Sequence[Entity], *versions: Sequence[Entity]) -> None:
    """Raise NotMergeable if a name is bound more often than in any version, e.g. as a function and as a class."""
    known = [_count_bindings(each) for each in versions]
    for name, times in _count_bindings(merged).items():
        if times > max(each[name] for each in known):
            raise NotMergeable(f"both sides define `{name}`")


def _count_bindings(entities: Sequence[Entity]) -> Counter[str]:
    return Counter(name for each in entities for name in set(each.names))


def _require_one_side_for_statements(*versions: Mapping[EntityKey, Entity]) -> None:
    base, ours, theirs = ({key for key in each if key.kind == "statement"} for each in versions)
    if ours not in (base, theirs) and theirs != base:
        raise NotMergeable("both sides change statements without a name")


def _require_one_side_for_repeated(*versions: Sequence[Entity]) -> None:
    """Raise NotMergeable if both sides change what has a name that is there more than once, e.g. a property's methods.

    Only their number tells them apart, and that is another one as soon as one is added, removed or moved.
    """
    repeated = {name for each in versions for name, times in _count_bindings(each).items() if times > 1}
    base, *sides = ([(each.key.kind, each.text.strip()) for each in v if {*each.names} & repeated] for v in versions)
    keys = [[each.key for each in version] for version in versions]
    if repeated and all(side != base or _has_moved(keys[0], mine) for side, mine in zip(sides, keys[1:], strict=True)):
        raise NotMergeable(f"both sides change the file, and `{min(repeated)}` is defined several times")


def _merge_entity(base: Entity | None, ours: Entity | None, theirs: Entity | None) -> Entity | None:
    """Return what becomes of one entity; None if it is removed. Raises NotMergeable if the sides disagree."""
    was, mine, other = (each and each.text for each in (base, ours, theirs))
    if mine in (other, was):
        return theirs
    if other == was:
        return ours
    if ours is None or theirs is None:
        changed = ours or theirs
        raise NotMergeable(f"one side changes `{changed.key.name if changed else ''}`, the other removes it")
    return Entity(ours.key, _merge_text(base, ours, theirs), _names_of_both(base, ours, theirs), ours.node)


def _names_of_both(base: Entity | None, ours: Entity, theirs: Entity) -> tuple[str, ...]:
    gone = set(base.names if base else ()) - (set(ours.names) & set(theirs.names))
    return tuple(dict.fromkeys(name for name in (*ours.names, *theirs.names) if name not in gone))


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
    base: Sequence[EntityKey],
    ours: Sequence[EntityKey],
    theirs: Sequence[EntityKey],
    chosen: Container[EntityKey],
) -> list[EntityKey]:
    """Return all keys in an order that fits each side; raise NotMergeable if both sides move what was there.

    What a side adds stays behind what precedes it there; if both add in one place, ours comes first, but statements
    may then be added by one side only. Of what is not `chosen` the place has no meaning.
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
        _require_apart(*([key for key in keys if key not in was and key in chosen] for keys in (own, more)))
        merged += [] if place is None else [place]
        merged += [*own, *more] if order is ours else [*more, *own]
    return merged


def _by_place(
    order: Sequence[EntityKey], both: Container[EntityKey]
) -> Iterator[tuple[EntityKey | None, list[EntityKey]]]:
    """Yield each key that both sides have, with what is behind it up to the next; first what is before all of them."""
    place: EntityKey | None = None
    own: list[EntityKey] = []
    for key in order:
        if key in both:
            yield place, own
            place, own = key, []
        else:
            own.append(key)
    yield place, own


def _require_apart(one: Sequence[EntityKey], other: Sequence[EntityKey]) -> None:
    if one and other and any(key.kind == "statement" or key.number for key in (*one, *other)):
        raise NotMergeable("both sides add to one place, and one of them a statement, whose order has a meaning")


def sorted_imports(
    order: Sequence[EntityKey], chosen: Mapping[EntityKey, Entity], sides: Sequence[Sequence[EntityKey]]
) -> list[EntityKey]:
    """Return the order with each run of imports sorted that is sorted on both sides."""
    result: list[EntityKey] = []
    for is_run, run in groupby(order, key=lambda key: _continues_imports(chosen[key])):
        keys = list(run)
        result += _sorted_as_on(sides, keys) if is_run else keys
    return result


def _continues_imports(entity: Entity) -> bool:
    """Return whether it is an import without empty lines or comments, which would move with it."""
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
    """Return whether a side has what was there in another order."""
    there, before = set(side), set(base)
    return [key for key in base if key in there] != [key for key in side if key in before]


def merge_imports(base: str, ours: str, theirs: str) -> str:
    """Return the statement with what both sides import, in the form of ours. Raises NotMergeable with the reason."""
    before, statement = _taken_apart(ours)
    if any("#" in _taken_apart(text)[1] for text in (base, ours, theirs)):
        raise NotMergeable("both sides change an import with a comment")
    if len({_taken_apart(text)[0] for text in (base, ours, theirs)}) > 1:
        raise NotMergeable("both sides change what is before an import")
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
    """Return the comments and empty lines before a statement, and the statement."""
    lines = text.splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
    return "".join(lines[:first]), "".join(lines[first:])


def _imported_names(text: str) -> list[str]:
    (node,) = ast.parse(_taken_apart(text)[1].lstrip()).body
    if not isinstance(node, ast.ImportFrom):
        raise NotMergeable("no import")
    return [ast.unparse(each) for each in node.names]


def _import_text(statement: str, names: Sequence[str], longest: int) -> str:
    head = re.match(r"\s*from\s+\S+\s+import\s*", statement)
    if head is None:
        raise NotMergeable("an import in a form that is not known")
    start = head[0].rstrip() + " "
    line = start + ", ".join(names)
    if "\n" not in statement.rstrip("\n") and len(line) <= longest:
        return line + "\n"
    indent = re.match(r"\s*", statement)
    margin = indent[0] if indent else ""
    inner = re.search(r"\n([ \t]+)\S", statement)
    by = inner[1] if inner else f"{margin}    "
    return f"{start}(\n" + "".join(f"{by}{name},\n" for name in names) + f"{margin})\n"
