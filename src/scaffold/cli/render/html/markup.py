"""HTML and SVG as a tree of elements. Text becomes markup at one place, which escapes it: `to_html`."""

from collections.abc import Callable, Sequence
from html import escape
from typing import TypeAlias

from msgspec import Struct

from scaffold.core.printable_text import printable

Node: TypeAlias = "Element | Stylesheet | str | Sequence[Node] | None"

NEWLINE = "\n"
VOID = frozenset({"br", "hr", "meta"})
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
