"""Values with their positions, parsed from YAML or JSON text."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import inf, nan
from typing import Any, Literal

import yaml
from msgspec import Struct
from msgspec.structs import replace
from yaml.composer import Composer, ComposerError
from yaml.constructor import SafeConstructor
from yaml.reader import Reader

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import Finding
from scaffold.plan.text.bounded import MAX_CHARS, MAX_DEPTH, TOO_MANY, BeyondLimit, read_limited
from scaffold.plan.text.right_forms import EXAMPLES, SYNTAX_RULES, SyntaxRule

ScalarKind = Literal["text", "number", "boolean", "nothing", "date", "merge key", "tagged value"]

_KINDS: dict[str, ScalarKind] = {
    "str": "text",
    "value": "text",
    "int": "number",
    "float": "number",
    "bool": "boolean",
    "null": "nothing",
    "timestamp": "date",
    "merge": "merge key",
}
_JOINED_COMMENT = re.compile(r"[ \t]+(#[^\s#].*)")
"""A comment without a space after its `#`, as in `Fix bug #12`."""
MAX_RESOLVED = 1_000
"""Characters of a YAML scalar that may be more than text: the time to read a number grows with its square."""
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TextPosition(Struct, frozen=True, gc=False):
    """A position in a text; both count from 1, columns in characters."""

    line: int
    column: int


START = TextPosition(1, 1)


class ScalarNode(Struct, frozen=True, gc=False):
    """A scalar: numbers are int or float (nan if unreadable), booleans bool, null None, others the text as written."""

    mark: TextPosition
    kind: ScalarKind
    value: str | int | float | bool | None
    written: str
    cut: str = ""
    """What follows a text without quotes on its line, from a `#` that may have been meant as a part of it."""


class ListNode(Struct, frozen=True):
    """A list."""

    mark: TextPosition
    items: tuple["PositionedNode", ...]


class MappingNode(Struct, frozen=True):
    """A mapping, in order; duplicate keys are kept."""

    mark: TextPosition
    entries: tuple[tuple["PositionedNode", "PositionedNode"], ...]


PositionedNode = ScalarNode | ListNode | MappingNode


def parse_positioned(text: str, *, name: str) -> PositionedNode:
    """Return the content of `text`: JSON if `name` ends in `.json` or if it parses as a JSON object, else YAML.

    YAML aliases share the node they refer to. Raises PlanInvalid with one `syntax` finding.
    """
    # JSON first: it is stricter, and its errors are easier to read.
    if name.endswith(".json") or _json_object(text.removeprefix("\ufeff")):
        return parse_json(text, name=name)
    return _parse_with(name, lambda: _YamlParser().read(text.removeprefix("\ufeff")))


def parse_json(text: str, *, name: str) -> PositionedNode:
    """Return the content of a JSON text. Raises PlanInvalid with one `syntax` finding."""
    return _parse_with(name, lambda: _JsonParser(text.removeprefix("\ufeff")).read())


def parse_json_lines(text: str, *, name: str) -> PositionedNode:
    """Return the list of the values in a text with one JSON value a line; empty lines are skipped. Raises as above."""
    return _parse_with(name, lambda: _JsonParser(text.removeprefix("\ufeff")).read_lines())


def _parse_with(name: str, read: Callable[[], PositionedNode]) -> PositionedNode:
    try:
        return read()
    except _SyntaxError as error:
        raise invalid_plan(name, (error.finding,)) from error
    except RecursionError as error:
        finding = _SyntaxError("the text is nested too deeply", START).finding
        raise invalid_plan(name, (finding,)) from error


def node_from_value(value: object) -> PositionedNode:
    """Return a parsed JSON value as nodes at position 1:1; raise RecursionError if it is nested too deeply."""
    match value:
        case bool():
            return _single_value("boolean", value)
        case int() | float():
            return _single_value("number", value)
        case str():
            return _single_value("text", value)
        case list() | tuple():
            return ListNode(START, tuple(map(node_from_value, value)))
        case dict():
            return MappingNode(
                START, tuple((_single_value("text", str(key)), node_from_value(each)) for key, each in value.items())
            )
        case _:
            return _single_value("nothing", None)


def _single_value(kind: ScalarKind, value: str | float | bool | None) -> ScalarNode:
    return ScalarNode(START, kind, value, str(value))


def invalid_plan(name: str, findings: tuple[Finding, ...]) -> PlanInvalid:
    """Return the error for the plan file `name` with these findings, at least one."""
    first = findings[0]
    others = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return PlanInvalid(f"{name}:{first.line}:{first.column}: {first.message}{others}", first.fix, findings)


class _SyntaxError(Exception):
    def __init__(self, message: str, mark: TextPosition, rule: SyntaxRule | None = None) -> None:
        super().__init__(message)
        self.finding = Finding(
            code="syntax",
            severity="error",
            message=message,
            fix=rule.fix if rule else f"Fix the text near line {mark.line}, column {mark.column}.",
            line=mark.line,
            column=mark.column,
            example=rule.example if rule else EXAMPLES["syntax"],
        )


def _json_object(text: str) -> bool:
    # A mapping in YAML's flow style may begin with a brace, too.
    if not text.lstrip().startswith("{"):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        return True  # an object so far; the parser reports the depth
    return True


class _JsonParser:
    """Parses with the json module first, then walks the valid text again to find each value's position."""

    _gap = re.compile(r"[ \t\n\r,:]*")

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [0, *(newline.end() for newline in re.finditer("\n", text))]
        self._decode = json.JSONDecoder().raw_decode

    def read(self) -> PositionedNode:
        # The module's own parser decides what is valid; the walk below relies on it.
        self._check_json(self._text, 0)
        return self._read_value(self._skip_gap(0))[0]

    def read_lines(self) -> ListNode:
        values: list[PositionedNode] = []
        for start, end in zip(self._lines, (*self._lines[1:], len(self._text)), strict=True):
            line = self._text[start:end]
            if line.strip():
                self._check_json(line, start)
                values.append(self._read_value(self._skip_gap(start))[0])
        return ListNode(START, tuple(values))

    def _check_json(self, text: str, start: int) -> None:
        """Raise _SyntaxError if `text`, which starts at index `start`, is not one JSON value."""
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            raise _SyntaxError(f"invalid JSON: {error.msg}", self._position_at(start + error.pos)) from error
        except ValueError as error:
            raise _SyntaxError("a number has too many digits", self._position_at(start)) from error

    def _skip_gap(self, index: int) -> int:
        """Return the index after white space and separators."""
        gap = self._gap.match(self._text, index)
        return gap.end() if gap else index

    def _read_value(self, start: int) -> tuple[PositionedNode, int]:
        if self._text[start] not in "{[":
            decoded, end = self._decode(self._text, start)
            kinds: dict[type, ScalarKind] = {str: "text", bool: "boolean", type(None): "nothing"}
            written = decoded if isinstance(decoded, str) else self._text[start:end]
            return ScalarNode(self._position_at(start), kinds.get(type(decoded), "number"), decoded, written), end
        values: list[PositionedNode] = []
        index = self._skip_gap(start + 1)
        while self._text[index] not in "}]":
            value, index = self._read_value(index)
            values.append(value)
            index = self._skip_gap(index)
        if self._text[start] == "[":
            return ListNode(self._position_at(start), tuple(values)), index + 1
        # Keys and values alternate, as separators are skipped.
        return MappingNode(self._position_at(start), tuple(zip(values[::2], values[1::2], strict=True))), index + 1

    def _position_at(self, index: int) -> TextPosition:
        line = bisect_right(self._lines, index)
        return TextPosition(line, index - self._lines[line - 1] + 1)


def read_yaml(text: str) -> Any:
    """Return the value of the one document in a YAML text."""
    return read_limited(_parse_document, text)


def _parse_document(text: str) -> Any:
    try:
        return BoundedLoader(text).get_single_data()
    except OutOfBounds as error:
        raise BeyondLimit(str(error.problem)) from error
    except yaml.YAMLError as error:
        raise ValueError(str(error).partition("\n")[0]) from error


class OutOfBounds(ComposerError):
    """A YAML text is beyond a limit."""


class BoundedLoader(_PARSER):  # type: ignore[misc] # which parser it is depends on how the YAML library was built
    """PyYAML's C parser if available, with the composer in Python: the C composer overflows the stack.

    It stops where a text is too deep, and where aliases repeat too much: a merge of tables copies what it merges.
    """

    most_nodes: float = MAX_CHARS // 10
    most_repeated = MAX_CHARS // 10
    get_single_node = Composer.get_single_node
    compose_document = Composer.compose_document
    compose_sequence_node = Composer.compose_sequence_node
    compose_mapping_node = Composer.compose_mapping_node
    compose_scalar_node = Composer.compose_scalar_node

    def __init__(self, text: str) -> None:
        _PARSER.__init__(self, text)
        Composer.__init__(self)
        self._depth = self._nodes = 0
        self._sizes: dict[yaml.Node, int] = {}
        """Of lists and tables that are complete, with what their aliases stand for."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node; for an alias, the one that it stands for."""
        if self._depth == MAX_DEPTH:
            raise RecursionError
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        node: Any = Composer.compose_node(self, parent, index)
        self._depth -= 1
        self._nodes += 1
        if not isinstance(node, yaml.CollectionNode):
            size = 1
        elif is_alias:
            # YAML allows an alias to a value that is not complete yet, which nothing else can express.
            if (size := self._sizes.get(node, 0)) == 0:
                raise OutOfBounds(None, None, "has an alias for a value that contains it", node.start_mark)
        else:
            parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
            size = self._sizes[node] = 1 + sum(self._sizes.get(part, 1) for part in parts)
        if self._nodes > self.most_nodes or size > self._nodes + self.most_repeated:
            raise OutOfBounds(None, None, TOO_MANY.format(self.most_repeated), node.start_mark)
        return node

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """Return the tag of a node, of one that is too long for anything else that of a text."""
        is_long = kind is yaml.ScalarNode and len(value) > MAX_RESOLVED
        return self.DEFAULT_SCALAR_TAG if is_long else _PARSER.resolve(self, kind, value, implicit)


class _PositionLoader(BoundedLoader):
    """Reads plans, which users write themselves: many nodes are no reason to reject one.

    Most scalars become ScalarNodes at once, so that the garbage collector has fewer objects to visit; the root and
    anchored ones stay YAML nodes, because the composer refers to them again.
    """

    most_nodes = inf
    most_repeated = 1_000_000

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._text = text

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._at_root = parent is None
        return super().compose_node(parent, index)

    def compose_scalar_node(self, anchor: Any) -> Any:
        if self._at_root or anchor is not None:
            return super().compose_scalar_node(anchor)
        event = self.get_event()
        tag = event.tag
        # As in PyYAML's own composer, which this method replaces.
        if tag is None or tag == "!":
            tag = self.resolve(yaml.ScalarNode, event.value, event.implicit)
        cut = None if event.style else _JOINED_COMMENT.match(self._text, event.end_mark.index)
        return _make_scalar(tag, event.value, _position_of(event.start_mark), cut[1] if cut else "")


class _YamlParser:
    """Converts YAML nodes to positioned nodes, each once, so that aliases share a node."""

    def __init__(self) -> None:
        self._done: dict[yaml.Node, PositionedNode] = {}

    def read(self, text: str) -> PositionedNode:
        """Return the document in `text`; raise _SyntaxError if it is invalid or its aliases expand without limit."""
        # PyYAML reports such a character by its offset, without line and column.
        if invalid := Reader.NON_PRINTABLE.search(text):
            line = text.count("\n", 0, invalid.start()) + 1
            mark = TextPosition(line, invalid.start() - text.rfind("\n", 0, invalid.start()))
            raise _SyntaxError(f"the character {invalid.group()!a} is not allowed in YAML", mark)
        try:
            root = _PositionLoader(text).get_single_node()
        except OutOfBounds as error:
            raise _SyntaxError(f"the text {error.problem}", _position_of(error.problem_mark)) from error
        except yaml.MarkedYAMLError as error:
            problem, stop = " ".join(filter(None, (error.context, error.problem))), _position_of(error.problem_mark)
            rest = "".join(text.splitlines()[stop.line - 1 : stop.line])[stop.column - 1 :]
            rule = next((each for each in SYNTAX_RULES if each.found.search(f"{problem}\n{rest}")), None)
            mark = _position_of(error.context_mark) if rule and rule.at_begin and error.context_mark else stop
            raise _SyntaxError(f"invalid YAML: {problem}", mark, rule) from error
        return ScalarNode(START, "nothing", None, "") if root is None else self._positioned(root)

    def _positioned(self, node: yaml.Node | ScalarNode) -> PositionedNode:
        if isinstance(node, ScalarNode):
            return node
        if node not in self._done:
            self._done[node] = self._convert_node(node)
        return self._done[node]

    def _convert_node(self, node: yaml.Node) -> PositionedNode:
        mark = _position_of(node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return MappingNode(
                mark, tuple((self._positioned(key), self._positioned(value)) for key, value in node.value)
            )
        if isinstance(node, yaml.SequenceNode):
            return ListNode(mark, tuple(map(self._positioned, node.value)))
        return _make_scalar(node.tag, node.value, mark)


def _position_of(mark: Any) -> TextPosition:
    return TextPosition(mark.line + 1, mark.column + 1) if mark else START


def _make_scalar(tag: str, written: str, mark: TextPosition, cut: str = "") -> ScalarNode:
    kind = _KINDS.get(tag.removeprefix("tag:yaml.org,2002:"), "tagged value")
    match kind:
        case "number":
            return ScalarNode(mark, kind, _yaml_number(yaml.ScalarNode(tag, written)), written)
        case "boolean":
            return ScalarNode(mark, kind, written.lower() in {"yes", "true", "on"}, written)
        case "nothing":
            return ScalarNode(mark, kind, None, written)
        case _:
            return ScalarNode(mark, kind, written, written, cut)


def _yaml_number(node: yaml.ScalarNode) -> int | float:
    constructor: Any = SafeConstructor()
    read = constructor.construct_yaml_int if node.tag.endswith(":int") else constructor.construct_yaml_float
    try:
        number: int | float = read(node)
    # YAML knows numbers that Python does not, such as `0o_`.
    except (ValueError, IndexError):
        return nan
    return number


def with_positions(findings: Iterable[Finding], root: PositionedNode) -> tuple[Finding, ...]:
    """Return the findings in the same order; one without a position gets its goal's or action's.

    `root` is the parsed plan file. For `duplicate-key` it is the position of the second item with the name.
    """
    marks: dict[tuple[str | None, str | None], list[TextPosition]] = {}
    for goal in _list_items(root, "goals"):
        if isinstance(name := child_value(goal, "name"), ScalarNode):
            marks.setdefault((name.written, None), []).append(name.mark)
            for action in _list_items(goal, "actions"):
                if isinstance(key := child_value(action, "key"), ScalarNode):
                    marks.setdefault((name.written, key.written), []).append(key.mark)
    return tuple(with_position(finding, marks.get((finding.goal, finding.action), ())) for finding in findings)


def with_position(finding: Finding, marks: Sequence[TextPosition]) -> Finding:
    """Return the finding with the position of what it is about: of a repeated key, the second one."""
    if finding.line is not None or not marks:
        return finding
    mark = marks[:2][-1] if finding.code == "duplicate-key" else marks[0]
    return replace(finding, line=mark.line, column=mark.column)


def _list_items(node: PositionedNode, key: str) -> tuple[PositionedNode, ...]:
    value = child_value(node, key)
    return value.items if isinstance(value, ListNode) else ()


def child_value(node: PositionedNode | None, name: str) -> PositionedNode | None:
    """Return the value of a key of a mapping, the first of several; None if there is none."""
    entries = node.entries if isinstance(node, MappingNode) else ()
    return next((value for key, value in entries if isinstance(key, ScalarNode) and key.written == name), None)
