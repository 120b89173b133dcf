"""Empty the functions that a change added or changed: a test that still passes says nothing about what they do."""

import ast
from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Emptied(Struct, frozen=True):
    """The sources of a change with its functions emptied."""

    sources: Mapping[str, bytes]
    """By path; only files in which a function was emptied."""
    names: tuple[str, ...]
    """The functions, as `name` or `Class.name`, sorted."""


def empty_changed_functions(before: Collection[bytes], after: Mapping[str, bytes]) -> Emptied:
    """Return the Python sources of `after` in which every function that no source `before` has does nothing.

    A function that moved is not changed. Sources that cannot be parsed stay as they are.
    """
    known = {_function_identity(name, node) for source in before for name, node in _find_functions(source)}
    sources: dict[str, bytes] = {}
    names: set[str] = set()
    for path, source in after.items():
        changed = [
            (name, node) for name, node in _find_functions(source) if _function_identity(name, node) not in known
        ]
        if changed:
            sources[path] = _empty_functions(source, [node for _, node in changed])
            names.update(name for name, _ in changed)
    return Emptied(sources, tuple(sorted(names)))


def _find_functions(source: bytes) -> Iterator[tuple[str, Function]]:
    """Yield the functions and methods of a source that are in no other function, with their names."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    left: list[tuple[str, ast.AST]] = [("", module)]
    while left:
        prefix, node = left.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield f"{prefix}{child.name}", child
            else:
                left.append((f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix, child))


def _function_identity(name: str, node: Function) -> tuple[str, str]:
    return name, ast.dump(node)


def _empty_functions(source: bytes, functions: Collection[Function]) -> bytes:
    """Return the source with the bodies of the functions replaced; a generator stays one."""
    lines = source.splitlines(keepends=True)
    # From the end, so that the positions of the others stay right.
    for node in sorted(functions, key=lambda each: each.body[0].lineno, reverse=True):
        first, last = node.body[0], node.body[-1]
        # A decorated function or class begins with its decorator.
        begin = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", ()))])
        end = last.end_lineno or last.lineno
        # Columns count bytes.
        lead, rest = lines[begin - 1][: first.col_offset], lines[end - 1][last.end_col_offset or 0 :]
        lines[begin - 1 : end] = [lead + (b"return; yield" if _is_generator(node) else b"return None") + rest]
    return b"".join(lines)


def _is_generator(node: Function) -> bool:
    """Return True for a generator: a function with a `yield` of its own, not of an inner function."""
    left: list[ast.AST] = list(node.body)
    while left:
        each = left.pop()
        if isinstance(each, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            left += ast.iter_child_nodes(each)
    return False
