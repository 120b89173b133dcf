"""Typed reading of positioned values. Each problem is recorded with its position, and reading continues."""

import re
from collections.abc import Callable
from typing import Literal

from scaffold.core.plan import Finding
from scaffold.plan.message_text import quoted
from scaffold.plan.spelling_hints import SpellingHints
from scaffold.plan.text.parse_tree import ListNode, MappingNode, PositionedNode, ScalarNode, TextPosition
from scaffold.plan.text.right_forms import EXAMPLES

FieldErrorCode = Literal[
    "wrong-type", "missing-key", "duplicate-key", "bad-value", "unknown-key", "unread-tag", "cut-text"
]
TextCheck = Callable[[str], str | None]
"""Returns why a text is invalid, as the end of a sentence that starts with it; None if it is valid."""
_INDEX = re.compile(r"\[\d+\]")
_INVALID = re.compile("[\x00\ud800-\udfff]")


def bad_characters(text: str) -> str | None:
    """Return why `text` cannot be stored or passed to a program; None if it can."""
    return "contains a character that is not allowed (NUL or half a surrogate pair)" if _INVALID.search(text) else None


def bad_line(text: str) -> str | None:
    """Return why `text` cannot be stored as one line; None if it can."""
    return "contains a line break" if len(text.splitlines()) > 1 else bad_characters(text)


class FindingCollector:
    """Collects findings about one part of the plan; `goal` and `action` name it, None if unknown."""

    def __init__(self, found: list[Finding], goal: str | None = None, action: str | None = None) -> None:
        """Append findings to `found`."""
        self._found = found
        self._goal = goal
        self._action = action

    def about(self, *, goal: str | None = None, action: str | None = None) -> "FindingCollector":
        """Return a collector with the same target whose findings also name `goal` and `action`."""
        return FindingCollector(self._found, goal or self._goal, action or self._action)

    def add(
        self,
        code: FieldErrorCode,
        mark: TextPosition,
        message: str,
        fix: str,
        *,
        severity: Literal["error", "warning"] = "error",
        path: str = "",
    ) -> None:
        """Record one finding; `path` leads to the value it is about."""
        finding = Finding(
            code=code,
            severity=severity,
            goal=self._goal,
            action=self._action,
            message=message,
            fix=fix,
            line=mark.line,
            column=mark.column,
            example=EXAMPLES.get(_INDEX.sub("", path), ""),
        )
        self._found.append(finding)


class FieldReader:
    """The values of one mapping by key; a null value counts as missing."""

    def __init__(self, notes: FindingCollector, node: PositionedNode, path: str) -> None:
        """Read the entries of `node`; of duplicate keys the first counts. `check` reports what is wrong with it."""
        self.path = path
        self.notes = notes
        self.node = node
        self._values: dict[str, PositionedNode] = {}
        for key, value in node.entries if isinstance(node, MappingNode) else ():
            # A null is how people leave a value out.
            if isinstance(key, ScalarNode) and not (isinstance(value, ScalarNode) and value.kind == "nothing"):
                self._values.setdefault(key.written, value)

    def check(self, known: tuple[str, ...], required: tuple[str, ...] = (), *, closed: bool = True) -> None:
        """Record if the value is not a mapping, or has invalid or duplicate keys, or lacks a `required` key.

        Keys that are not in `known` get a warning if `closed`.
        """
        if not isinstance(self.node, MappingNode):
            message = f"expected a mapping, found {_describe_node(self.node)}"
            self._add_finding("wrong-type", self.node, message, f"Write a mapping with keys {', '.join(known)}.")
            return
        seen: set[str] = set()
        for node, _ in self.node.entries:
            # `<<` is a merge key in YAML, and a name in JSON.
            if isinstance(node, ScalarNode) and node.kind != "merge key":
                self._check_key(node, known if closed else None, seen)
            elif isinstance(node, ScalarNode):
                self._add_finding("bad-value", node, "merge keys (`<<`) are not supported", "Write the entries out.")
            else:
                message = f"expected a key, found {_describe_node(node)}"
                self._add_finding("wrong-type", node, message, "Write a name before the colon.")
        for key in required:
            if key not in self._values:
                message = f"{self.path}: the key `{key}` is missing"
                self.notes.add("missing-key", self.node.mark, message, f"Add `{key}: ...`.", path=f"{self.path}.{key}")

    def _check_key(self, node: ScalarNode, known: tuple[str, ...] | None, seen: set[str]) -> None:
        key = node.written
        if key in seen:
            self._add_finding("duplicate-key", node, f"the key {quoted(key)} is written twice", "Keep one of the two.")
        elif known is not None and key not in known:
            fix = f"{SpellingHints(known).hint(key)}The known keys are {', '.join(known)}."
            # Only a warning: newer versions and other tools add keys.
            message = f"{self.path}: the key {quoted(key)} is unknown and was ignored"
            self.notes.add("unknown-key", node.mark, message, fix, severity="warning", path=self.path)
        seen.add(key)

    def _add_finding(
        self, code: FieldErrorCode, node: PositionedNode, message: str, fix: str, key: str | None = None
    ) -> None:
        path = f"{self.path}.{key}" if key else self.path
        self.notes.add(code, node.mark, f"{path}: {message}", fix, path=path)

    def has(self, key: str) -> bool:
        """Return whether `key` has a value."""
        return key in self._values

    def lists(self, key: str) -> bool:
        """Return whether the value of `key` is a list."""
        return isinstance(self._values.get(key), ListNode)

    def complain(self, key: str, message: str, fix: str, code: FieldErrorCode = "bad-value") -> None:
        """Record a problem with the value of `key`, which must be present."""
        self._add_finding(code, self._values[key], message, fix, key)

    def text(self, key: str, default: str = "", complaint: TextCheck = bad_characters) -> str:
        """Return a text; `default` if it is missing or invalid."""
        node = self._values.get(key)
        text = None if node is None else self._read_text(node, key, complaint)
        return default if text is None else text

    def texts(self, key: str, complaint: TextCheck = bad_characters) -> tuple[str, ...]:
        """Return a list of texts, without duplicates and invalid items."""
        read = (self._read_text(item, f"{key}[{index}]", complaint) for index, item in enumerate(self.items(key)))
        return tuple(dict.fromkeys(text for text in read if text is not None))

    def identifier(self, key: str, complaint: TextCheck = bad_characters) -> str:
        """Return a text or an integer, as it is written; empty if it is missing or invalid."""
        node = self._values.get(key)
        return "" if node is None else self._read_identifier(node, key, complaint) or ""

    def identifiers(self, key: str) -> tuple[str, ...]:
        """Return a list of texts and numbers, as they are written, without duplicates and invalid items."""
        read = (
            self._read_identifier(item, f"{key}[{index}]", bad_characters) for index, item in enumerate(self.items(key))
        )
        return tuple(dict.fromkeys(text for text in read if text is not None))

    def _read_identifier(self, node: PositionedNode, key: str, complaint: TextCheck) -> str | None:
        if isinstance(node, ScalarNode) and node.kind == "number":
            # Ids such as `1.0` must stay as they are written.
            node = ScalarNode(node.mark, "text", node.written, node.written)
        return self._read_text(node, key, complaint)

    def _read_text(self, node: PositionedNode, key: str, complaint: TextCheck) -> str | None:
        if isinstance(node, ScalarNode) and isinstance(node.value, str) and node.kind == "text":
            if node.cut:
                message = (
                    f"{self.path}.{key}: YAML reads {quoted(node.cut)} as a comment, so it is not a part of the text"
                )
                fix = "Put the text in quotes, or a space after the `#` of a comment."
                self.notes.add("cut-text", node.mark, message, fix, severity="warning", path="cut-text")
            if (wrong := complaint(node.value)) is None:
                return node.value
            self._add_finding("bad-value", node, f"{quoted(node.value)} {wrong}", "Write a different one.", key)
        elif isinstance(node, ScalarNode):
            message = f"expected text, found {_describe_node(node)}; put it in quotes"
            self._add_finding(
                "wrong-type", node, message, f'Write "{quoted(node.written)[1:-1]}" if that is what you mean.', key
            )
        else:
            self._add_finding(
                "wrong-type", node, f"expected text, found {_describe_node(node)}", "Write one text.", key
            )
        return None

    def items(self, key: str) -> tuple[PositionedNode, ...]:
        """Return the items of a list; empty if it is missing or not a list."""
        node = self._values.get(key)
        if node is None:
            return ()
        if not isinstance(node, ListNode):
            self._add_finding(
                "wrong-type", node, f"expected a list, found {_describe_node(node)}", "Write it as `[...]`.", key
            )
            return ()
        return node.items

    def never_empty(self, key: str) -> None:
        """Record a problem if the list is empty."""
        # A missing list is reported as missing, not as empty.
        node = self._values.get(key)
        if isinstance(node, ListNode) and not node.items:
            self._add_finding("bad-value", node, "the list is empty", "Name at least one.", key)

    def tables(self, key: str, short: str | None = None) -> tuple["FieldReader", ...]:
        """Return the mappings in a list; if `short` is given, a bare text is read as a mapping with only that key."""
        items = [*self.items(key)]
        if short is not None:
            # Plans may write `- pytest` instead of `- command: pytest`.
            items = [
                MappingNode(item.mark, ((ScalarNode(item.mark, "text", short, short), item),))
                if isinstance(item, ScalarNode)
                else item
                for item in items
            ]
        return tuple(FieldReader(self.notes, item, f"{self.path}.{key}[{index}]") for index, item in enumerate(items))

    def table(self, key: str) -> "FieldReader | None":
        """Return the mapping at `key`; None if it is missing."""
        return FieldReader(self.notes, self._values[key], f"{self.path}.{key}") if key in self._values else None

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean; `default` if it is missing or invalid."""
        node = self._values.get(key)
        if node is None:
            return default
        if isinstance(node, ScalarNode) and isinstance(node.value, bool):
            return node.value
        self._add_finding(
            "wrong-type", node, f"expected true or false, found {_describe_node(node)}", "Write true or false.", key
        )
        return default

    def number(self, key: str) -> float | None:
        """Return a number; nan if it is invalid, None if it is missing."""
        node = self._values.get(key)
        if node is None:
            return None
        if isinstance(node, ScalarNode) and node.kind == "number" and isinstance(node.value, int | float):
            return node.value
        self._add_finding(
            "wrong-type", node, f"expected a number, found {_describe_node(node)}", "Write a number.", key
        )
        return None


def _describe_node(node: PositionedNode) -> str:
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, ListNode):
        return "a list"
    return "nothing" if node.kind == "nothing" else f"the {node.kind} {quoted(node.written)}"
