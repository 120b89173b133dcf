"""The Python files of the repository, for the rules that all of them follow.

Parsing takes by far the longest: a file is parsed when its tree is first asked for, and rules look at the text before.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from scaffold.host.startup import importing

ROOT = Path(__file__).parents[2]
SCAFFOLD = "src/scaffold/"
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of statements that contain statements."""


@dataclass(frozen=True)
class SourceFile:
    """A file, by its path in the repository."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        with importing():  # it would look through all trees again and again
            return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, in the order of the text."""
        tree = self.tree
        with importing():
            return list(walk(tree))

    @property
    def module(self) -> str:
        """The path inside of our package."""
        return self.path.removeprefix(SCAFFOLD)

    def calls(self) -> Iterator[ast.Call]:
        """Yield all calls."""
        yield from (node for node in self.nodes if isinstance(node, ast.Call))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield all functions and methods, nested ones too."""
        waiting: list[ast.AST] = [self.tree]
        while waiting:  # statements only: there are far more expressions, and no function is in one
            node = waiting.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node
            for block in BLOCKS:
                waiting += getattr(node, block, ())


def walk(top: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all inside of it, in the order of the text; faster than `ast.walk`."""
    waiting = [top]
    while waiting:
        node = waiting.pop()
        yield node
        inside: list[ast.AST] = []
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                inside.append(value)
            elif value.__class__ is list:
                inside += [each for each in value if isinstance(each, ast.AST)]
        waiting += reversed(inside)


def last_name(node: ast.AST) -> str:
    """Return `c` of `a.b.c` or of `c`, an empty text for anything else; writing whole expressions takes far longer."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


@cache
def source_files(folder: str = "src/scaffold") -> tuple[SourceFile, ...]:
    """Return the files below a folder of the repository, in the order of their paths."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return tuple(SourceFile(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in paths)
