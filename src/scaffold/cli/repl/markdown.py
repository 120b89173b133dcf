"""Markdown as a model writes it, drawn so that every character it wrote is seen and none of them is obeyed."""

from collections.abc import Sequence
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.syntax import Syntax

DISABLED_RULES = ("entity", "html_block", "html_inline", "reference", "image")
"""What a reader would not see as it is written: characters by number, tags, definitions, pictures."""


class LeftAlignedHeading(Heading):
    """A heading where text begins."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class PaddedCodeBlock(CodeBlock):
    """Code with a little room at its left, and no more."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the code, coloured by its language if that is known."""
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


ELEMENTS: dict[str, type[MarkdownElement]] = {
    **Markdown.elements,
    "heading_open": LeftAlignedHeading,
    "fence": PaddedCodeBlock,
    "code_block": PaddedCodeBlock,
}
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable(list(DISABLED_RULES))


def markdown(text: str, *, code_theme: str) -> Markdown:
    """Return `text`, which holds no control characters, as something Rich can draw; lines break where it breaks."""
    drawn = Markdown("", code_theme=code_theme, hyperlinks=False)
    drawn.parsed = PARSER.parse(text)
    drawn.elements = ELEMENTS  # type: ignore[misc] # of this one alone
    _break(drawn.parsed)
    return drawn


def _break(tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.type == "softbreak":
            token.type = "hardbreak"
        _break(token.children or ())
