"""Split code by its definitions, with the grammar of its language; each piece is named by what it defines."""

import importlib
from collections.abc import Iterator
from functools import cache

from msgspec import Struct
from tree_sitter import Language, Node, Parser

from scaffold.host.startup import importing
from scaffold.memory.chunking.languages import LANGUAGES, CodeLanguage
from scaffold.memory.chunking.text_pieces import PieceSize, TextPiece, split_paragraphs

MAX_PARSED_BYTES = 2_000_000
"""Longer code is split by its lines: the tree's memory grows with it."""
MAX_DEPTH = 20
"""Deeper definitions belong to those around them."""
NAME_CHARS = 200
_NAMES = ("name", "declarator", "type", "declaration", "left")
"""The fields of a node in which the name of what it defines is, or a node that has it."""
_WRAPPERS = frozenset({"export_statement", "template_declaration", "declaration_list", "class_body", "statement_block"})
"""Nodes around definitions that are not named themselves."""


def split_code(text: str, kind: str, size: PieceSize) -> Iterator[TextPiece] | None:
    """Return the pieces of code, in order; None without the grammar, or if the code is not in that language."""
    language, data = LANGUAGES[kind], text.encode("utf-8", "replace")
    parser = _load_parser(language.grammar)
    if parser is None or len(data) > MAX_PARSED_BYTES:
        return None
    root = parser.parse(data).root_node
    definitions = tuple(_find_definitions(root, language, size))
    if not definitions:
        return None
    return _split_definitions(text, data, definitions, size)


@cache
def _load_parser(grammar: str) -> Parser | None:
    module, _, name = grammar.partition(":")
    try:
        with importing():
            return Parser(Language(getattr(importlib.import_module(module), name)()))
    # A grammar for another version of the parser raises ValueError.
    except (ImportError, AttributeError, ValueError):
        return None


class _CodeDefinition(Struct, frozen=True):
    start: int
    end: int
    name: str


def _find_definitions(root: Node, language: CodeLanguage, size: PieceSize) -> Iterator[_CodeDefinition]:
    """Yield the definitions in order, as bytes, those inside of a long one instead of it.

    An empty one says what the text from there on belongs to.
    """
    waiting: list[tuple[Node | int, str, int]] = [(root, "", 0)]
    while waiting:
        node, inside, depth = waiting.pop()
        if isinstance(node, int):
            yield _CodeDefinition(node, node, inside)
            continue
        is_container = node.type in language.containers
        known = is_container or node.type in language.definitions
        name = f"{inside}.{_definition_name(node)}".strip(".")[:NAME_CHARS] if known else inside
        is_open = is_container and node.end_byte - node.start_byte > size.most
        if known and not is_open:
            # What takes one line is no piece of its own.
            if node.end_point.row > node.start_point.row:
                outer = node.parent if node.parent is not None and node.parent.type == "export_statement" else node
                yield _CodeDefinition(outer.start_byte, outer.end_byte, name)
            continue
        if is_open:
            yield _CodeDefinition(node.start_byte, node.start_byte, name)
            waiting.append((node.end_byte, inside, depth))
        may_contain = node.type in _WRAPPERS or node.type.endswith(("_body", "_list", "_block"))
        if depth < MAX_DEPTH and (is_open or node is root or may_contain):
            waiting += [(each, name, depth + 1) for each in reversed(node.named_children)]


def _definition_name(node: Node) -> str:
    """Return the name of what a node defines; empty if it has none."""
    current: Node | None = node
    for _ in range(MAX_DEPTH):
        if current is None:
            return ""
        found = next((each for field in _NAMES if (each := current.child_by_field_name(field)) is not None), None)
        if found is None:
            inner = current.named_children[0] if current.type.endswith(("_declaration", "_spec")) else None
            if inner is None:
                break
            found = inner
        current = found
    text = current.text if current is not None and current is not node else None
    return text.decode("utf-8", "replace").split("\n")[0] if text is not None and len(text) <= NAME_CHARS else ""


def _split_definitions(
    text: str, data: bytes, definitions: tuple[_CodeDefinition, ...], size: PieceSize
) -> Iterator[TextPiece]:
    characters = _Characters(data)
    start, title = 0, ""
    for each in definitions:
        first, last = characters.at(each.start), characters.at(each.end)
        if first < start:
            continue  # on one line with the definition before
        if first == last:
            yield from split_paragraphs(text, start, first, title=title, size=size)
            start, title = first, each.name
            continue
        blank = text.rfind("\n\n", start, first)
        comment = start if blank < 0 else blank + 2  # the lines directly above a definition belong to it
        yield from split_paragraphs(text, start, comment, title=title, size=size)
        yield from split_paragraphs(text, comment, last, title=each.name, size=size)
        start = last
    yield from split_paragraphs(text, start, len(text), title=title, size=size)


class _Characters:
    """Counts characters where the parser counts bytes; asked in ascending order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._byte, self._character = 0, 0

    def at(self, byte: int) -> int:
        """Return how many characters are before a byte."""
        if byte < self._byte:
            self._byte, self._character = 0, 0
        self._character += len(self._data[self._byte : byte].decode("utf-8", "replace"))
        self._byte = byte
        return self._character
