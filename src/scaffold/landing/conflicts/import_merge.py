"""Merge two versions of one `from ... import ...` statement by the names that it imports. Pure."""

import ast
import re
from collections.abc import Sequence

from scaffold.landing.conflicts.not_mergeable import NotMergeable

ONE_LINE = 88
"""A statement of one line stays on one if it is not longer than this, or than it is in a version."""


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
