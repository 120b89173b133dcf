"""Merge two versions of a Python file by its functions, classes, imports and assignments, and keep the formatting."""

import ast
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import structs

from scaffold.landing.conflicts.line_merge import by_place, choose_lines, merge_lines, merge_regions
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_effects import order_added, require_own_names
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
from scaffold.landing.conflicts.python_entries import merge_entries

IMPORT_ORDERS: Sequence[Callable[[EntityKey], Any]] = (
    lambda key: (key.kind == "from", key.name),
    lambda key: (key.kind == "from", key.name.lower()),
    lambda key: key.name,
    lambda key: key.name.lower(),
)
"""The usual sort orders of imports."""
IMPORTS = frozenset({"from", "import"})
COMPOUND = (ast.Match, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)
STATEMENTS = frozenset({*IMPORTS, "assign", "statement", "case"})
"""The kinds of entities that are identified by their text, too, where several have one name."""


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
    require_own_names(merged, base, ours, theirs)
    return merged


def _merge_bodies(
    base: Sequence[Entity], ours: Sequence[Entity], theirs: Sequence[Entity], *, in_order: bool = False
) -> list[Entity]:
    """Return the entities of both sides; with `in_order`, e.g. in a function, the order of all has a meaning."""
    versions = list(_repeated_told_apart(base, ours, theirs, kinds=STATEMENTS if in_order else IMPORTS))
    was, mine, other = ({each.key: each for each in version} for version in versions)
    base_ones, our_ones, their_ones = ({key for key in each if key.kind == "statement"} for each in (was, mine, other))
    if not in_order and our_ones not in (base_ones, their_ones) and their_ones != base_ones:
        raise NotMergeable("both sides change statements without a name")
    _require_one_side_for_repeated(*versions)
    chosen: dict[EntityKey, Entity] = {}
    for key in {**was, **mine, **other}:
        entity = _merge_entity(was.get(key), mine.get(key), other.get(key))
        if entity is not None:
            chosen[key] = entity
    if in_order:
        order = list(_order_statements(was, mine, other))
        if gone := [key.name for key in order if key not in chosen]:
            raise NotMergeable(f"one side moves `{gone[0]}`, the other removes it")
    else:
        order = [key for key in merge_order(list(was), list(mine), list(other), chosen) if key in chosen]
        _require_other_values(was, mine, other)
    merged = [chosen[key] for key in sorted_imports(order, chosen, [list(mine), list(other)])]
    # Both sides may have added the same name, e.g. as a function and as a class.
    known = [_count_bindings(each) for each in (base, ours, theirs)]
    for name, times in _count_bindings(merged).items():
        if times > max(each[name] for each in known):
            raise NotMergeable(f"both sides define `{name}`")
    return merged


def _order_statements(
    base: Mapping[EntityKey, Entity], ours: Mapping[EntityKey, Entity], theirs: Mapping[EntityKey, Entity]
) -> Iterator[EntityKey]:
    """Yield the keys of both sides in their order; raise NotMergeable where it may matter which side's come first."""
    for was, mine, other in merge_regions(*(list(each) for each in (base, ours, theirs))):
        chosen = choose_lines(was, mine, other)
        if chosen is not None:
            yield from chosen
            continue
        if was:
            raise NotMergeable("both sides change statements in one place of a function")
        # What both add in the same words is one thing.
        again = [key for key in other if key not in mine]
        yield from order_added([ours[key] for key in mine], [theirs[key] for key in again], alike=again != other)


def _repeated_told_apart(*versions: Sequence[Entity], kinds: Container[str]) -> Iterator[Sequence[Entity]]:
    # Where a version has several of one name, e.g. imports from one module, each is identified by what it says, too.
    several = {(key.kind, key.name) for each in versions for key in (entity.key for entity in each) if key.number}
    for version in versions:
        seen: Counter[EntityKey] = Counter()
        told = []
        for each in version:
            key = each.key
            if key.kind in kinds and (key.kind, key.name) in several:
                said = ", ".join(sorted(each.names)) if key.kind in IMPORTS else each.text.strip()
                key = EntityKey(key.kind, f"{key.name}: {said}")
                seen[key] += 1
                key = structs.replace(key, number=seen[key] - 1)
            told.append(structs.replace(each, key=key))
        yield told


def _require_other_values(*versions: Mapping[EntityKey, Entity]) -> None:
    # In a class whose constants all differ, e.g. an Enum, both sides may have taken the same next value.
    base, *sides = ({key: _constant_of(each) for key, each in version.items()} for version in versions)
    known = [value for value in base.values() if value is not None]
    added = [{value for key, value in side.items() if value is not None and key not in base} for side in sides]
    both = {key for key in sides[0] if key in sides[1] and key not in base}
    taken = added[0] & added[1] - {sides[0][key] for key in both}
    if taken and len(known) == len(set(known)):
        raise NotMergeable(f"both sides add a member with the value {min(taken)}")


def _constant_of(entity: Entity) -> str | None:
    match entity.node:
        case ast.Assign(value=ast.Constant() | ast.UnaryOp(operand=ast.Constant()) as value):
            return ast.unparse(value)
    return None


def _count_bindings(entities: Sequence[Entity]) -> Counter[str]:
    return Counter(name for each in entities for name in set(each.names))


def _require_one_side_for_repeated(*versions: Sequence[Entity]) -> None:
    # Entities of one name, e.g. a property and its setter, are told apart by their number only, which changes as soon
    # as one of them is added, removed or moved.
    repeated = {name for each in versions for name, times in _count_bindings(each).items() if times > 1}
    moved = [_has_moved([each.key for each in versions[0]], [each.key for each in side]) for side in versions[1:]]
    for name in sorted(repeated):
        was, *sides = ([(each.key.kind, each.text.strip()) for each in v if name in each.names] for v in versions)
        by_both = all(side != was or has_moved for side, has_moved in zip(sides, moved, strict=True))
        if by_both and (sides[0] != sides[1] or any(moved)):
            raise NotMergeable(f"both sides change the file, and `{name}` is defined several times")


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
    versions = (base, ours, theirs)
    nodes = [each.node for each in versions]
    if all(isinstance(node, ast.ClassDef) for node in nodes) and ours.key.kind != "header":
        _require_one_side_for_repeated(*map(members_of, versions))
    by_lines = merge_lines(*(each.text.splitlines(keepends=True) for each in versions))
    if by_lines is not None:
        return "".join(by_lines)
    if ours.key.kind == "doc":
        return _merge_added_lines(versions)
    is_head = ours.key.kind == "header"
    if not is_head and all(isinstance(node, ast.ClassDef) for node in nodes):
        return "".join(each.text for each in _merge_bodies(*map(members_of, versions)))
    for kind in (FUNCTIONS, COMPOUND):
        if not is_head and all(isinstance(node, kind) for node in nodes):
            try:
                return "".join(each.text for each in _merge_bodies(*map(members_of, versions), in_order=True))
            except NotMergeable as refused:
                what = "function" if kind is FUNCTIONS else "part"
                raise NotMergeable(f"in the {what} `{name}`, {refused}") from refused
    heads, statements = zip(*(_taken_apart(each.text) for each in versions), strict=True)
    head = merge_lines(*(each.splitlines(keepends=True) for each in heads))
    if head is None or not all(isinstance(node, FUNCTIONS if is_head else ast.stmt) for node in nodes):
        raise NotMergeable(f"both sides change the same lines of the part `{name}`")
    return "".join(head) + merge_entries(*statements, name=name, is_head=is_head)


def _merge_added_lines(versions: Sequence[Entity]) -> str:
    # A docstring is read by people: what both sides add in one place stands side by side.
    merged: list[str] = []
    for was, mine, other in merge_regions(*(each.text.splitlines(keepends=True) for each in versions)):
        chosen = choose_lines(was, mine, other)
        if chosen is None and was:
            raise NotMergeable("both sides change the same lines of a docstring")
        merged += [*mine, *other] if chosen is None else chosen
    return "".join(merged)


def _taken_apart(text: str) -> tuple[str, str]:
    """Return (comments and empty lines before the statement, statement)."""
    lines = text.splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
    return "".join(lines[:first]), "".join(lines[first:])


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
    for place, own in by_place(order, both):
        more = behind.get(place, [])
        new_own, new_more = ([key for key in keys if key not in was and key in chosen] for keys in (own, more))
        if new_own and new_more and any(key.kind == "statement" or key.number for key in (*new_own, *new_more)):
            raise NotMergeable("both sides add to one place, and one of them a statement, whose order matters")
        merged += [] if place is None else [place]
        merged += [*own, *more] if order is ours else [*more, *own]
    return merged


def sorted_imports(
    order: Sequence[EntityKey], chosen: Mapping[EntityKey, Entity], sides: Sequence[Sequence[EntityKey]]
) -> list[EntityKey]:
    """Return the order with each run of imports sorted if it is sorted on both sides."""
    result: list[EntityKey] = []
    # Empty lines and comments before an import would move with it.
    bare = {
        key for key in order if key.kind in {"from", "import"} and chosen[key].text.lstrip(" \t").startswith(key.kind)
    }
    for is_run, run in groupby(order, key=bare.__contains__):
        keys = list(run)
        result += _sorted_as_on(sides, keys) if is_run else keys
    return result


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
