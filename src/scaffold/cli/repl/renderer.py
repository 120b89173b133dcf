"""Draw everything that a REPL shows, as lines of text with colours; also split streamed Markdown into blocks.

Text from outside is made safe here: secrets are redacted before a line is wrapped or cut, control characters escaped.
"""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct
from rich.cells import chop_cells
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from scaffold.cli.render.terminal.style import PATCH_COLORS, paint
from scaffold.core.conversation import Todo
from scaffold.core.printable_text import count_of, printable
from scaffold.tools.content.line_diff import DiffLine, LineDiff
from scaffold.views.text_format import clip

_COLORS = re.compile(r"(\x1b\[[0-9;]*m)")
_TRAILING = re.compile(r"[ \t]+((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "default",
        "markdown.h1": "bold underline",
        "markdown.h1.border": "default",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.h5": "italic",
        "markdown.h6": "italic",
        "markdown.link": "underline",
        "markdown.link_url": "underline",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.block_quote": "italic",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
_MARKS = {"pending": ("☐", ""), "in_progress": ("▶", "bold"), "completed": ("☑", "dim")}
_SUBJECTS = ("command", "path", "url", "pattern", "task", "code", "content")
"""The most telling arguments of a call."""
USER_LINES = 30
"""Lines of the user's message, after the first, that are shown whole."""
DIFF_LINES = 40
"""Lines shown of the diff of a finished change."""
WHOLE_LINE = 2_000
"""Characters shown of a line of the user, or of a change that is to be approved."""
_SHOWN_AS_DIFF = ("content", "expected")
"""Arguments that a diff shows better."""


class Renderer(Struct, frozen=True, kw_only=True):
    """How to draw: `colours` is off with NO_COLOR, `plain` is for a terminal without escape sequences."""

    width: int
    colours: bool = True
    plain: bool = False
    """Whether everything is words: no colours, and no symbols that a screen reader would spell."""
    light: bool = False
    """Whether the background is light."""
    clean: Callable[[str], str] = str
    """Removes secrets from a text."""

    def markdown(self, text: str) -> str:
        """Return a reply, or a part of one."""
        return self.draw(markdown(self._safe_text(text), code_theme="ansi_light" if self.light else "ansi_dark"))

    def thinking(self, text: str) -> str:
        """Return a model's thinking."""
        return self.draw(Padding(Text(self._safe_text(text), "dim italic"), (0, 0, 0, 2)))

    def user_message(self, text: str) -> str:
        """Return a message of the user; of a long one the first lines, of a long line its beginning."""
        first, *more = (_line_start(line) for line in self._safe_text(text).split("\n"))
        if len(more) > USER_LINES:
            more = [*more[: USER_LINES // 2], f"... {len(more) - USER_LINES // 2:,} more lines"]
        mark = "you: " if self.plain else "› "
        lines = [Text.assemble((mark, "bold cyan"), (first, "bold")), *(Text(f"  {line}", "bold") for line in more)]
        return self.draw(Text("\n").join(lines))

    def words(self, text: str, style: str = "", *, indent: int = 0) -> str:
        """Return plain text, wrapped; each line is indented by so many columns."""
        return self.draw(Padding(Text(self._safe_text(text), style), (0, 0, 0, indent)))

    def patch(self, text: str) -> str:
        """Return a diff, each line in its colour and as long as it is, for a pager."""
        lines = [printable(line) for line in self.clean(text).split("\n")]
        if not self.colours:
            return "\n".join(lines)
        return "\n".join(paint(line, PATCH_COLORS[line[0]]) if line[:1] in PATCH_COLORS else line for line in lines)

    def quoted(self, text: str) -> str:
        """Return text of a model or tool, with a bar before each line so that none looks like ours."""
        bar = "    " if self.plain else "  │ "
        room = max(10, self.width) - len(bar)
        lines = [
            part for line in self._safe_text(text).split("\n") for part in chop_cells(line.expandtabs(4), room) or [""]
        ]
        return self.draw(Text("\n").join(Text(bar + line) for line in lines))

    def error(self, what: str, fix: str) -> str:
        """Return an error and what to do about it."""
        lines = Text.assemble(("error: " if self.plain else "✗ ", "bold red"), (self._safe_text(what), "red"))
        return self.draw(lines.append(f"\n  {self._safe_text(fix)}", "dim") if fix else lines)

    def call(self, name: str, args: Mapping[str, Any], *, mark: str = "●", style: str = "green") -> str:
        """Return a tool call in one line."""
        return self._draw_lines([self._call_line(name, args, mark, style)])

    def result(self, name: str, args: Mapping[str, Any], content: str, *, failed: bool) -> str:
        """Return a tool call and its result, one line each."""
        summary = (self._one_line(result_summary(name, content)), "red" if failed else "dim")
        if self.plain:
            head, mark = self._call_line(name, args, "failed:" if failed else "ran", ""), "  "
        else:
            head, mark = self._call_line(name, args, "●", "red" if failed else "green"), "  └ "
        return self._draw_lines([head, Text.assemble((mark, "dim"), summary)])

    def diff(self, diff: LineDiff, *, most: int = DIFF_LINES, whole: bool = False) -> str:
        """Return a diff, at most `most` lines of it; long ones end with `…`, or are shown `whole`."""
        lines, left = list(diff.lines[:most]), len(diff.lines) - most
        if left > 0:
            lines.append(DiffLine("note", 0, f"{count_of(left, 'more line')}"))
        digits = max((len(str(line.number)) for line in lines), default=1)
        counts = Text.assemble("  ", (f"+{diff.added}", "green"), " ", (f"-{diff.removed}", "red"))
        rows = (row for line in lines for row in self._diff_line(line, digits, whole=whole))
        return self._draw_lines([counts, *rows])

    def todos(self, todos: Sequence[Todo]) -> str:
        """Return the agent's todo list."""
        lines = []
        for todo in todos:
            mark, style = _MARKS[todo.status]
            priority = " !" if todo.priority == "high" and todo.status != "completed" else ""
            lines.append(Text(f"  {mark} {self._one_line(todo.content)}{priority}", style))
        return self._draw_lines(lines or [Text("  the list is empty", "dim")])

    def draw(self, what: RenderableType, *, cut: bool = False) -> str:
        """Return the renderable as text with colours and no other escape sequences, without a final newline.

        Long lines are wrapped, or with `cut` end with `…`.
        """
        console = Console(
            file=io.StringIO(),
            width=max(10, self.width),
            force_terminal=not self.plain,
            color_system=None if self.plain else "standard",
            no_color=not self.colours,
            theme=_THEME,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
            _environ={},
        )
        with console.capture() as captured:
            console.print(what, no_wrap=cut, overflow="ellipsis" if cut else None)
        # Only colours may act on the terminal: any other escape sequence from outside is made visible.
        parts = _COLORS.split(captured.get())
        shown = "".join(part if _COLORS.fullmatch(part) else printable(part) for part in parts)
        lines = _TRAILING.sub(r"\1", shown).split("\n")
        seen = [number for number, line in enumerate(lines) if _COLORS.sub("", line)]
        return "\n".join(lines[seen[0] : seen[-1] + 1]) if seen else ""

    def _draw_lines(self, lines: Sequence[Text]) -> str:
        return self.draw(Text("\n").join(lines), cut=True)

    def _one_line(self, text: str) -> str:
        # The rest would not fit into any line. Cut after the redaction, which has to see secrets whole.
        return flat(self.clean(text)[: 4 * max(1, self.width)])

    def _safe_text(self, text: str) -> str:
        return printable(self.clean(text))

    def _call_line(self, name: str, args: Mapping[str, Any], mark: str, style: str) -> Text:
        return Text.assemble(
            (f"{mark} ", style), (self._safe_text(name), "bold"), f" {self._one_line(call_summary(args))}"
        )

    def _diff_line(self, line: DiffLine, digits: int, *, whole: bool) -> Sequence[Text]:
        """Return the rows of a line of a diff; a long line has several only if it is shown whole."""
        if line.kind in {"gap", "note"}:
            return [Text(f"  {'':>{digits}} … {line.text}".rstrip(), "dim")]
        sign, style = {"added": ("+", "green"), "removed": ("-", "red")}.get(line.kind, (" ", ""))
        text = self.clean(line.text).rstrip("\r")
        shown = printable(_line_start(text) if whole else text[: 4 * max(1, self.width)]).expandtabs(4)
        head = f"  {line.number:>{digits}} "
        room = max(10, self.width) - len(head) - 2
        first, *more = (chop_cells(shown, max(2, room)) if whole else [shown]) or [""]
        rows = [Text.assemble((head, "dim"), (f"{sign} {first}", style))]
        return [*rows, *(Text(f"{' ' * len(head)}  {part}", style) for part in more)]


def _line_start(line: str) -> str:
    rest = len(line) - WHOLE_LINE
    return f"{line[:WHOLE_LINE]} … {rest:,} more characters" if rest > 0 else line


def call_summary(args: Mapping[str, Any]) -> str:
    """Return a call's arguments in one line: the most telling one, then the short ones."""
    first = next((name for name in _SUBJECTS if isinstance(args.get(name), str)), None)
    parts = [str(args[first])] if first else []
    parts += [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in args.items()
        if name not in {first, *_SHOWN_AS_DIFF} and isinstance(value, (str, int, float, bool)) and len(str(value)) <= 40
    ]
    parts += [f"{name}[{len(value)}]" for name, value in args.items() if isinstance(value, (list, tuple))]
    return "  ".join(parts)


def result_summary(name: str, content: str) -> str:
    """Return a result in one line: its first line, and the number of lines."""
    lines = content.strip("\n").split("\n")
    filled = [line for line in lines if line.strip()] or ["(nothing)"]
    first = filled[0].strip()
    if name == "shell" and first.startswith("exit") and len(filled) > 1:
        output = next((line.strip() for line in filled[1:] if not line.startswith("---")), "")
        first = f"{first}: {output}" if output else first
    return f"{first} · {len(lines)} lines" if len(lines) > 2 else first


def flat(text: str) -> str:
    """Return `text` in one line, safe to print."""
    return printable(" ⏎ ".join(text.strip().split("\n"))).expandtabs(4)


def clipped_line(text: str, width: int) -> str:
    """Return `text` in one line, safe to print, cut with `…` if it is wider than `width` columns."""
    return clip(flat(text[: 4 * width]), width) if width > 0 else ""  # the rest would not fit


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
