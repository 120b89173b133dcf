"""Checklists in Markdown: items with a tick, the lines below each, and the headings above."""

import re
from collections.abc import Callable, Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.plan import Finding
from scaffold.core.printable_text import count_of
from scaffold.plan.source.task import TextEdit
from scaffold.plan.text.parse_tree import TextPosition

TICKS = frozenset("xX✓✔✅☑")
"""The marks in the box of a done item; other marks, such as `-` for started, do not count."""
_LINE = re.compile(r"[^\n]*\n?")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]+\[(?P<tick>[xX_]|[^\w\]\n])\](?P<star>\*?)[ \t]+(?P<text>\S.*)")
_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*?)[ \t]*#*")
_FENCE = re.compile(r"[ \t]*(?:[-*+>][ \t]+)?(`{3,}|~{3,})")
_BLOCK = re.compile(r"[ \t]*(?:[-*+>][ \t]|\d+[.)][ \t]|#{1,6}[ \t]|\*\*|-{3,}|\||`{3,}|~{3,}|<)")
_BULLET = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]")


class MarkdownLine(Struct, frozen=True, gc=False):
    """A line without its ending; `start` is its offset in the text, `number` counts from 1."""

    number: int
    start: int
    text: str
    literal: bool
    """Whether it is part of a code block or an HTML comment, where nothing has a meaning."""

    @property
    def indent(self) -> int:
        """The width of the white space it begins with; tabs count to the next multiple of 4."""
        expanded = self.text.expandtabs(4)
        return len(expanded) - len(expanded.lstrip())


class Heading(Struct, frozen=True, gc=False):
    """A heading; `level` counts from 1."""

    line: MarkdownLine
    level: int
    text: str


class Item(Struct, frozen=True):
    """An item of a checklist with the lines that belong to it."""

    line: MarkdownLine
    indent: int
    ticked: bool
    starred: bool
    """Whether the box is followed by `*`."""
    text: str
    """The text after the box on its line."""
    tick_at: int
    """The offset of the character in the box."""
    body: tuple[MarkdownLine, ...]
    """The lines below it that are indented more, up to the next item of the caller's kind, without blank ends."""

    @property
    def position(self) -> TextPosition:
        """Where the bullet is."""
        return TextPosition(self.line.number, len(self.line.text) - len(self.line.text.lstrip()) + 1)

    @property
    def written(self) -> str:
        """The text and all lines below it, as they are."""
        return "\n".join((self.text, *(line.text for line in self.body)))

    @property
    def title(self) -> str:
        """The text, with the lines that continue it."""
        lines = (self.text, *(line.text for line in self.body[: self._title_lines]))
        return " ".join(" ".join(lines).split())

    @property
    def details(self) -> str:
        """The lines below the title, without their common indentation."""
        lines = self.body[self._title_lines :]
        width = min((line.indent for line in lines if line.text.strip()), default=0)
        return "\n".join(line.text.expandtabs(4)[width:].rstrip() for line in lines).strip("\n")

    @property
    def _title_lines(self) -> int:
        """How many lines continue the title: those before the first blank line, bullet or code block."""
        for count, line in enumerate(self.body):
            if not line.text.strip() or line.literal or _BULLET.match(line.text):
                return count
        return len(self.body)

    def tick(self, mark: str) -> tuple[TextEdit, ...]:
        """Return the edit that ticks the item with `mark`; empty if it is ticked."""
        return () if self.ticked else (TextEdit(self.tick_at, self.tick_at + 1, mark),)

    def untick(self) -> tuple[TextEdit, ...]:
        """Return the edit that takes the tick away; empty if there is none."""
        return (TextEdit(self.tick_at, self.tick_at + 1, " "),) if self.ticked else ()


def lines_of(text: str) -> tuple[MarkdownLine, ...]:
    """Return the lines of a text without a byte order mark."""
    lines: list[MarkdownLine] = []
    fence = ""
    in_comment = False
    for number, match in enumerate(_LINE.finditer(text), 1):
        line = match[0].rstrip("\r\n")
        literal = bool(fence) or in_comment
        mark = _FENCE.match(line)
        if fence:
            # A fence ends with one of at least its length; a shorter one is part of the block.
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip("`~ \t"):
                fence = ""
        elif mark and not in_comment:
            fence, literal = mark[1], True
        else:
            # The last of both on the line decides whether the comment goes on.
            opened, closed = line.rfind("<!--"), line.rfind("-->")
            literal = literal or line.lstrip().startswith("<!--")
            in_comment = opened > closed or (in_comment and closed < 0)
        lines.append(MarkdownLine(number, match.start(), line, literal))
    return tuple(lines)


def heading(line: MarkdownLine) -> Heading | None:
    """Return the line as a heading, None if it is not one."""
    match = None if line.literal else _HEADING.fullmatch(line.text)
    return Heading(line, len(match[1]), match[2]) if match else None


def item(line: MarkdownLine) -> Item | None:
    """Return the item that the line begins, without its body; None if it begins none."""
    match = None if line.literal else _ITEM.fullmatch(line.text)
    if match is None:
        return None
    return Item(
        line=line,
        indent=line.indent,
        ticked=match["tick"] in TICKS,
        starred=bool(match["star"]),
        text=match["text"],
        tick_at=line.start + match.start("tick"),
        body=(),
    )


def items_of(lines: Sequence[MarkdownLine], chosen: Callable[[Item], object]) -> tuple[Item, ...]:
    """Return the items for which `chosen` is true, each with the lines that belong to it."""
    starts = [(place, each) for place, line in enumerate(lines) if (each := item(line)) and chosen(each)]
    ends = (*(place for place, _ in starts[1:]), len(lines))
    bodies: list[list[MarkdownLine]] = []
    open_items: list[int] = []
    for (place, each), end in zip(starts, ends, strict=False):
        # An item ends those that are indented as much as it or more.
        open_items = [index for index in open_items if starts[index][1].indent < each.indent]
        open_items.append(len(bodies))
        bodies.append(_item_body(each, lines[place + 1 : end]))
        for line in lines[place + 1 + len(bodies[-1]) : end]:
            if line.text.strip():
                open_items = [index for index in open_items if starts[index][1].indent < line.indent]
                _resume_item(bodies, open_items, line)
    return tuple(replace(each, body=tuple(body)) for (_, each), body in zip(starts, bodies, strict=True))


def _resume_item(bodies: Sequence[list[MarkdownLine]], open_items: Sequence[int], line: MarkdownLine) -> None:
    """Add a line to the innermost item that is open, apart from what was said before the items below it."""
    if open_items:
        body = bodies[open_items[-1]]
        # A gap shows that the lines were not written together.
        if not body or body[-1].number != line.number - 1:
            body.append(MarkdownLine(line.number, line.start, "", False))
        body.append(line)


def _item_body(first: Item, following: Sequence[MarkdownLine]) -> list[MarkdownLine]:
    body: list[MarkdownLine] = []
    for line in following:
        # Lines inside a block belong to the item if the block began there.
        in_block = line.literal and body and body[-1].literal
        if line.text.strip() and line.indent <= first.indent and not in_block:
            break
        body.append(line)
    # Blank lines at the end separate the item from the next one.
    while body and not body[-1].text.strip():
        body.pop()
    return body


def balanced(text: str) -> str:
    """Return a title without the end of bold text that began before it, with the id."""
    return text.replace("**", "", 1) if text.count("**") % 2 else text


def paragraph(first: str, following: Sequence[MarkdownLine]) -> str:
    """Return a text with the lines that continue it: up to a blank line, a list, a heading or bold text."""
    continued = takewhile(
        lambda line: not line.literal and line.text.strip() and not _BLOCK.match(line.text), following
    )
    return " ".join((first.strip(), *(line.text.strip() for line in continued)))


def mostly(lines: Sequence[MarkdownLine], chosen: Callable[[Item], object]) -> bool:
    """Return whether `chosen` is true for more items than there are others that are not part of them."""
    items = items_of(lines, chosen)
    return len(items) > len(_unread_items(lines, items))


def _unread_items(lines: Sequence[MarkdownLine], read: Sequence[Item]) -> list[MarkdownLine]:
    covered = {line.number for each in read for line in (each.line, *each.body)}
    return [line for line in lines if line.number not in covered and item(line)]


def unread_items(lines: Sequence[MarkdownLine], read: Sequence[Item], example: str) -> tuple[Finding, ...]:
    """Return a warning if there are open items of a checklist that are neither in `read` nor part of one."""
    # A ticked item without an id is done, so nothing is lost with it.
    others = [line for line in _unread_items(lines, read) if (each := item(line)) and not each.ticked]
    if not others:
        return ()
    are = "is" if len(others) == 1 else "are"
    message = f"{count_of(len(others), 'item')} without an id such as `{example}` {are} not read"
    column = len(others[0].text) - len(others[0].text.lstrip()) + 1
    return (
        Finding(
            code="unread-item",
            severity="warning",
            message=message,
            fix="Give an id to each item that is a task.",
            line=others[0].number,
            column=column,
        ),
    )


def tick_mark(items: Sequence[Item], lines: Sequence[MarkdownLine]) -> str:
    """Return the mark that the document's first ticked item has; `x` if none is ticked."""
    # As its author writes it.
    ticked = next((each for each in items if each.ticked), None)
    if ticked is None:
        return "x"
    line = lines[ticked.line.number - 1]
    return line.text[ticked.tick_at - line.start]
