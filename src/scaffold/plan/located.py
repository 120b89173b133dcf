"""Values with the place they were written at, read from YAML or JSON text."""

import json
import re
from bisect import bisect_right
from math import nan
from typing import Any, Literal

import yaml
from msgspec import Struct
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.reader import Reader

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import Finding

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


UNFOLDED = 1_000_000
"""How many values the aliases of a text may add to those it spells out."""

Kind = Literal["text", "number", "boolean", "nothing", "date", "merge key", "tagged value"]

_KINDS: dict[str, Kind] = {
    "str": "text",
    "value": "text",
    "int": "number",
    "float": "number",
    "bool": "boolean",
    "null": "nothing",
    "timestamp": "date",
    "merge": "merge key",
}


class Mark(Struct, frozen=True, gc=False):
    """A place in a text; both count from 1, columns in characters."""

    line: int
    column: int


START = Mark(1, 1)


class Scalar(Struct, frozen=True, gc=False):
    """A single value: numbers are int or float (nan where they cannot be read), other kinds but text as written."""

    mark: Mark
    kind: Kind
    value: str | int | float | bool | None
    written: str


class Listing(Struct, frozen=True):
    """A list."""

    mark: Mark
    items: tuple["Located", ...]


class Table(Struct, frozen=True):
    """A mapping, in order; a key written twice is there twice."""

    mark: Mark
    entries: tuple[tuple["Located", "Located"], ...]


Located = Scalar | Listing | Table


def read_located(text: str, *, name: str) -> Located:
    """Return what `text` says: as JSON if `name` ends in `.json` or it reads as a JSON object, else as YAML.

    A YAML alias stands for the very value it names, however often. Raises PlanInvalid with one finding, `syntax`.
    """
    text = text.removeprefix("\ufeff")
    try:
        if name.endswith(".json") or _json_object(text):
            return _JsonText(text).read()
        return _YamlText().read(text)
    except _Unreadable as error:
        raise invalid(name, (error.finding,)) from error
    except RecursionError as error:
        finding = _Unreadable("the text is nested too deeply", START).finding
        raise invalid(name, (finding,)) from error


def located(value: object) -> Located:
    """Return a JSON value that was read already as if it stood at the start of a text; RecursionError if too deep."""
    match value:
        case bool():
            return _single("boolean", value)
        case int() | float():
            return _single("number", value)
        case str():
            return _single("text", value)
        case list() | tuple():
            return Listing(START, tuple(map(located, value)))
        case dict():
            return Table(START, tuple((_single("text", str(key)), located(each)) for key, each in value.items()))
        case _:
            return _single("nothing", None)


def _single(kind: Kind, value: str | float | bool | None) -> Scalar:
    return Scalar(START, kind, value, str(value))


def invalid(name: str, findings: tuple[Finding, ...]) -> PlanInvalid:
    """Return the error for a plan named `name` that has these errors, at least one."""
    first = findings[0]
    others = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return PlanInvalid(f"{name}:{first.line}:{first.column}: {first.message}{others}", first.fix, findings)


class _Unreadable(Exception):
    def __init__(self, message: str, mark: Mark) -> None:
        super().__init__(message)
        fix = f"Correct the text near line {mark.line}, column {mark.column}."
        self.finding = Finding(
            code="syntax", severity="error", message=message, fix=fix, line=mark.line, column=mark.column
        )


def _json_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


class _JsonText:
    """Reads with the JSON parser; then walks the text, known to be sound, once more for the places of its values."""

    _gap = re.compile(r"[ \t\n\r,:]*")

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [0, *(newline.end() for newline in re.finditer("\n", text))]
        self._decode = json.JSONDecoder().raw_decode

    def read(self) -> Located:
        try:
            json.loads(self._text)
        except json.JSONDecodeError as error:
            raise _Unreadable(f"this is no JSON: {error.msg}", Mark(error.lineno, error.colno)) from error
        except ValueError as error:
            raise _Unreadable("this is no plan: a number in it has thousands of digits", START) from error
        return self._value(self._skip(0))[0]

    def _skip(self, index: int) -> int:
        """Pass over white space and separators."""
        gap = self._gap.match(self._text, index)
        return gap.end() if gap else index

    def _value(self, start: int) -> tuple[Located, int]:
        """Return the value that starts at `start`, and where it ends."""
        if self._text[start] not in "{[":
            return self._scalar(start)
        values: list[Located] = []
        index = self._skip(start + 1)
        while self._text[index] not in "}]":
            value, index = self._value(index)
            values.append(value)
            index = self._skip(index)
        if self._text[start] == "[":
            return Listing(self._mark(start), tuple(values)), index + 1
        return Table(self._mark(start), tuple(zip(values[::2], values[1::2], strict=True))), index + 1

    def _scalar(self, start: int) -> tuple[Scalar, int]:
        value, end = self._decode(self._text, start)
        kinds: dict[type, Kind] = {str: "text", bool: "boolean", type(None): "nothing"}
        written = value if isinstance(value, str) else self._text[start:end]
        return Scalar(self._mark(start), kinds.get(type(value), "number"), value, written), end

    def _mark(self, index: int) -> Mark:
        line = bisect_right(self._lines, index)
        return Mark(line, index - self._lines[line - 1] + 1)


class _Loader(_PARSER):  # type: ignore[misc] # which parser it is depends on how the YAML library was built
    """The fast parser where there is one, but composing in Python: the fast composer overflows the stack.

    Scalars become located values at once, so that there are few objects for the garbage collector to walk over;
    just those that the composer may look at again, the root and what has an anchor, stay nodes.
    """

    get_single_node = Composer.get_single_node
    compose_document = Composer.compose_document
    compose_sequence_node = Composer.compose_sequence_node
    compose_mapping_node = Composer.compose_mapping_node

    def __init__(self, text: str) -> None:
        _PARSER.__init__(self, text)
        Composer.__init__(self)
        self.scalars = 0
        self._at_root = True

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._at_root = parent is None
        return Composer.compose_node(self, parent, index)

    def compose_scalar_node(self, anchor: Any) -> Any:
        if self._at_root or anchor is not None:
            return Composer.compose_scalar_node(self, anchor)
        event = self.get_event()
        tag = event.tag
        if tag is None or tag == "!":
            tag = self.resolve(yaml.ScalarNode, event.value, event.implicit)
        self.scalars += 1
        return _scalar(tag, event.value, _mark(event.start_mark))


class _YamlText:
    """Turns YAML nodes into located values, each node once: aliases share."""

    def __init__(self) -> None:
        self._done: dict[yaml.Node, Located] = {}
        self._sizes: dict[yaml.Node, int] = {}
        self._open: set[yaml.Node] = set()

    def read(self, text: str) -> Located:
        """Return the document in `text`; _Unreadable, with its place, if it is no YAML or unfolds without end."""
        if odd := Reader.NON_PRINTABLE.search(text):
            line = text.count("\n", 0, odd.start()) + 1
            mark = Mark(line, odd.start() - text.rfind("\n", 0, odd.start()))
            raise _Unreadable(f"the character {odd.group()!a} is not allowed in YAML", mark)
        try:
            loader = _Loader(text)
            root = loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            problem = " ".join(filter(None, (error.context, error.problem)))
            raise _Unreadable(f"this is no YAML: {problem}", _mark(error.problem_mark)) from error
        if root is None:
            return Scalar(START, "nothing", None, "")
        value, size = self._value(root), self._size(root)
        if size > len(self._sizes) + loader.scalars + UNFOLDED:
            raise _Unreadable(f"aliases unfold to more than {UNFOLDED} values", _mark(root.start_mark))
        return value

    def _size(self, node: yaml.Node | Scalar) -> int:
        return 1 if isinstance(node, Scalar) else self._sizes[node]

    def _value(self, node: yaml.Node | Scalar) -> Located:
        if isinstance(node, Scalar):
            return node
        if node in self._open:
            raise _Unreadable("an alias stands for a value that contains it", _mark(node.start_mark))
        if node not in self._done:
            self._open.add(node)
            self._done[node], self._sizes[node] = self._convert(node)
            self._open.remove(node)
        return self._done[node]

    def _convert(self, node: yaml.Node) -> tuple[Located, int]:
        mark = _mark(node.start_mark)
        if isinstance(node, yaml.MappingNode):
            entries = tuple((self._value(key), self._value(value)) for key, value in node.value)
            return Table(mark, entries), 1 + sum(self._size(part) for entry in node.value for part in entry)
        if isinstance(node, yaml.SequenceNode):
            return Listing(mark, tuple(map(self._value, node.value))), 1 + sum(map(self._size, node.value))
        return _scalar(node.tag, node.value, mark), 1


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1) if mark else START


def _scalar(tag: str, written: str, mark: Mark) -> Scalar:
    kind = _KINDS.get(tag.removeprefix("tag:yaml.org,2002:"), "tagged value")
    match kind:
        case "number":
            return Scalar(mark, kind, _number(yaml.ScalarNode(tag, written)), written)
        case "boolean":
            return Scalar(mark, kind, written.lower() in {"yes", "true", "on"}, written)
        case "nothing":
            return Scalar(mark, kind, None, written)
        case _:
            return Scalar(mark, kind, written, written)


def _number(node: yaml.ScalarNode) -> int | float:
    constructor: Any = SafeConstructor()
    read = constructor.construct_yaml_int if node.tag.endswith(":int") else constructor.construct_yaml_float
    try:
        number: int | float = read(node)
    except (ValueError, IndexError):
        return nan
    return number
