"""A model's Markdown: split into finished blocks while it streams, and drawn so that every character is visible."""

import re
from collections.abc import Sequence
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.syntax import Syntax

_FENCE = re.compile(r"^\s*(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
_HEADING = re.compile(r"^#{1,6}\s")
_ITEM = re.compile(r"^([-*+]|\d{1,9}[.)])\s")
DISABLED_RULES = ("entity", "html_block", "html_inline", "reference", "image")
"""Syntax that would hide text of the model: entities, HTML, link definitions, images."""


class LeftAlignedHeading(Heading):
    """A left-aligned heading."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class PaddedCodeBlock(CodeBlock):
    """A code block with padding at its left and right only."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the code, highlighted if its language is known."""
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


ELEMENTS: dict[str, type[MarkdownElement]] = {
    **Markdown.elements,
    "heading_open": LeftAlignedHeading,
    "fence": PaddedCodeBlock,
    "code_block": PaddedCodeBlock,
}
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable(list(DISABLED_RULES))


def markdown(text: str, *, code_theme: str) -> Markdown:
    """Return `text`, which has no control characters, as a Rich renderable; line breaks are kept."""
    # Rich's own parser has a fixed set of rules; only text that is parsed here keeps what they would hide.
    rendered = Markdown("", code_theme=code_theme, hyperlinks=False)
    rendered.parsed = PARSER.parse(text)
    rendered.elements = ELEMENTS  # type: ignore[misc]  # of this object only
    _keep_line_breaks(rendered.parsed)
    return rendered


def _keep_line_breaks(tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.type == "softbreak":
            token.type = "hardbreak"
        _keep_line_breaks(token.children or ())


def block_tail(block: str, most: int) -> str:
    """Return about the last `most` characters of a block; those of a code block stay a code block."""
    if len(block) <= most:
        return block
    # The tail of a code block gets its first line back; without it, code would be drawn as prose.
    first, tail = block.partition("\n")[0], block[-most:]
    return f"{first}\n{tail.partition(chr(10))[2] or tail}" if _FENCE.match(first) else tail


class MarkdownBlocks:
    """Splits text that arrives in pieces into blocks.

    A block ends at a blank line unless the next line continues it, after a heading, and at a closing fence.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._open = ""
        self._fence = ""
        self._blank = False

    @property
    def rest(self) -> str:
        """The unfinished rest."""
        return "\n".join([*self._lines, self._open])

    def feed(self, text: str) -> list[str]:
        """Add the next piece, and return the blocks it completes."""
        *lines, self._open = (self._open + text).split("\n")
        return [block for line in lines for block in self._take_line(line)]

    def end(self) -> list[str]:
        """Return the remaining blocks, and start over."""
        blocks = [*self.feed("\n"), *self._cut_block()]
        self._open = ""
        return [block for block in blocks if block.strip()]

    def _take_line(self, line: str) -> list[str]:
        """Take a whole line, and return the blocks that it finishes: none, the previous one, itself, or both."""
        # Within a fence neither a blank line nor a heading ends the block.
        if self._fence:
            self._lines.append(line)
            # By CommonMark, a shorter or a different marker is content: a block may quote another block.
            mark = line.strip()
            closes = len(mark) >= len(self._fence) and set(mark) == {self._fence[0]}
            return self._cut_block() if closes else []
        if not line.strip():
            self._blank = bool(self._lines)
            self._lines += [line] * self._blank
            return []
        done = self._cut_block() if self._ends_before(line) else []
        self._blank = False
        self._lines.append(line)
        if opened := _FENCE.match(line):
            self._fence = opened["mark"]
        elif _HEADING.match(line):
            return [*done, *self._cut_block()]
        return done

    def _ends_before(self, line: str) -> bool:
        if line[0] in " \t":
            return False
        # A list continues over blank lines between its items; it must not be cut into several lists.
        loose = self._blank and not (_ITEM.match(line) and self._lines and _ITEM.match(self._lines[0]))
        return loose or (bool(_FENCE.match(line)) and bool(self._lines))

    def _cut_block(self) -> list[str]:
        block = "\n".join(self._lines).strip("\n")
        self._lines, self._fence, self._blank = [], "", False
        return [block] if block else []
