"""Certify a merge of a file by what its versions consist of, without knowing how it was made. Pure.

A version is taken apart into units, and counted: lines of text; lines with the function or class that they are in, and
imports by the name, for Python; entries for manifests. Nothing of either side may be lost unless the other side removed
it, and nothing may be there that no side has.
"""

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from scaffold.core.conflict import FileVersions
from scaffold.core.printable_text import count_of
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_source import parse_python

Units = Callable[[str], Iterable[str]]
SCOPE_END = "\0"
"""Ends the name of the function or class that a line of Python is in."""
_WORD = re.compile(r"\w+|[^\w\s()\[\]{},:;.'\"`]+")
_TOML_COMMENT = re.compile(r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|(?P<comment>#[^\n]*)')


def require_complete(versions: FileVersions, merged: str, *, by_words: bool = False) -> None:
    """Raise NotMergeable if the merge lost or invented something.

    `by_words`: a line that both sides changed may be another one in the merge, if that has the words of both.
    """
    units = _words_of(versions.path) if by_words else units_of(versions.path)
    base, ours, theirs, now = (
        _counted(units, text) for text in (versions.base, versions.ours, versions.theirs, merged)
    )
    lost = [unit for unit in ours | theirs if now[unit] < _least(base[unit], ours[unit], theirs[unit])]
    invented = [unit for unit in now if now[unit] > _most(base[unit], ours[unit], theirs[unit])]
    what = "word" if by_words else "line"
    if lost:
        raise NotMergeable(f"the merge would have lost {count_of(len(lost), what)}, e.g. {_shown(lost[0])}")
    if invented:
        raise NotMergeable(f"the merge would have invented {count_of(len(invented), what)}, e.g. {_shown(invented[0])}")


def changed_scopes(versions: FileVersions, side: str) -> frozenset[str | None]:
    """Return the functions and classes in which a side differs from the base; None among them for anything else."""
    if not versions.path.endswith((".py", ".pyi")):
        return frozenset({None})
    was, now = (_counted(python_units, text) for text in (versions.base, side))
    changed = {*(was - now), *(now - was)}
    return frozenset(unit.rpartition(SCOPE_END)[0] or None for unit in changed)


def units_of(path: str) -> Units:
    """Return what takes a version of the file apart, by its name."""
    name = PurePosixPath(path).name
    if name.endswith(".json"):
        return _json_units
    if name.endswith(".toml"):
        return _toml_units
    if name == "go.mod":
        return _go_units
    return python_units if name.endswith((".py", ".pyi")) else _lines


def python_units(text: str) -> Iterator[str]:
    """Yield each line behind the function or class that it is in, and each name of an import; lines if it is broken."""
    try:
        module = parse_python(text)
    except NotMergeable:
        yield from _lines(text)
        return
    lines = text.split("\n")
    scopes = [""] * (len(lines) + 1)
    _name_scopes(module, "", scopes)
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom) and _is_alone(node, lines):
            where = scopes[node.lineno]
            for at in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                yield from (f"{where}#{part.strip()}" for part in lines[at - 1].split("#")[1:])
                lines[at - 1] = ""
            yield from (f"{where}{each}" for each in _imports(node))
    yield from (f"{scope}{line.rstrip()}" for scope, line in zip(scopes[1:], lines, strict=True) if line.strip())


def _name_scopes(node: ast.AST, scope: str, scopes: list[str]) -> None:
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{scope.removesuffix(SCOPE_END)}/{child.name}{SCOPE_END}"
            first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
            end = child.end_lineno or child.lineno
            scopes[first : end + 1] = [inner] * (end + 1 - first)
        _name_scopes(child, inner, scopes)


def _is_alone(node: ast.stmt, lines: list[str]) -> bool:
    """Return whether the import shares its lines with no other statement."""
    last = lines[(node.end_lineno or node.lineno) - 1].encode()[node.end_col_offset or 0 :].strip()
    return not lines[node.lineno - 1].encode()[: node.col_offset].strip() and (not last or last.startswith(b"#"))


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    source = f"from {'.' * node.level}{node.module or ''} " if isinstance(node, ast.ImportFrom) else ""
    yield from (f"{source}import {ast.unparse(each)}" for each in node.names)


def _lines(text: str) -> Iterator[str]:
    yield from (line.rstrip() for line in text.split("\n"))


def _json_units(text: str) -> Iterator[str]:
    try:
        yield from _leaves(json.loads(text), "")
    except (ValueError, RecursionError):
        yield from _lines(text)


def _toml_units(text: str) -> Iterator[str]:
    try:
        yield from _leaves(tomllib.loads(text), "")
    except (ValueError, RecursionError):
        yield from _lines(text)
        return
    found = (each["comment"] for each in _TOML_COMMENT.finditer(text))
    yield from (comment.strip() for comment in found if comment)


def _leaves(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}")
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _leaves(inner, f"{place}[]")
    else:
        yield f"{place} = {value!r}"


def _go_units(text: str) -> Iterator[str]:
    """Yield the lines of a `go.mod` without their versions, in or outside of brackets: the higher version is enough."""
    directive = ""
    for line in text.split("\n"):
        words = line.split()
        if words[1:] == ["("]:
            directive = words[0]
        elif words == [")"]:
            directive = ""
        elif words:
            said = [directive, *words] if directive else words
            if said[0] in {"require", "go", "toolchain"}:
                said = said[: 2 if said[0] == "require" else 1]
            yield " ".join(each for each in said if each)


def _words_of(path: str) -> Units:
    units = units_of(path)

    def words(text: str) -> Iterator[str]:
        for unit in units(text):
            scope, _, line = unit.rpartition(SCOPE_END)
            yield from (f"{scope}{SCOPE_END}{word}" for word in _WORD.findall(line))

    return words


def _counted(units: Units, text: str) -> Counter[str]:
    found = Counter(units(text))
    del found[""]
    return found


def _least(base: int, ours: int, theirs: int) -> int:
    """Return how many of a unit there must be: what each side has, without those that the other side removed."""
    removed_by_ours, removed_by_theirs = max(0, base - ours), max(0, base - theirs)
    return max(ours - removed_by_theirs, theirs - removed_by_ours, 0)


def _most(base: int, ours: int, theirs: int) -> int:
    """Return how many of a unit there may be: all that both sides added, but none that a side removed for good."""
    return max(ours, theirs, ours + theirs - base)


def _shown(unit: str) -> str:
    return repr(unit.rpartition(SCOPE_END)[2].strip()[:80])
