"""Names in the text of a file: those it gives to something, and those that a test in it speaks of. Pure."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

EXPORTS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(pattern, re.MULTILINE)
    for kinds, pattern in {
        "js jsx ts tsx mjs cjs mts cts": (
            r"^\s*export\s+(?:default\s+)?(?:declare\s+|abstract\s+|async\s+)*"
            r"(?:function\*?|class|const|let|var|type|interface|enum)\s+([A-Za-z_$][\w$]*)"
            r"|^\s*(?:module\.)?exports\.([A-Za-z_$][\w$]*)"
        ),
        "go": r"^(?:func\s+(?:\([^)]*\)\s*)?|type\s+|var\s+|const\s+|\t)([A-Z]\w*)",
        "rs": (
            r"^\s*pub(?:\([^)]*\))?\s+(?:async\s+|const\s+|unsafe\s+)*"
            r"(?:fn|struct|enum|trait|type|mod|static)\s+(\w+)"
        ),
    }.items()
    for kind in kinds.split()
}
"""How a file tells what others may use, by its ending."""

COMPUTING = frozenset(
    {
        *("__getattr__", "__dict__", "globals", "locals", "vars", "setattr", "exec", "eval", "compile", "run_path"),
        *("exec_module", "ModuleType", "Function", "Proxy", "Reflect", "defineProperty", "defineProperties", "assign"),
    }
)
"""By what is called so, in Python or JavaScript, anything may get any name."""

_COMPUTED = re.compile(r"exports\s*\[")
_LISTED = re.compile(r"(?:module\.exports\s*=\s*|^\s*export\s*)\{([^}]*)\}", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_NEXT_TEST = re.compile(r"^\s*(?:func\s|#\[(?:\w+::)?test|(?:test|it|describe)\b)", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def exported(ending: str, text: str) -> frozenset[str]:
    """Return what a file of one of the languages in `EXPORTS` lets others use."""
    names = {name for found in EXPORTS[ending].finditer(text) for name in found.groups() if name}
    if ending not in {"go", "rs"}:
        listed = (word for found in _LISTED.finditer(text) for word in _WORD.findall(found[1]))
        names |= set(listed) - {"as", "default"}
    return frozenset(names)


def parsed(text: str) -> ast.Module:
    """Return what a file of Python says; nothing of what cannot be read."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


def given(path: str, text: str) -> frozenset[str]:
    """Return the names that others may find in a file; in Python those of its classes' members, too."""
    ending = path.rpartition(".")[2]
    if ending == "py":
        return frozenset(_given(parsed(text).body))
    return exported(ending, text) if ending in EXPORTS else frozenset()


def bound(path: str, text: str) -> frozenset[str]:
    """Return every name that a file might give to something, however it does; of others than Python all its words."""
    if path.endswith(".py"):
        return frozenset(name for node in ast.walk(parsed(text)) for name in _bound(node))
    return frozenset(_WORD.findall(text))


def untold(path: str, text: str) -> frozenset[str]:
    """Return in which ways a file may give names that do not stand in it: they are computed, or another's."""
    if path.endswith(".py"):
        return frozenset(way for node in ast.walk(parsed(text)) for way in _untold(node))
    return COMPUTING.intersection(_WORD.findall(text)) | frozenset(_COMPUTED.findall(text))


def spoken(path: str, text: str, test: Sequence[str], title: str) -> frozenset[str]:
    """Return the words of a test in the text of its file; in Python with those of what it uses of the file.

    `test` is its name, class by class; `title` what the text has of it.
    """
    if path.endswith(".py"):
        return _spoken(parsed(text), test)
    begins = text.find(title)
    if begins < 0:
        return frozenset()
    rest = text[begins + len(title) :]
    ends = _NEXT_TEST.search(rest)
    return frozenset(_WORD.findall(rest[: ends.start()] if ends else rest))


def _given(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names of the statements of a module or a class, and of those within its classes and branches."""
    for node in body:
        if isinstance(node, Definition):
            yield node.name
        if not isinstance(node, Function):
            yield from _given([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)])
            targets = (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
            yield from (name for target in targets for each in ast.walk(target) for name in _stored(each))


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0]
        case ast.keyword(arg=str(name)):
            yield name
        case ast.Constant(value=str(name)) if name.isidentifier():
            yield name
        case _:
            yield from _stored(node)


def _untold(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(names=[ast.alias(name="*")], module=module, level=level):
            yield f"* of {'.' * level}{module or ''}"
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) if name in COMPUTING:
            yield name


def _stored(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name


def _spoken(tree: ast.Module, test: Sequence[str]) -> frozenset[str]:
    own: dict[str, list[ast.AST]] = {}
    for name, node in _bindings(tree.body):
        own.setdefault(name, []).append(node)
    words = frozenset(word for node in _parts(tree.body, test) for word in _words(node))
    while more := frozenset(found for word in words for node in own.get(word, ()) for found in _words(node)) - words:
        words |= more
    return words


def _bindings(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Yield what names stand for at the top of a module, each by the least that says it: of an import its own part."""
    for statement in body:
        within = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt | ast.ExceptHandler)]
        if isinstance(statement, Definition):
            yield statement.name, statement
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield from ((name, alias) for alias in statement.names for name in _bound(alias))
        elif within:
            yield from _bindings([each for part in within for each in _statements(part)])
        else:
            yield from ((name, statement) for each in ast.walk(statement) for name in _stored(each))


def _statements(part: ast.stmt | ast.ExceptHandler) -> Sequence[ast.stmt]:
    return part.body if isinstance(part, ast.ExceptHandler) else [part]


def _parts(body: Sequence[ast.stmt], test: Sequence[str]) -> Iterator[ast.AST]:
    """Yield the function of a test, and what surrounds it in its classes but other tests."""
    for node in body:
        if isinstance(node, Function) and node.name == test[-1]:
            yield node
        elif isinstance(node, ast.ClassDef) and node.name in test[:-1]:
            tests = [
                each for each in node.body if isinstance(each, Definition) and each.name.lower().startswith("test")
            ]
            yield from (*node.bases, *node.decorator_list, *(each for each in node.body if each not in tests))
            yield from _parts(tests, test)


def _words(node: ast.AST) -> Iterator[str]:
    """Yield the names that some code uses, but those that it made itself."""
    made = {name for each in ast.walk(node) if isinstance(each, ast.Name) for name in _stored(each)}
    for each in ast.walk(node):
        match each:
            case ast.Name(id=word) if word not in made:
                yield word
            case ast.Attribute(attr=word) | ast.arg(arg=word):
                yield word
            case ast.alias(name=name) | ast.Constant(value=str(name)) if _DOTTED.fullmatch(name):
                yield from name.split(".")
