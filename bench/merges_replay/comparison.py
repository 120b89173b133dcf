"""Compare a merged file with the human's, and count lines that a merge lost, without the code of the merges."""

import ast
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def _syntax(text: str) -> Any:
    return ast.dump(ast.parse(text))


def _words(text: str) -> Any:
    return text.split()


READERS: Mapping[str, Callable[[str], Any]] = {
    "py": _syntax,
    "pyi": _syntax,
    "json": json.loads,
    "toml": tomllib.loads,
}


def meaning_of(path: str, text: str) -> Any:
    """Return what two versions have in common that differ in layout alone; for a text, its words."""
    reader = READERS.get(path.rpartition(".")[2], _words)
    try:
        return reader(text)
    except (SyntaxError, ValueError, RecursionError):
        return _words(text)


def parts_of(path: str, text: str) -> Any:
    """Return what two versions have in common that have the same statements, entries or lines in another order."""
    try:
        if path.endswith((".py", ".pyi")):
            return _parts(ast.parse(text))
        if path.endswith(".toml"):
            return Counter(_entries(tomllib.loads(text), ""))
    except (SyntaxError, ValueError, RecursionError):
        pass
    return Counter(line.strip() for line in text.split("\n") if line.strip())


def _parts(node: ast.Module | ast.ClassDef) -> list[str]:
    """Return the statements of a module or class, sorted; imports by the name, because tools sort and wrap them."""
    found: list[str] = []
    for each in node.body:
        match each:
            case ast.ClassDef():
                found.append(f"class {each.name} {_parts(each)}")
            case ast.Import() | ast.ImportFrom():
                found += {f"import {getattr(each, 'module', '')} {ast.dump(name)}" for name in each.names}
            case _:
                found.append(ast.dump(each))
    return sorted(set(found))


def lost_lines(path: str, base: str, ours: str, theirs: str, merged: str) -> list[str]:
    """Return the lines that a side has and the merge does not, although the other side did not remove them.

    Imports count by what they import, and a trailing comma does not count: both sides' lines may become one.
    """
    was, mine, other, now = (_lines(path, text) for text in (base, ours, theirs, merged))
    lost = []
    for line in mine | other:
        kept_by_ours = mine[line] - max(0, was[line] - other[line])
        kept_by_theirs = other[line] - max(0, was[line] - mine[line])
        if now[line] < max(kept_by_ours, kept_by_theirs):
            lost.append(line)
    return lost


def _lines(path: str, text: str) -> Counter[str]:
    if path.endswith((".toml", ".json")):
        return Counter(_entries(tomllib.loads(text) if path.endswith(".toml") else json.loads(text), ""))
    lines = text.split("\n")
    names: list[str] = []
    if path.endswith((".py", ".pyi")):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
                names += [f"{getattr(node, 'module', '')}: {each.name} {each.asname}" for each in node.names]
    stripped = (line.strip().rstrip(",") for line in lines)
    return Counter([*names, *(line for line in stripped if line)])


def _entries(value: Any, place: str) -> Iterator[str]:
    """Yield a line for each value of a manifest: lists are wrapped again when one of their entries changes."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _entries(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _entries(inner, place)
    else:
        yield f"{place}: {value}"
