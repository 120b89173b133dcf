"""Compare a merged file with the human's, and count lines that a merge lost, without the code of the merges."""

import ast
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any


def _syntax(text: str) -> Any:
    return ast.dump(ast.parse(text))


def _words(text: str) -> Any:
    return text.split()


IMPORT = "import of "
"""Begins what stands for an import."""
DEFINITION = ("def ", "async def ", "class ", "@")
READERS: Mapping[str, Callable[[str], Any]] = {"py": _syntax, "pyi": _syntax, "json": json.loads, "toml": tomllib.loads}


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


def _parts(node: ast.Module | ast.ClassDef) -> Counter[str]:
    """Return the statements of a module or class, counted; imports by the name, because tools sort and wrap them."""
    found: Counter[str] = Counter()
    for each in node.body:
        match each:
            case ast.ClassDef():
                found[f"class {each.name} {sorted(_parts(each).items())}"] += 1
            case ast.Import() | ast.ImportFrom():
                found.update(f"import {getattr(each, 'module', '')} {ast.dump(name)}" for name in each.names)
            case _:
                found[ast.dump(each)] += 1
    return found


def lost_lines(path: str, base: str, ours: str, theirs: str, merged: str) -> list[str]:
    """Return the lines that the merge has less often than both sides' changes together make it.

    What both sides add in the same block counts once, and so do imports, by what they import. A trailing comma does not
    count: both sides' lines may become one.
    """
    (was, once), (mine, _), (other, _), (now, _) = (_lines(path, text) for text in (base, ours, theirs, merged))
    shared = Counter(line for block in {*_blocks(was, mine)} & {*_blocks(was, other)} for line in block)
    counted = [Counter(each) for each in (was, mine, other, now)]
    lost = []
    for line in dict.fromkeys([*mine, *other]):
        before, here, there, found = (each[line] for each in counted)
        wanted = here + there - before - shared[line]
        if (once or line.startswith(IMPORT)) and before <= here and before <= there:
            wanted = max(here, there)
        lost += [line] * (found < wanted)
    return lost


def out_of_order(path: str, base: str, ours: str, theirs: str, merged: str) -> list[str]:
    """Return for each side the first line that the merge has in another place than the side, if there is one.

    Only lines that are once in each version that has them count, and no imports, which tools sort.
    """
    (was, once), (mine, _), (other, _), (now, _) = (_lines(path, text) for text in (base, ours, theirs, merged))
    if once:
        return []
    single = [{line for line, times in Counter(each).items() if times == 1} for each in (was, mine, other, now)]
    places = {line: at for at, line in enumerate(now)}
    found = []
    for side, own, another in ((mine, single[1], other), (other, single[2], mine)):
        # The other side may have moved what was there.
        moved = {line for block in _blocks(was, another) for line in block}
        both = own & single[3]
        kept = [line for line in side if line in both and line not in moved and not line.startswith(IMPORT)]
        found += [second for first, second in pairwise(kept) if places[first] > places[second]][:1]
    return found


def _blocks(was: Sequence[str], side: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield what a side added, block by block; each function and class is one, with its decorators."""
    for kind, _, _, start, end in SequenceMatcher(None, was, side, autojunk=False).get_opcodes():
        first = start
        for at in range(start + 1, end) if kind != "equal" else ():
            if side[at].startswith(DEFINITION) and not side[at - 1].startswith("@"):
                yield tuple(side[first:at])
                first = at
        if kind != "equal":
            yield tuple(side[first:end])


def _lines(path: str, text: str) -> tuple[list[str], bool]:
    """Return the lines of a version in their order, and whether each counts once: the entries of a manifest."""
    if path.endswith((".toml", ".json")):
        return list(_entries(tomllib.loads(text) if path.endswith(".toml") else json.loads(text), "")), True
    lines = text.split("\n")
    names: list[str] = []
    if path.endswith((".py", ".pyi")):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
                names += [f"{IMPORT}{getattr(node, 'module', '')}: {each.name} {each.asname}" for each in node.names]
    stripped = (line.strip().rstrip(",") for line in lines)
    return [*names, *(line for line in stripped if line)], False


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
