"""Compare two versions of a file by what they mean to a program; pure. What is not certain counts as a difference."""

import ast
import builtins
import configparser
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from doctest import DocTestParser
from typing import Any

from msgspec import Struct

from scaffold.plan.text.bounded import read_json, read_toml
from scaffold.verify.paths.conventions import PROSE_SUFFIXES
from scaffold.verify.regression.suppressions import SCRIPT_PARTS

NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
COMMENTS, TYPES, VERSION, DOCUMENTS = "comments and formatting", "annotations and docstrings", "version", "documents"
TYPING = frozenset({"typing", "collections.abc", "__future__"})
"""Modules whose import does nothing but bind names."""
_NOTICES = r"(?:authors|change(?:s|log)|contribut(?:ors|ing)|copying|history|licen[cs]e|news|notice|readme)(?:\.txt)?"
_DOCUMENT = re.compile(rf"(?:.*/)?(?:[^/]*\.(?:{'|'.join(sorted(PROSE_SUFFIXES))})|{_NOTICES})", re.IGNORECASE)
_VERSION = re.compile(r"v?\d[\w.+!-]*")
_VERSION_NAMES = frozenset({"__version__", "__version_info__", "version_info", "VERSION"})
_READS_DOCSTRINGS = frozenset({"__doc__", "getdoc"})
_READS_TYPES = frozenset({"__annotations__", "get_annotations", "get_type_hints", "signature", "getfullargspec"})
_VERSION_PLACES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "pyproject.toml": (("project", "version"), ("tool", "poetry", "version")),
    "Cargo.toml": (("package", "version"), ("workspace", "package", "version")),
    "setup.cfg": (("metadata", "version"),),
    ".bumpversion.cfg": (("bumpversion", "current_version"),),
    "package.json": (("version",),),
    "package-lock.json": (("version",), ("packages", "", "version")),
}
_ADDRESS = re.compile(r"https?://[^\s\"'`<>()\[\]]+")
_PASSED_ON = frozenset({"staticmethod", "classmethod", "property", "setter", "getter", "deleter"})
"""Decorators of the language, which read neither annotations nor docstrings."""


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Sameness(Struct, frozen=True):
    """In what two versions differ although they mean the same, unless something reads that."""

    kind: str
    names: frozenset[str] = frozenset()
    """Definitions with other annotations or docstrings, which whoever gets hold of them may read."""
    imported: frozenset[str] = frozenset()
    """Names that only one version imports, for annotations; another module may import them from here."""
    readers: frozenset[str] = frozenset()
    """Attributes and functions of the language that read what differs."""


def sameness(path: str, before: bytes | None, after: bytes | None) -> Sameness | None:
    """Return in what a file differs without changing its meaning; None if it may mean something else."""
    if path.endswith((".pyi", ".d.ts")) or path.rpartition("/")[2] == "py.typed":
        return Sameness(TYPES)
    old, new = ((data or b"").decode(errors="surrogateescape") for data in (before, after))
    if is_document(path):
        return Sameness(DOCUMENTS) if _doctest_examples(old) == _doctest_examples(new) is not None else None
    if before is None or after is None:
        return None
    if path.endswith(".py"):
        return _python_sameness(path, before, after)
    if path.endswith((".json", ".toml", "setup.cfg", ".bumpversion.cfg", "Cargo.lock")):
        return _data_sameness(path, old, new)
    lines = [_lines_of_code(path, text) for text in (old, new)]
    return Sameness(COMMENTS) if lines[0] is not None and lines[0] == lines[1] else None


def is_document(path: str) -> bool:
    """Return whether people read the file."""
    return _DOCUMENT.fullmatch(path) is not None


def is_read_in(source: bytes, same: Sameness, *, changed: bool) -> bool:
    """Return whether a Python module may read what differs: it hands a definition on, or imports a dropped name.

    A bare `__doc__` is the module's own, so it counts in a `changed` module; that of a function or class which the
    module names, and binds to nothing else, is its own, too.
    """
    try:
        stripped = _Stripped(source)
    except NO_PYTHON:
        return True
    nodes = list(ast.walk(stripped.tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    defined = {id(node): node.name for node in nodes if isinstance(node, _DEFINITIONS)}
    # Also the names of keywords in calls, which bind nothing.
    bound = {
        name.partition(".")[0]
        for node in nodes
        if id(node) not in defined and not isinstance(getattr(node, "ctx", None), ast.Load)
        for field in ("id", "arg", "name", "asname", "rest")
        if isinstance(name := getattr(node, field, None), str)
    }
    own = frozenset[str]() if "*" in bound else {*defined.values()} - bound - same.names
    for node in nodes:
        match node:
            case ast.Name(id="__doc__") if not changed:
                pass
            case ast.Attribute(value=ast.Name(id=name), attr="__doc__") if name in own:
                pass
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                if name in same.readers or (name in same.names and id(node) not in called):
                    return True
            case ast.ImportFrom(module=module, names=names) if module not in TYPING:
                if any(each.name in same.imported | same.readers for each in names):
                    return True
            case _:
                pass
    return False


def used_text(path: str, source: bytes) -> str:
    """Return what a program may use of its text: without comments, docstrings and addresses of the web.

    All of it but the addresses where that cannot be told for certain; of Python only the values of its literals.
    """
    text = source.decode(errors="surrogateescape")
    if path.endswith(".py"):
        with suppress(*NO_PYTHON):
            nodes = list(ast.walk(ast.parse(source)))
            idle = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            values = (node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in idle)
            text = "\n".join(map(str, values))
    elif (lines := _lines_of_code(path, text)) is not None:
        text = "\n".join(lines)
    return _ADDRESS.sub("", text)


class _Stripped(ast.NodeTransformer):
    """A module without what only readers of annotations and docstrings notice, and that, by its owner."""

    def __init__(self, source: bytes) -> None:
        self.docstrings: dict[tuple[str, ...], list[str | None]] = {}
        self.annotations: dict[tuple[str, ...], list[str]] = {}
        self.dropped: set[str] = set()
        self._owner: tuple[str, ...] = ()
        self._readable = True
        self._in_function = False
        self._known = {*dir(builtins)}
        whole = ast.parse(source)
        self._own_flag = any(
            isinstance(node, ast.Name) and node.id == "TYPE_CHECKING" and isinstance(node.ctx, ast.Store)
            for node in ast.walk(whole)
        )
        self._kept: set[int] = set()
        self._note_docstring(whole)
        self.tree: Any = self.visit(whole)
        self._drop_imports()

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Keep what a decorator, a metaclass or an unknown base may read."""
        known = all(isinstance(base, ast.Name) and base.id in self._known for base in node.bases)
        plain = known and not node.decorator_list and not node.keywords
        if plain:
            self._known.add(node.name)
        return self._visit_owner(node, plain=plain and (self._readable or self._in_function), in_function=False)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        """Note base classes that read nothing."""
        if (node.module, node.level) == ("abc", 0):
            self._known |= {each.asname or each.name for each in node.names if each.name == "ABC"}
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Keep what a decorator may read."""
        names = (getattr(each, "attr", None) or getattr(each, "id", None) for each in node.decorator_list)
        plain = self._readable and all(name in _PASSED_ON for name in names)
        if plain:
            given = node.args
            every = (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg)
            found = [each.annotation for each in every if each]
            self._note_annotations((*self._owner, node.name), *found, node.returns)
            node.returns = None
            for each in filter(None, every):
                each.annotation = None
        return self._visit_owner(node, plain=plain, in_function=True)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Drop an annotation that nothing evaluates or keeps, and note one that a reader may find."""
        if not self._in_function:
            if not self._readable or not isinstance(node.target, ast.Name):
                return self.generic_visit(node)
            # With its name: what is no field any more is no annotation of another one.
            self._note_annotations(self._owner, ast.Tuple([node.target, node.annotation]))
            if node.value is None:
                return None
        if node.value is None:
            # It makes the name a local one.
            node.annotation = ast.Constant(None)
            return node
        return self.generic_visit(ast.Assign(targets=[node.target], value=node.value))

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Drop a text or an ellipsis, which does nothing, unless it is the docstring of something that is kept."""
        idle = isinstance(node.value, ast.Constant) and id(node) not in self._kept
        return None if idle else self.generic_visit(node)

    def visit_Pass(self, _node: ast.Pass) -> None:
        """Drop it."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Drop what only type checkers read."""
        flag = getattr(node.test, "attr", None) or getattr(node.test, "id", None)
        if flag != "TYPE_CHECKING" or self._own_flag:
            return self.generic_visit(node)
        return [found for each in node.orelse if (found := self.visit(each)) is not None]

    def _visit_owner(self, node: Any, *, plain: bool, in_function: bool) -> Any:
        outer = self._owner, self._readable, self._in_function
        self._owner = (*self._owner, node.name)
        if plain:
            self._note_docstring(node)
        elif node.body:
            self._kept.add(id(node.body[0]))
        # A function inside a function is read by whoever gets hold of it.
        self._readable, self._in_function = plain or in_function, in_function
        self.generic_visit(node)
        self._owner, self._readable, self._in_function = outer
        return node

    def _note_docstring(self, node: Any) -> None:
        self.docstrings.setdefault(self._owner, []).append(ast.get_docstring(node, clean=False))

    def _note_annotations(self, owner: tuple[str, ...], *found: ast.expr | None) -> None:
        self.annotations.setdefault(owner, []).extend(ast.dump(each) if each else "" for each in found)

    def _drop_imports(self) -> None:
        nodes: list[Any] = list(ast.walk(self.tree))
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        used |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        if any(getattr(node, "annotation", None) or getattr(node, "returns", None) for node in nodes):
            used.add("annotations")
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module in TYPING and not node.level:
                unused = [each for each in node.names if (each.asname or each.name) not in used and each.name != "*"]
                if node.module != "__future__" or [each.name for each in unused] == ["annotations"]:
                    self.dropped |= {each.asname or each.name for each in unused}
                    node.names = [each for each in node.names if each not in unused]
        for node in nodes:
            if isinstance(body := getattr(node, "body", None), list):
                node.body = [each for each in body if not isinstance(each, ast.ImportFrom) or each.names]


def _python_sameness(path: str, before: bytes, after: bytes) -> Sameness | None:
    try:
        if ast.dump(ast.parse(before)) == ast.dump(ast.parse(after)):
            return Sameness(COMMENTS)
        old, new = _Stripped(before), _Stripped(after)
        same_code = ast.dump(old.tree) == ast.dump(new.tree)
        if not same_code and not _same_but_version(path, old.tree, new.tree):
            return None
    except NO_PYTHON:
        return None
    described = {owner for owner in old.docstrings if old.docstrings[owner] != new.docstrings.get(owner)}
    for owner in described:
        found = [[_doctest_examples(text or "") for text in each.docstrings.get(owner, ())] for each in (old, new)]
        if found[0] != found[1] or None in found[0]:
            return None
    imported = frozenset(old.dropped ^ new.dropped)
    both = old.annotations.keys() | new.annotations.keys()
    # Whether annotations are evaluated matters for all of them.
    typed = {
        owner for owner in both if "annotations" in imported or old.annotations.get(owner) != new.annotations.get(owner)
    }
    readers = (_READS_DOCSTRINGS if described else frozenset()) | (_READS_TYPES if typed else frozenset())
    names = frozenset(name for owner in described | typed for name in owner)
    return Sameness(TYPES if same_code else VERSION, names, imported, readers)


def _same_but_version(path: str, old: ast.AST, new: ast.AST) -> bool:
    for tree in (old, new):
        for node in ast.walk(tree):
            match node:
                case ast.Module(body=body):
                    for each in body:
                        match each:
                            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _VERSION_NAMES:
                                each.value = _without_version(value)
                            case _:
                                pass
                case ast.Call(func=ast.Name(id="setup")) if path.rpartition("/")[2] == "setup.py":
                    for keyword in node.keywords:
                        keyword.value = _without_version(keyword.value) if keyword.arg == "version" else keyword.value
                case _:
                    pass
    return ast.dump(old) == ast.dump(new)


def _without_version(value: ast.expr) -> ast.expr:
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    texts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in parts]
    is_version = all(map(_VERSION.fullmatch, texts[:1])) and all(texts)
    return ast.Constant(None) if is_version else value


def _doctest_examples(text: str) -> list[tuple[str, str]] | None:
    """Return the examples in a text that doctest would run; None if it cannot read them."""
    try:
        return [(each.source, each.want) for each in DocTestParser().get_examples(text)]
    except ValueError:
        return None


def _data_sameness(path: str, old: str, new: str) -> Sameness | None:
    read: Callable[[str], Any] = read_json if path.endswith(".json") else read_toml
    read = _read_ini if path.endswith(".cfg") else read
    try:
        values = read(old), read(new)
    except (ValueError, RecursionError, configparser.Error):
        return None
    # As text: the order of keys may matter, and 1, 1.0 and true are not the same.
    if repr(values[0]) == repr(values[1]):
        return Sameness(COMMENTS)
    for value in values:
        for table, key in _version_tables(path.rpartition("/")[2], value):
            if isinstance(table, dict) and _VERSION.fullmatch(str(table.get(key, ""))):
                table[key] = ""
    return Sameness(VERSION) if repr(values[0]) == repr(values[1]) else None


def _read_ini(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # as written
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser}


def _version_tables(name: str, value: Any) -> Iterator[tuple[Any, str]]:
    for *folders, key in _VERSION_PLACES.get(name, ()):
        table = value
        for each in folders:
            table = table.get(each) if isinstance(table, dict) else None
        yield table, key
    if name == "Cargo.lock":
        # Only the crates of the repository have no source.
        crates = value.get("package")
        yield from ((each, "version") for each in (crates if isinstance(crates, list) else ()) if "source" not in each)


_RUST_TEXTS = r"\bb?r(?P<hashes>#*)\".*?\"(?P=hashes)|\"(?:\\.|[^\"\\])*\"|'(?:\\[^'\n]+|[^'\\\n])'"
_RUST_PARTS = re.compile(rf"{_RUST_TEXTS}|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
_GO_PARTS = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|`[^`]*`|'(?:\\.|[^'\\\n])+'|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
_BEFORE_OPERAND = r"(?:(?<=[(,=:\[&|?;])|(?<==>)|(?<=[(,=:&|;]!)|(?<=\breturn))"
_SCRIPT_PATTERN = rf"{_BEFORE_OPERAND}[^\S\n]*/(?![*/])(?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*"
"""A regular expression, where a slash divides nothing: after a bracket, an operator of two operands, or `return`."""
_SCRIPT_PARTS = re.compile(f"{_SCRIPT_PATTERN}|{SCRIPT_PARTS.pattern}", SCRIPT_PARTS.flags)
_PARTS = {"go": _GO_PARTS, "rs": _RUST_PARTS} | dict.fromkeys(("js", "mjs", "cjs", "ts", "mts", "cts"), _SCRIPT_PARTS)
_UNSURE = {"go": re.compile(r"[\"`']|\*/"), "rs": re.compile(r"\"|\*/")}
"""Shows that a text was not split into its parts correctly."""
_NO_OPERANDS = "await|case|default|delete|do|else|extends|in|instanceof|new|of|return|throw|typeof|void|yield"
_DIVISION = re.compile(rf"(?:\]|\b(?!(?:{_NO_OPERANDS})\b)[\w$]+)\s*/(?![*/])")
_UNSURE_SCRIPT = re.compile(r"[\"'`/]|(?:[(=,?:&|>;{}]|return)\s*<")
_PLAIN_COMMENT = re.compile(r"//(?:\s|$)|/\*[*\s]")
_READ_LINE = re.compile(r".*(?:(?<!\w)[@#]|\+build).*")
"""A line of a comment that a compiler or a bundler may read: no address has a mark after a space. Go also reads
comments beside `import "C"` and below `// Output:`."""


def _lines_of_code(path: str, text: str) -> list[str] | None:
    """Return the lines of code without comments and superfluous spaces; None if they cannot be told for certain."""
    kind = path.rpartition(".")[2]
    if kind not in _PARTS or (kind == "go" and any(each in text for each in ('"C"', "utput:"))):
        return None
    code, rest, at = list[str](), list[str](), 0
    for part in _PARTS[kind].finditer(text):
        between, comment, at = text[at : part.start()], part["comment"], part.end()
        code.append(re.sub(r"[^\S\n]+", " ", between))
        rest.append(between)
        if comment is None:
            if "${" in re.sub(r"\$\{[^{}`]*\}", "", part[0]) and part[0].startswith("`"):
                return None
            code.append(part[0].replace("\n", "\0"))
        else:
            # A block inside a line of code may be for a tool.
            before = text[text.rfind("\n", 0, part.start()) + 1 : part.start()]
            alone = comment[1] == "/" or (
                not before.strip() and re.match(r"[^\S\n]*(?:\n|$)", text[at : at + 200]) is not None
            )
            is_rust_doc = kind == "rs" and comment.startswith("/**")
            idle = alone and not is_rust_doc and _PLAIN_COMMENT.match(comment)
            code += _READ_LINE.findall(comment) if idle else [comment]
    code.append(re.sub(r"[^\S\n]+", " ", text[at:]))
    rest.append(text[at:])
    left = " ".join(rest)
    if _UNSURE[kind].search(left) if kind in _UNSURE else _UNSURE_SCRIPT.search(_DIVISION.sub(" ", left)):
        return None
    return [line.strip() for line in "".join(code).split("\n") if line.strip()]
