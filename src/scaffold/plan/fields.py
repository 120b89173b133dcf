"""Typed reading of located values: every problem is noted with its place, and reading goes on."""

import re
from collections.abc import Callable
from typing import Literal

from scaffold.core.plan import Finding
from scaffold.plan.located import Listing, Located, Mark, Scalar, Table
from scaffold.plan.wording import Spelling, shown

Code = Literal["wrong-type", "missing-key", "duplicate-key", "bad-value", "unknown-key"]

Complaint = Callable[[str], str | None]
"""Says what is wrong with a text, as the end of a sentence that begins with it; None if nothing is."""

_UNFIT = re.compile("[\x00\ud800-\udfff]")


def any_text(text: str) -> str | None:
    """Accept every text that can be stored and handed to a program."""
    return "contains a character that no text may have (NUL or half a surrogate pair)" if _UNFIT.search(text) else None


class Notes:
    """Collects findings about one thing of the plan; `goal` and `action` name it as far as is known."""

    def __init__(self, found: list[Finding], goal: str | None = None, action: str | None = None) -> None:
        """Append to `found`."""
        self._found = found
        self._goal = goal
        self._action = action

    def about(self, *, goal: str | None = None, action: str | None = None) -> "Notes":
        """Return notes that go to the same place but name `goal` and `action`, too."""
        return Notes(self._found, goal or self._goal, action or self._action)

    def add(
        self, code: Code, mark: Mark, message: str, fix: str, *, severity: Literal["error", "warning"] = "error"
    ) -> None:
        """Note one finding."""
        finding = Finding(
            code=code,
            severity=severity,
            goal=self._goal,
            action=self._action,
            message=message,
            fix=fix,
            line=mark.line,
            column=mark.column,
        )
        self._found.append(finding)


class Fields:
    """The values of one mapping by key; a key without a value counts as not given."""

    def __init__(self, notes: Notes, node: Located, path: str) -> None:
        """Take stock of `node`; of a key written twice, the first counts. What is wrong with it, `check` notes."""
        self.path = path
        self.notes = notes
        self._node = node
        self._values: dict[str, Located] = {}
        for key, value in node.entries if isinstance(node, Table) else ():
            if isinstance(key, Scalar) and not (isinstance(value, Scalar) and value.kind == "nothing"):
                self._values.setdefault(key.written, value)

    def check(self, known: tuple[str, ...], required: tuple[str, ...] = (), *, closed: bool = True) -> None:
        """Note what is no mapping, what is no key or written twice, and `required` keys that are not given.

        Keys that are not `known` are noted, too, unless the mapping is not `closed`.
        """
        if not isinstance(self._node, Table):
            message = f"expected a mapping, found {_described(self._node)}"
            self._note("wrong-type", self._node, message, f"Write a mapping with keys {', '.join(known)}.")
            return
        seen: set[str] = set()
        for node, _ in self._node.entries:
            if isinstance(node, Scalar) and node.kind != "merge key":
                self._check_key(node, known if closed else None, seen)
            elif isinstance(node, Scalar):
                self._note("bad-value", node, "merge keys (`<<`) are not supported", "Write the entries out.")
            else:
                message = f"expected a key, found {_described(node)}"
                self._note("wrong-type", node, message, "Write a name before the colon.")
        for key in required:
            if key not in self._values:
                self._note("missing-key", self._node, f"the key `{key}` is missing", f"Add `{key}: ...`.")

    def _check_key(self, node: Scalar, known: tuple[str, ...] | None, seen: set[str]) -> None:
        key = node.written
        if key in seen:
            self._note("duplicate-key", node, f"the key {shown(key)} is written twice", "Keep one of the two.")
        elif known is not None and key not in known:
            fix = f"{Spelling(known).hint(key)}Known here: {', '.join(known)}."
            message = f"{self.path}: the key {shown(key)} is not known and was ignored"
            self.notes.add("unknown-key", node.mark, message, fix, severity="warning")
        seen.add(key)

    def _note(self, code: Code, node: Located, message: str, fix: str, key: str | None = None) -> None:
        self.notes.add(code, node.mark, f"{self.path}{'.' if key else ''}{key or ''}: {message}", fix)

    def has(self, key: str) -> bool:
        """Tell whether `key` is given."""
        return key in self._values

    def lists(self, key: str) -> bool:
        """Tell whether the value of `key` is a list."""
        return isinstance(self._values.get(key), Listing)

    def complain(self, key: str, message: str, fix: str, code: Code = "bad-value") -> None:
        """Note that the value of `key`, which is given, will not do."""
        self._note(code, self._values[key], message, fix, key)

    def text(self, key: str, default: str = "", complaint: Complaint = any_text) -> str:
        """Return a text; `default` where none is given, or none that will do."""
        node = self._values.get(key)
        text = None if node is None else self._text(node, key, complaint)
        return default if text is None else text

    def texts(self, key: str, complaint: Complaint = any_text) -> tuple[str, ...]:
        """Return a list of texts, repeated ones once."""
        read = (self._text(item, f"{key}[{place}]", complaint) for place, item in enumerate(self.items(key)))
        return tuple(dict.fromkeys(text for text in read if text is not None))

    def _text(self, node: Located, key: str, complaint: Complaint) -> str | None:
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.kind == "text":
            if (wrong := complaint(node.value)) is None:
                return node.value
            self._note("bad-value", node, f"{shown(node.value)} {wrong}", "Write another one.", key)
        elif isinstance(node, Scalar):
            message = f"expected text, found {_described(node)}; put it in quotes"
            self._note("wrong-type", node, message, f'Write "{shown(node.written)[1:-1]}" if that is meant.', key)
        else:
            self._note("wrong-type", node, f"expected text, found {_described(node)}", "Write one text.", key)
        return None

    def items(self, key: str) -> tuple[Located, ...]:
        """Return the items of a list; none where no list is given."""
        node = self._values.get(key)
        if node is None:
            return ()
        if not isinstance(node, Listing):
            self._note("wrong-type", node, f"expected a list, found {_described(node)}", "Write it as `[...]`.", key)
            return ()
        return node.items

    def never_empty(self, key: str) -> None:
        """Note an empty list."""
        node = self._values.get(key)
        if isinstance(node, Listing) and not node.items:
            self._note("bad-value", node, "the list is empty", "Name at least one.", key)

    def tables(self, key: str, short: str | None = None) -> tuple["Fields", ...]:
        """Return the mappings in a list; a bare text stands for one with just the key `short`, if that is given."""
        return tuple(
            Fields(self.notes, _spelt_out(item, short), f"{self.path}.{key}[{place}]")
            for place, item in enumerate(self.items(key))
        )

    def table(self, key: str) -> "Fields | None":
        """Return the mapping that is the value of `key`; None where none is given."""
        return Fields(self.notes, self._values[key], f"{self.path}.{key}") if key in self._values else None

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean."""
        node = self._values.get(key)
        if node is None:
            return default
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self._note("wrong-type", node, f"expected true or false, found {_described(node)}", "Write true or false.", key)
        return default

    def number(self, key: str) -> float | None:
        """Return a number, nan for one that cannot be read; None where none is given."""
        node = self._values.get(key)
        if node is None:
            return None
        if isinstance(node, Scalar) and node.kind == "number" and isinstance(node.value, int | float):
            return node.value
        self._note("wrong-type", node, f"expected a number, found {_described(node)}", "Write a number.", key)
        return None


def _spelt_out(node: Located, short: str | None) -> Located:
    if short is None or not isinstance(node, Scalar):
        return node
    return Table(node.mark, ((Scalar(node.mark, "text", short, short), node),))


def _described(node: Located) -> str:
    if isinstance(node, Table):
        return "a mapping"
    if isinstance(node, Listing):
        return "a list"
    return "nothing" if node.kind == "nothing" else f"the {node.kind} {shown(node.written)}"
