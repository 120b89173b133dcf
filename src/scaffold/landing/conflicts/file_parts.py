"""Split a version of a file into the units that a merge must neither lose, invent nor reorder. Pure.

Text: the lines that are not empty. Python: the lines by their function or class; imports at the top of a module by
name. Manifests: their entries, and the comments of TOML and `go.mod`.
"""

import ast
import io
import json
import keyword
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from scaffold.landing.conflicts.line_merge import heading_level, is_underline
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.python_entities import parse_python
from scaffold.plan.text.bounded import read_json, read_toml

_NUMBER = "\1"
_IS_NUMBERED = re.compile(f"{_NUMBER}\\d+")
_TOML_COMMENT = re.compile(r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|(?P<comment>#[^\n]*)')


class Unit(Struct, frozen=True):
    """A part of a version. A `named` one, e.g. an import or a key, counts once if both sides add it."""

    text: str
    named: bool = False
    entry: bool = False
    """Whether it is a heading or inside of a bracket: what both sides add to one place may be one thing or two."""


Parts = dict[str, list[Unit]]
"""{place: units in order}; a place is a function, class, table or list, and empty for the text as a whole."""
UNORDERED = "\2"
"""Prefix of places whose units have no order."""


def parts_of(path: str, text: str) -> Parts:
    """Split a version of a file by the kind that its name says; as text if it cannot be parsed."""
    name = PurePosixPath(path).name
    take_apart: Callable[[str], Iterator[tuple[str, Unit]]] = _line_units
    if name.endswith(".json"):
        take_apart = _json_units
    elif name.endswith(".toml"):
        take_apart = _toml_units
    elif name in {"go.mod", "go.sum"}:
        take_apart = _go_mod_units if name == "go.mod" else _named_line_units
    elif name.endswith((".py", ".pyi")):
        take_apart = _python_units
    parts: Parts = {}
    for place, unit in take_apart(text):
        parts.setdefault(place, []).append(unit)
    return parts


def without_number(place: str) -> str:
    """Return the name of a function or class without the number that tells it from others of the same name."""
    return _IS_NUMBERED.sub("", place)


def _line_units(text: str) -> Iterator[tuple[str, Unit]]:
    lines = text.split("\n")
    for before, line, after in zip(("", *lines), lines, (*lines[1:], ""), strict=False):
        if line.strip():
            yield "", Unit(line, entry=heading_level(line, after) > 0 or is_underline(line, before))


def _python_units(text: str) -> Iterator[tuple[str, Unit]]:
    try:
        module = parse_python(text)
    except NotMergeable:
        yield from _line_units(text)
        return
    lines = text.split("\n")
    scopes = [""] * (len(lines) + 1)
    begins: dict[int, list[tuple[str, str]]] = {}
    _name_scopes(module, "", scopes, begins)
    pieces = _Pieces(text).found
    imports = {
        at: node
        for node in _imports_alone(module, lines)
        for at in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    run: list[Unit] = []
    for at, line in enumerate(lines, start=1):
        if at in imports:
            node = imports[at]
            run += [Unit(f"#{part.strip()}") for part in line.split("#")[1:]]
            if at == node.lineno:
                source = f"from {'.' * node.level}{node.module or ''} " if isinstance(node, ast.ImportFrom) else ""
                run += [Unit(f"{source}import {ast.unparse(each)}", named=True) for each in node.names]
            continue
        if at not in pieces:
            continue
        # Tools sort imports, so a run of adjacent imports is compared sorted.
        yield from (("", unit) for unit in _sort_units(run))
        run = []
        yield from ((outer, Unit(inner, named=True)) for outer, inner in begins.get(at, ()))
        yield from ((scopes[at], unit) for unit in pieces[at])
    yield from (("", unit) for unit in _sort_units(run))


def _sort_units(run: list[Unit]) -> list[Unit]:
    return sorted(run, key=lambda unit: unit.text)


def _name_scopes(node: ast.AST, scope: str, scopes: list[str], begins: dict[int, list[tuple[str, str]]]) -> None:
    """Fill `scopes` (the function or class of each line) and `begins` (where each starts in its surroundings)."""
    seen: dict[str, int] = {}
    waiting = [*ast.iter_child_nodes(node)][::-1]
    while waiting:
        child = waiting.pop()
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += [*ast.iter_child_nodes(child)][::-1]
            continue
        number = seen[child.name] = seen.get(child.name, -1) + 1
        inner = f"{scope}/{child.name}{_NUMBER}{number}"
        first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
        end = child.end_lineno or child.lineno
        scopes[first : end + 1] = [inner] * (end + 1 - first)
        begins.setdefault(first, []).append((scope, f"{child.name}{_NUMBER}{number}"))
        _name_scopes(child, inner, scopes, begins)


class _Pieces:
    """Cuts Python into its lines, and brackets into their entries, as if a formatter broke each of them."""

    def __init__(self, text: str) -> None:
        self.found: dict[int, list[Unit]] = {}
        self._lines = text.split("\n")
        self._piece, self._begun = "", 0
        self._end, self._last = (0, 0), ""
        self._commas: list[int] = []
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in {tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}:
                self._take(token)

    def _cut(self) -> None:
        if self._piece:
            self.found.setdefault(self._begun, []).append(Unit(self._piece, entry=bool(self._commas)))
        self._piece = ""

    def _take(self, token: tokenize.TokenInfo) -> None:
        sign = token.string if token.type == tokenize.OP else ""
        is_comma = sign == "," and bool(self._commas)
        if sign in {*")]}"} or is_comma or token.type in {tokenize.COMMENT, tokenize.NEWLINE}:
            self._cut()
        if is_comma:
            self._commas[-1] += 1
        elif token.type != tokenize.NEWLINE:
            if sign in {*")]}"}:
                # What makes a tuple of one entry.
                self._piece = "," if self._commas.pop() == 1 and self._last == "," else ""
            self._add(token)
        if sign in {*"([{"}:
            self._cut()
            # What follows a name or a bracket is a call or a head; no comma makes that a tuple.
            is_call = (
                sign != "("
                or self._last in {*")]"}
                or (self._last.isidentifier() and not keyword.iskeyword(self._last))
            )
            self._commas.append(1 if is_call else 0)
        if token.type == tokenize.COMMENT:
            self._cut()
        self._last, self._end = token.string, token.end

    def _add(self, token: tokenize.TokenInfo) -> None:
        row, column = token.start
        before = self._lines[row - 1][:column]
        if not self._piece:
            self._begun = row
            is_line = not before.strip() and not self._commas and token.type != tokenize.COMMENT
            self._piece = before if is_line and token.string not in {*")]}"} else ""
        elif self._end != token.start:
            self._piece += " "
        # Where a line ends inside a string, trailing spaces and empty lines are part of the value.
        first, *rest = token.string.split("\n")
        self._piece += first
        for at, line in enumerate(rest, start=row + 1):
            self.found.setdefault(self._begun, []).append(Unit(self._piece, entry=bool(self._commas)))
            self._piece, self._begun = line, at


def _imports_alone(module: ast.Module, lines: Sequence[str]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the top-level imports that do not share a line with another statement."""
    for node in module.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            last = lines[(node.end_lineno or node.lineno) - 1].encode()[node.end_col_offset or 0 :].strip()
            if not lines[node.lineno - 1].encode()[: node.col_offset].strip() and (not last or last.startswith(b"#")):
                yield node


def _json_units(text: str) -> Iterator[tuple[str, Unit]]:
    try:
        value = read_json(text, make_object=_unique_object)
    except ValueError:
        yield from _line_units(text)
        return
    yield from _entry_units(value, "", keys_in="")


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return found


def _toml_units(text: str) -> Iterator[tuple[str, Unit]]:
    try:
        value = read_toml(text)
    except ValueError:
        yield from _line_units(text)
        return
    # In TOML the order of keys has no meaning.
    yield from _entry_units(value, "", keys_in=UNORDERED)
    comments = (each["comment"] for each in _TOML_COMMENT.finditer(text))
    yield from ((f"{UNORDERED}#", Unit(comment.strip())) for comment in comments if comment)


def _entry_units(value: Any, place: str, *, keys_in: str) -> Iterator[tuple[str, Unit]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            at = f"{place}.{json.dumps(key)}"
            kind = "{}" if isinstance(inner, dict) else "[]" if isinstance(inner, list) else repr(inner)
            yield f"{keys_in}{place}", Unit(at, named=True)
            yield f"{UNORDERED}=", Unit(f"{at} = {kind}", named=True)
            yield from _entry_units(inner, at, keys_in=keys_in)
    elif isinstance(value, list):
        yield from ((f"{place}[]", Unit(repr(each))) for each in value)
    elif not place:
        yield "", Unit(repr(value))


def _go_mod_units(text: str) -> Iterator[tuple[str, Unit]]:
    directive = ""
    for line in text.split("\n"):
        words = line.split()
        if words[1:] == ["("]:
            directive = words[0]
        elif words == [")"]:
            directive = ""
        elif words:
            is_comment = words[0].startswith("//")
            # The same requirement inside and outside of brackets is one unit.
            said = [directive, *words] if directive and not is_comment else words
            yield f"{UNORDERED}go", Unit(" ".join(said), named=not is_comment)


def _named_line_units(text: str) -> Iterator[tuple[str, Unit]]:
    yield from (("", Unit(unit.text, named=True)) for _, unit in _line_units(text))
