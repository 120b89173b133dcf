"""What a program can reach from its entry points: by names, imports at the top, late ones, and `module:name` texts."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

LATE = re.compile(r"(scaffold(?:\.\w+)+)(?::(\w+))?")
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
STATEMENT = FUNCTION | ast.ClassDef
REGISTERS = re.compile(r"\.(command|group)\b")
"""A decorator by which a command keeps a function, without a name that anything else uses."""


@dataclass
class Module:
    """What a module defines, imports, and executes when it is imported."""

    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Local name -> a module, and what it is there: something that it defines, or a module in it."""
    registered: list[str] = field(default_factory=list)
    body: list[ast.stmt] = field(default_factory=list)

    @classmethod
    def read(cls, tree: ast.Module) -> "Module":
        """Return the parts of a module."""
        module = cls()
        for node in tree.body:
            names = tuple(defined_names(node))
            for name in names:
                module.definitions.setdefault(name, []).append(node)
            if not names:
                module.body.append(node)
            if isinstance(node, STATEMENT) and any(REGISTERS.search(ast.unparse(each)) for each in node.decorator_list):
                module.registered += names
        for each in ast.walk(tree):
            if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("scaffold"):
                module.imports |= {alias.asname or alias.name: (each.module or "", alias.name) for alias in each.names}
        return module


def defined_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a module defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


class Reach:
    """The definitions and modules that are reached; `modules` are all there are, by their dotted names."""

    def __init__(self, modules: Mapping[str, ast.Module]) -> None:
        self._modules = {name: Module.read(tree) for name, tree in modules.items()}
        self._seen: set[tuple[str, str]] = set()
        self._imported: set[str] = set()
        self._waiting: list[tuple[str, ast.AST]] = []

    def enter(self, module: str, name: str = "") -> None:
        """Start at a name, or at everything that a module that is a program of its own defines."""
        self._import(module)
        for each in [name] if name else [*self._modules[module].definitions]:
            self._name(module, each)
        while self._waiting:
            self._read(*self._waiting.pop())

    def unreached(self) -> Iterator[str]:
        """Yield the functions and classes that nothing reaches, as `module:name`."""
        for module, parts in self._modules.items():
            for name, nodes in parts.definitions.items():
                if (module, name) not in self._seen and isinstance(nodes[0], STATEMENT):
                    yield f"{module}:{name}"

    def _import(self, module: str) -> None:
        while module in self._modules and module not in self._imported:
            self._imported.add(module)
            parts = self._modules[module]
            self._waiting += [(module, node) for node in parts.body]
            for name in parts.registered:
                self._name(module, name)
            for source, name in parts.imports.values():
                self._import(f"{source}.{name}" if f"{source}.{name}" in self._modules else source)
            module = module.rpartition(".")[0]

    def _name(self, module: str, name: str) -> None:
        if f"{module}.{name}" in self._modules:
            self._import(f"{module}.{name}")
        elif module in self._modules and (module, name) not in self._seen:
            self._seen.add((module, name))
            self._import(module)
            parts = self._modules[module]
            self._waiting += [(module, node) for node in parts.definitions.get(name, ())]
            if name in parts.imports:
                self._name(*parts.imports[name])

    def _read(self, module: str, top: ast.AST) -> None:
        """Follow the names in a piece of code. A class that is only matched against, or listed, is not made by it."""
        parts = self._modules[module]
        waiting = [top]
        while waiting:
            node = waiting.pop()
            match node:
                case ast.MatchClass(patterns=patterns, kwd_patterns=named):
                    waiting += [*patterns, *named]
                    continue
                case ast.Name(id=name):
                    if name in parts.definitions or name in parts.imports:
                        self._name(module, name)
                case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in parts.imports:
                    source, member = parts.imports[name]
                    self._name(f"{source}.{member}", attribute)
                case ast.Constant(value=str(text)) if found := LATE.fullmatch(text):
                    self._late(found[1], found[2])
            waiting += ast.iter_child_nodes(node)

    def _late(self, module: str, name: str | None) -> None:
        if module in self._modules and name is not None:
            self._name(module, name)
