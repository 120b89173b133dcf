"""HTML and SVG as a tree of elements, and components of the report's page: badges, times, long texts, tables.

Text becomes markup at one place, which escapes it: `to_html`.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from html import escape
from shlex import quote
from typing import TypeAlias

from msgspec import Struct

from scaffold.core.ids import ActionId, RunId
from scaffold.core.model import Action
from scaffold.core.printable_text import printable, truncate_text
from scaffold.views.state_labels import STATUS_MARKS

Node: TypeAlias = "Element | Stylesheet | str | Sequence[Node] | None"
NEWLINE = "\n"
VOID = frozenset({"br", "hr", "input", "link", "meta"})
"""Void elements: without content and end tag."""
BLOCKS = frozenset({"html", "body", "div", "figure", "footer", "head", "header", "main", "section", "table", "tr"})
"""Elements on a line of their own, for readers of the source and for comparing two reports."""


class Element(Struct, frozen=True):
    """An element with its attributes and content, all of it plain text until it is written."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    children: tuple["Node", ...]


class Stylesheet(Struct, frozen=True):
    """The only text that is not escaped. It is ours, never from an agent or a repository."""

    css: str


def element(name: str, /, *children: "Node", **attributes: str | float | None) -> Element:
    """Return an element; attributes that are None are left out.

    In the names of attributes `_` stands for `-`, and one at the end is dropped: `class_`, `aria_label`.
    """
    named = tuple(
        (key.rstrip("_").replace("_", "-"), _attribute_text(value))
        for key, value in attributes.items()
        if value is not None
    )
    return Element(name, named, children)


def _attribute_text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def to_html(root: Element, clean: Callable[[str], str]) -> str:
    """Return the tree as HTML; every text and attribute is passed through `clean`, made printable, and escaped."""
    pieces = ["<!doctype html>"]
    _write_node(root, _Escaper(clean), pieces)
    return "".join([*pieces, NEWLINE])


class _Escaper:
    """Escapes text for HTML, and caches it: keys and commands occur many times."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self._clean = clean
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        safe = self._known.get(text)
        if safe is None:
            # Control and reordering characters are shown as escapes: they could make a line read as another one.
            safe = self._known[text] = escape(printable(self._clean(text)), quote=True)
        return safe


def _write_node(node: Node, escaped: _Escaper, pieces: list[str]) -> None:
    match node:
        case None:
            return
        case str():
            pieces.append(escaped(node))
        case Stylesheet(css=css):
            pieces.append(css)
        case Element():
            attributes = "".join([f' {name}="{escaped(value)}"' for name, value in node.attributes])
            pieces.append(f"{NEWLINE if node.name in BLOCKS else ''}<{node.name}{attributes}>")
            if node.name not in VOID:
                for child in node.children:
                    _write_node(child, escaped, pieces)
                pieces.append(f"</{node.name}>")
        case _:
            for each in node:
                _write_node(each, escaped, pieces)


TONES = {"green": "good", "cyan": "busy", "red": "bad", "yellow": "wait", "bright_black": "idle"}
"""The stylesheet's class for each color of a terminal."""
EXTRA_MARKS = {
    "weak": ("!", "yellow"),
    "unchanged behaviour": ("✓", "cyan"),
    "reviewed": ("✓", "cyan"),
    "proven": ("✓", "green"),
    "missing": ("✗", "red"),
    "met": ("✓", "green"),
    "unmet": ("✗", "red"),
    "unclear": ("■", "yellow"),
}
MAX_TEXT = 4_000
"""Characters shown of one output, reason or answer."""
MAX_TEXTS = 1_500_000
"""Characters of all texts of several lines on a page."""
MAX_LINE = 200
MAX_ROWS = 2_000
"""Rows of one table, or entries of one list."""
SHORT_COMMIT = 8


def mark_of(status: str) -> str:
    """Return the sign of a status, of a fact or of its strength."""
    return _status_sign(status)[0]


def tone_of(status: str) -> str:
    """Return the stylesheet's class for a status: good, busy, bad, wait or idle."""
    return TONES[_status_sign(status)[1]]


def _status_sign(status: str) -> tuple[str, str]:
    return EXTRA_MARKS.get(status) or STATUS_MARKS.get(status) or ("·", "bright_black")


def badge(status: str) -> Element:
    """Return a status as a word with its sign and color."""
    sign = element("span", mark_of(status), aria_hidden="true")
    return element("span", sign, " ", status, class_=f"badge {tone_of(status)}")


def moment(at: datetime) -> Element:
    """Return a time of day with its date, both local."""
    local = at.astimezone()
    return element("time", f"{local:%Y-%m-%d %H:%M:%S}", datetime=local.isoformat(timespec="seconds"))


def commit(sha: str | None) -> Node:
    """Return the short form of a commit's id."""
    return element("code", sha[:SHORT_COMMIT], title=sha) if sha else None


def section(name: str, title: str, *children: Node, note: str = "") -> Element:
    """Return a section with its heading; `name` is its anchor."""
    intro = element("p", note, class_="note") if note else None
    return element("section", element("h2", title), intro, *children, id=name)


def block(text: str) -> Element:
    """Return a text of several lines as it is, without its middle if it is very long."""
    return element("pre", truncate_text(text.strip("\n"), MAX_TEXT))


class LongTexts:
    """Shows texts of several lines, until together they have `budget` characters: the page can still be opened."""

    def __init__(self, budget: int = MAX_TEXTS) -> None:
        self._left = budget

    def folded(self, text: str, label: str, command: str) -> Element | None:
        """Return a text that opens under its label, or says that `command` prints it; None for an empty one."""
        if not text.strip():
            return None
        if self._left <= 0:
            where = element("code", command)
            return element("p", f"{label}: left out to keep this page small; see ", where, class_="note")
        return element("details", element("summary", label), self.shown(text, command))

    def shown(self, text: str, command: str) -> Element | None:
        """Return a text as it is, or its first line and `command`, which prints the rest; None for an empty one."""
        if not text.strip():
            return None
        if self._left <= 0:
            first = text.strip().partition("\n")[0][:MAX_LINE]
            return element("p", first, " ", element("code", command), class_="note")
        self._left -= min(len(text), MAX_TEXT)
        return block(text)


class TableRow(Struct, frozen=True):
    """A row of a table; its first cell is its heading."""

    cells: Sequence[Node]
    anchor: str | None = None


def table(heads: Sequence[str], rows: Iterable[TableRow], *, label: str, numbers: int = 0) -> Element:
    """Return a table that can be scrolled sideways; the last `numbers` columns have numbers."""
    first = len(heads) - numbers
    kinds = ["number" if at >= first else None for at in range(len(heads))]
    titles = [element("th", each, scope="col", class_=kind) for each, kind in zip(heads, kinds, strict=True)]
    body = []
    for row in rows:
        cells = [element("td", cell, class_=kind) for cell, kind in zip(row.cells[1:], kinds[1:], strict=True)]
        body.append(element("tr", element("th", row.cells[0], scope="row"), *cells, id=row.anchor))
    head = element("thead", element("tr", *titles))
    return scrolling(element("table", head, element("tbody", *body)), label)


def scrolling(content: Element, label: str) -> Element:
    """Return a region that scrolls sideways if its content is wider than the screen, also with the keyboard."""
    return element("div", content, class_="scroll", role="region", tabindex="0", aria_label=label)


class References:
    """Refers to what is elsewhere: to actions in the page, and to commands that print more of its run."""

    def __init__(self, run: RunId, actions: Sequence[Action]) -> None:
        self._run = run
        self._numbers = {action.id: number for number, action in enumerate(actions, 1)}

    def anchor(self, action: ActionId) -> str:
        """Return the name of an action's place, made from a number: its key could be anything."""
        return f"action-{self._numbers[action]}"

    def command(self, verb: str, action: Action | None = None) -> str:
        """Return a command about an action, or the run, that names the run: it may not be the latest for long."""
        about = f" {quote(action.key)}" if action else ""
        return f"scaffold {verb}{about} --run {self._run}"

    def link(self, action: Action) -> Element:
        """Return the key of an action as a link to its row in the plan."""
        return element("a", element("code", action.key), href=f"#{self.anchor(action.id)}")
