"""Where goals and actions were written, so that what is found wrong with their meaning has a place, too."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from scaffold.core.plan import Finding
from scaffold.plan.located import Listing, Located, Mark, Scalar, Table


def placed(findings: Iterable[Finding], root: Located) -> tuple[Finding, ...]:
    """Return the findings in their order; those without a place get that of the goal or action they are about.

    `root` is the text of the plan as it was read. Of several with one name, `duplicate-key` is about the second.
    """
    marks: dict[tuple[str | None, str | None], list[Mark]] = {}
    for goal, action, mark in _things(root):
        marks.setdefault((goal, action), []).append(mark)
    return tuple(_at(finding, marks.get((finding.goal, finding.action), ())) for finding in findings)


def _at(finding: Finding, marks: Sequence[Mark]) -> Finding:
    if finding.line is not None or not marks:
        return finding
    mark = marks[:2][-1] if finding.code == "duplicate-key" else marks[0]
    return replace(finding, line=mark.line, column=mark.column)


def _things(root: Located) -> Iterator[tuple[str, str | None, Mark]]:
    """Yield the name of each goal, and with it the key of each of its actions, each with its place."""
    for goal in _items(root, "goals"):
        if isinstance(name := _value(goal, "name"), Scalar):
            yield name.written, None, name.mark
            for action in _items(goal, "actions"):
                if isinstance(key := _value(action, "key"), Scalar):
                    yield name.written, key.written, key.mark


def _items(node: Located, key: str) -> tuple[Located, ...]:
    listed = _value(node, key)
    return listed.items if isinstance(listed, Listing) else ()


def _value(node: Located, wanted: str) -> Located | None:
    entries = node.entries if isinstance(node, Table) else ()
    return next((value for key, value in entries if isinstance(key, Scalar) and key.written == wanted), None)
