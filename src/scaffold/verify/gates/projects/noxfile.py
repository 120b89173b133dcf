"""Read the sessions of a noxfile: the literal commands that they run and install."""

import ast
from collections.abc import Iterator

from msgspec import Struct

MAX_CHARS = 100_000


class SessionCall(Struct, frozen=True):
    """A call of a session's method, such as `session.run("pytest", "tests")`."""

    session: str
    """The name of the function; empty outside of functions."""
    method: str
    words: tuple[str, ...]
    """The arguments that are strings."""
    line: int
    complete: bool
    """Whether these are all arguments, apart from the user's own."""


def session_calls(text: str) -> Iterator[SessionCall]:
    """Yield the calls of `run` and `install` whose first argument is a string; nothing for a faulty file."""
    # A file of Python's values alone takes a second for each 100,000 of its characters.
    if len(text) > MAX_CHARS:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for name, node in _calls_in_order(tree, ""):
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"run", "install"}:
            # `*session.posargs` is empty unless the user adds arguments.
            given = [
                argument
                for argument in node.args
                if not (
                    isinstance(argument, ast.Starred)
                    and isinstance(argument.value, ast.Attribute)
                    and argument.value.attr == "posargs"
                )
            ]
            words = tuple(
                each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )
            if words and isinstance(given[0], ast.Constant):
                yield SessionCall(name, node.func.attr, words, node.lineno, complete=len(words) == len(given))


def _calls_in_order(tree: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef) else function
        if isinstance(node, ast.Call):
            yield name, node
        yield from _calls_in_order(node, name)
