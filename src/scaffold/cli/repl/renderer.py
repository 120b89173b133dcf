"""Drawing: everything a talk shows, as lines of text with colours; whatever came from elsewhere is made safe here."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text
from rich.theme import Theme

from scaffold.cli.repl.line_diff import DiffLine, LineDiff
from scaffold.cli.repl.markdown import markdown
from scaffold.core.printable_text import printable
from scaffold.core.todo import Todo

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
"""Arguments that tell best what a call is about."""
DIFF_LINES = 40
"""Lines of a diff that are shown of a change that was made."""
_SHOWN_AS_DIFF = ("content", "expected")
"""Arguments that a diff tells better."""


class Renderer(Struct, frozen=True, kw_only=True):
    """How to draw: `colours` is off where NO_COLOR is set, `plain` is a terminal that knows no escapes at all."""

    width: int
    colours: bool = True
    plain: bool = False
    light: bool = False
    """Whether the background is bright."""

    def markdown(self, text: str) -> str:
        """Return a reply's words, or a part of them."""
        return self.draw(markdown(printable(text), code_theme="ansi_light" if self.light else "ansi_dark"))

    def thinking(self, text: str) -> str:
        """Return thoughts."""
        return self.draw(Padding(Text(printable(text), "dim italic"), (0, 0, 0, 2)))

    def said(self, text: str) -> str:
        """Return what the user said."""
        first, *more = printable(text).split("\n")
        lines = [Text.assemble(("› ", "bold cyan"), (first, "bold")), *(Text(f"  {line}", "bold") for line in more)]
        return self.draw(Text("\n").join(lines))

    def words(self, text: str, style: str = "") -> str:
        """Return plain text."""
        return self.draw(Text(printable(text), style))

    def trouble(self, what: str, fix: str) -> str:
        """Return what went wrong, and what to do about it."""
        lines = Text.assemble(("✗ ", "bold red"), (printable(what), "red"))
        return self.draw(lines.append(f"\n  {printable(fix)}", "dim") if fix else lines)

    def call(self, name: str, args: Mapping[str, Any], *, mark: str = "●", style: str = "green") -> str:
        """Return a tool call in one line."""
        return self.draw(self._call(name, args, mark, style))

    def result(self, name: str, args: Mapping[str, Any], content: str, *, failed: bool) -> str:
        """Return a tool call in one line, and what came of it below."""
        head = self._call(name, args, "●", "red" if failed else "green")
        told = Text("  └ ", "dim").append(
            one_line(result_summary(name, content), self.width - 4), "red" if failed else "dim"
        )
        return self.draw(Text("\n").join([head, told]))

    def patch(self, patch: LineDiff, *, most: int = DIFF_LINES) -> str:
        """Return a diff, at most so many lines of it."""
        lines, left = patch.lines[:most], len(patch.lines) - most
        digits = max((len(str(line.number)) for line in lines), default=1)
        counted = Text.assemble("  ", (f"+{patch.added}", "green"), " ", (f"-{patch.removed}", "red"))
        more = [self._line(DiffLine("note", 0, f"{left:,} more lines"), digits)] if left > 0 else []
        return self.draw(Text("\n").join([counted, *(self._line(line, digits) for line in lines), *more]))

    def todos(self, todos: Sequence[Todo]) -> str:
        """Return the agent's list."""
        lines = []
        for todo in todos:
            mark, style = _MARKS[todo.status]
            weight = " !" if todo.priority == "high" and todo.status != "completed" else ""
            lines.append(Text(one_line(f"  {mark} {todo.content}{weight}", self.width), style))
        return self.draw(Text("\n").join(lines or [Text("  the list is empty", "dim")]))

    def draw(self, what: RenderableType) -> str:
        """Return it as text with colours and nothing else a terminal could obey, without a line end at the end."""
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
            console.print(what)
        lines = _TRAILING.sub(r"\1", _only_colours(captured.get())).split("\n")
        seen = [number for number, line in enumerate(lines) if _COLORS.sub("", line)]
        return "\n".join(lines[seen[0] : seen[-1] + 1]) if seen else ""

    def _call(self, name: str, args: Mapping[str, Any], mark: str, style: str) -> Text:
        head = Text.assemble((f"{mark} ", style), (printable(name), "bold"))
        room = self.width - head.cell_len - 1
        return head.append(f" {one_line(call_summary(args), room)}") if room > 4 else head

    def _line(self, line: DiffLine, digits: int) -> Text:
        if line.kind in {"gap", "note"}:
            return Text(f"  {'':>{digits}} … {line.text}".rstrip(), "dim")
        sign, style = {"added": ("+", "green"), "removed": ("-", "red")}.get(line.kind, (" ", ""))
        number = f"  {line.number:>{digits}} "
        text = one_line(f"{sign} {line.text}", self.width - len(number), strip=False)
        return Text.assemble((number, "dim"), (text, style))


def call_summary(args: Mapping[str, Any]) -> str:
    """Return what a call is about in one line: its most telling argument, then the short ones."""
    first = next((name for name in _SUBJECTS if isinstance(args.get(name), str)), None)
    told = [str(args[first])] if first else []
    told += [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in args.items()
        if name not in {first, *_SHOWN_AS_DIFF} and isinstance(value, (str, int, float, bool)) and len(str(value)) <= 40
    ]
    counted = [f"{name}[{len(value)}]" for name, value in args.items() if isinstance(value, (list, tuple))]
    return "  ".join(told + counted)


def result_summary(name: str, content: str) -> str:
    """Return what came of a call in one line: its first line, and how many there are."""
    lines = content.strip("\n").split("\n")
    telling = [line for line in lines if line.strip()] or ["(nothing)"]
    first = telling[0].strip()
    if name == "shell" and first.startswith("exit") and len(telling) > 1:
        output = next((line.strip() for line in telling[1:] if not line.startswith("---")), "")
        first = f"{first}: {output}" if output else first
    return f"{first} · {len(lines)} lines" if len(lines) > 2 else first


def one_line(text: str, width: int, *, strip: bool = True) -> str:
    """Return `text` in one line, safe to print, with `…` where it is wider than `width` columns."""
    text = text[: 4 * max(1, width)]  # what is beyond is never seen
    flat = printable(" ⏎ ".join(text.strip().split("\n")) if strip else text.rstrip("\r\n")).expandtabs(4)
    if cell_len(flat) <= width:
        return flat
    return set_cell_size(flat, max(0, width - 1)).rstrip() + "…"


def _only_colours(text: str) -> str:
    """Return `text` with every escape shown that is no colour."""
    return "".join(part if _COLORS.fullmatch(part) else printable(part) for part in _COLORS.split(text))
