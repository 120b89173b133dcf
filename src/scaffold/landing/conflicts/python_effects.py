"""Whether statements that both sides add to one place of a function can be told apart by what they do. Pure.

Refuses what it cannot know: a call may do anything.
"""

import ast
import builtins
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_entities import FUNCTIONS, Entity, EntityKey, Statement, parse_python

WITHOUT_EFFECT = frozenset(
    {abs, all, any, bool, bytes, callable, dict, enumerate, float, frozenset, getattr, hasattr, int, isinstance}
    | {issubclass, len, list, max, min, range, repr, reversed, round, set, sorted, str, sum, tuple, type, zip}
)
"""Builtins whose call changes nothing."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
CALLS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def order_added(ours: Sequence[Entity], theirs: Sequence[Entity], *, alike: bool) -> list[EntityKey]:
    """Return the order of what both sides add to one place, ours first if both fit; `alike` says that they share some.

    One side's may only remember values under names that the other's does not mention, so it changes nothing for it. Of
    two cases of a `match`, no value may fit both. Raises NotMergeable.
    """
    mine, other = ([each.node for each in side if isinstance(each.node, Statement)] for side in (ours, theirs))
    if len(mine) == len(ours) and len(other) == len(theirs):
        cases = [[each.pattern for each in side if isinstance(each, ast.match_case)] for side in (mine, other)]
        if any(cases) and not all(_are_disjoint(a, b) for a in cases[0] for b in cases[1]):
            raise NotMergeable("both sides add cases to a `match`, and one value may fit both")
        if any(cases) or _is_unseen(mine, other):
            return [each.key for each in (*ours, *theirs)]
        if not alike and _is_unseen(other, mine):
            return [each.key for each in (*theirs, *ours)]
    raise NotMergeable("both sides add statements in one place of a function, and their order may matter")


def _is_unseen(first: Sequence[ast.AST], second: Sequence[ast.AST]) -> bool:
    """Return whether statements before others change nothing for them."""
    if not all(_only_remembers(node) for node in first):
        return False
    # What raises keeps the others from being executed; that goes unseen only if they remember values alone, too.
    if any(isinstance(node, ast.Raise) for each in first for node in ast.walk(each)):
        return all(_only_remembers(node) for node in second) and not {*_bound(first)} & {*_mentioned(second)}
    return not {*_bound(first)} & {*_mentioned(second)}


def _only_remembers(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Raise():
            return True
        case ast.Assign(targets=targets):
            return all(map(_is_place, targets)) and not _may_act(node)
        case ast.AnnAssign(target=target):
            return _is_place(target) and not _may_act(node)
        case ast.If(test=test, body=body, orelse=orelse):
            return not _may_act(test) and all(map(_only_remembers, (*body, *orelse)))
    return False


def _is_place(target: ast.AST) -> bool:
    match target:
        case ast.Name() | ast.Attribute(value=ast.Name()) | ast.Subscript(ast.Name(), ast.Constant(str())):
            return True
    return False


def _may_act(node: ast.AST) -> bool:
    called = [getattr(each, "func", each) for each in ast.walk(node) if isinstance(each, CALLS)]
    return any(getattr(builtins, ast.unparse(each), None) not in WITHOUT_EFFECT for each in called)


def _bound(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in (each for top in nodes for each in ast.walk(top)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)), ctx=ast.Store()):
                yield from (key, f"{name} as a whole")
            case ast.alias(name=name, asname=own):
                yield own or name.partition(".")[0]


def _mentioned(nodes: Sequence[ast.AST]) -> Iterator[str]:
    every = [each for top in nodes for each in ast.walk(top)]
    by_key = {
        id(each.value) for each in every if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant)
    }
    for node in every:
        match node:
            case ast.Name(id=name) if id(node) not in by_key:
                yield from (name, f"{name} as a whole")
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=own):
                yield own or name.partition(".")[0]


def _are_disjoint(one: ast.pattern, other: ast.pattern) -> bool:
    """Return whether no value fits both patterns, as far as their text says."""
    found = False
    match one, other:
        case (ast.MatchOr(patterns=patterns), each) | (each, ast.MatchOr(patterns=patterns)):
            found = all(_are_disjoint(pattern, each) for pattern in patterns)
        case (ast.MatchAs(pattern=ast.pattern() as inner), each) | (each, ast.MatchAs(pattern=ast.pattern() as inner)):
            found = _are_disjoint(inner, each)
        case ast.MatchValue(value=ast.Constant(value=a)), ast.MatchValue(value=ast.Constant(value=b)):
            found = bool(a != b)
        case ast.MatchValue(value=ast.Attribute() as a), ast.MatchValue(value=ast.Attribute() as b):
            found = ast.dump(a) != ast.dump(b)
        case ast.MatchSingleton(value=a), ast.MatchSingleton(value=b):
            found = a is not b
        case ast.MatchClass(cls=a), ast.MatchClass(cls=b):
            # `bool` is an `int`.
            known = [getattr(builtins, ast.unparse(each), None) for each in (a, b)]
            found = ast.dump(a) != ast.dump(b) and known == [None, None]
        case ast.MatchSequence(patterns=a), ast.MatchSequence(patterns=b):
            has_star = any(isinstance(each, ast.MatchStar) for each in (*a, *b))
            found = not has_star and (len(a) != len(b) or any(map(_are_disjoint, a, b)))
    return found


def require_own_names(merged: str, base: str, ours: str, theirs: str) -> None:
    """Raise NotMergeable if both sides set one name in a function, or a call would give a parameter another's value."""
    texts = (merged, base, ours, theirs)
    now, *versions = ({path: (called, node) for path, called, node in _functions(parse_python(text))} for text in texts)
    for path, (_, node) in now.items():
        known = [Counter(_names_set(each[path][1])) for each in versions if path in each]
        if not known:
            raise NotMergeable(f"both sides define `{node.name}`")
        for name, times in Counter(_names_set(node)).items():
            if times > max(each[name] for each in known):
                raise NotMergeable(f"both sides set `{name}` in the function `{node.name}`")
    for side, functions in zip((ours, theirs), versions[1:], strict=True):
        moved: dict[str, int] = {}
        for path, (called, node) in functions.items():
            arguments = [each.args for each in (node, now[path][1] if path in now else node)]
            names, there = ([one.arg for one in (*each.posonlyargs, *each.args)] for each in arguments)
            same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(names, there, strict=False)))
            if same < len(names):
                moved |= {name: min(same, moved.get(name, same)) for name in called}
        for call in (each for each in ast.walk(parse_python(side)) if isinstance(each, ast.Call)):
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            # The first parameter may be the object that a method is called on.
            if len(call.args) > moved.get(name, len(call.args) + 1) - 1:
                raise NotMergeable(f"a call gives arguments of `{name}` by their place, and its parameters move")


def _names_set(node: ast.AST) -> Iterator[str]:
    inner = {id(each) for top in ast.walk(node) if isinstance(top, ast.comprehension) for each in ast.walk(top.target)}
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store) and id(each) not in inner:
            yield ast.unparse(each)


def _functions(node: ast.AST, path: str = "", within: str = "") -> Iterator[tuple[str, set[str], Function]]:
    """Yield (path, names that it is called by, syntax) of each function."""
    seen: Counter[str] = Counter()
    for child in ast.iter_child_nodes(node):
        name = getattr(child, "name", "") if isinstance(child, (*FUNCTIONS, ast.ClassDef)) else ""
        seen[name] += 1
        at = f"{path}.{name}.{seen[name]}" if name else path
        if isinstance(child, FUNCTIONS):
            yield at, {name, within} if name in {"__init__", "__new__"} else {name}, child
        yield from _functions(child, at, name or within)
