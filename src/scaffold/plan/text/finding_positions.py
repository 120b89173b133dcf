"""Positions of goals and actions in a plan file, for findings that lint made without knowing the text."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from scaffold.core.plan import Finding
from scaffold.plan.text.parse_tree import ListNode, MappingNode, PositionedNode, ScalarNode, TextPosition


def with_positions(findings: Iterable[Finding], root: PositionedNode) -> tuple[Finding, ...]:
    """Return the findings in the same order; those without a position get that of their goal or action.

    `root` is the parsed plan file. For `duplicate-key` it is the position of the second item with the name.
    """
    marks: dict[tuple[str | None, str | None], list[TextPosition]] = {}
    for goal, action, mark in _things(root):
        marks.setdefault((goal, action), []).append(mark)
    return tuple(_at(finding, marks.get((finding.goal, finding.action), ())) for finding in findings)


def _at(finding: Finding, marks: Sequence[TextPosition]) -> Finding:
    if finding.line is not None or not marks:
        return finding
    mark = marks[:2][-1] if finding.code == "duplicate-key" else marks[0]
    return replace(finding, line=mark.line, column=mark.column)


def _things(root: PositionedNode) -> Iterator[tuple[str, str | None, TextPosition]]:
    """Yield (goal name, None, position) for each goal, and (goal name, action key, position) for its actions."""
    for goal in _items(root, "goals"):
        if isinstance(name := _value(goal, "name"), ScalarNode):
            yield name.written, None, name.mark
            for action in _items(goal, "actions"):
                if isinstance(key := _value(action, "key"), ScalarNode):
                    yield name.written, key.written, key.mark


def _items(node: PositionedNode, key: str) -> tuple[PositionedNode, ...]:
    value = _value(node, key)
    return value.items if isinstance(value, ListNode) else ()


def _value(node: PositionedNode, name: str) -> PositionedNode | None:
    entries = node.entries if isinstance(node, MappingNode) else ()
    return next((value for key, value in entries if isinstance(key, ScalarNode) and key.written == name), None)
