"""Cells below each other in columns that never touch, in a place of any width."""

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

import click
from rich.cells import cell_len

from scaffold.cli.render.terminal.text_layout import MIN_ROOM, NESTED, Layout
from scaffold.core.printable_text import printable

GAP = 2  # columns between two cells
MAX_CELL = 40
"""The widest column; where lines are limited, it takes at most a third of them."""


def table_lines(
    rows: Sequence[Sequence[str]], layout: Layout, *, least: Sequence[int] = (), right: Collection[int] = ()
) -> Iterator[str]:
    """Yield rows with their cells below each other; the last cell of a row goes on below itself. Nothing is cut.

    A row is a head, which may have colors and is as wide as those of the other rows, and its cells. `least` are the
    least widths of the columns, `right` those that are aligned at the right. What follows a cell that is wider than its
    column begins on the next line. Where too little room is left for the last column, each row is one text.
    """
    if not rows:
        return
    heads, texts = [row[0] for row in rows], [[*map(printable, row[1:])] for row in rows]
    columns = [[cell_len(text) for text in column] for column in zip(*texts, strict=True)]
    widest = [min(max(cells), MAX_CELL, layout.columns // 3) for cells in columns[:-1]]
    wide = [max(low, most) for low, most in zip([*least, *[0] * (len(widest) - len(least))], widest, strict=True)]
    starts = [*accumulate((each + GAP for each in wide), initial=cell_len(click.unstyle(heads[0])))]
    are_aligned = layout.columns - starts[-1] >= min(MIN_ROOM, max(columns[-1]))
    for head, cells in zip(heads, texts, strict=True):
        if not are_aligned:
            yield from _flowing_row(head, cells, layout)
            continue
        line = head
        for number, (text, width, start) in enumerate(zip(cells, wide, starts, strict=False)):
            space = " " * (width - cell_len(text))
            line += f"{space}{text}" if number in right else f"{text}{space}"
            if cell_len(text) > width and layout.is_limited:
                yield from layout.wrap(line[: len(line) - len(text)], text, hang=start)
                line = " " * (start + width)
            line += " " * GAP
        yield from layout.wrap(line, cells[-1], hang=starts[-1])


def _flowing_row(head: str, cells: Sequence[str], layout: Layout) -> Iterator[str]:
    """Yield the cells after `head`, each whole if it fits into a line."""
    line, hang = head, min(len(head) - len(head.lstrip()) + NESTED, layout.columns // 3)
    for number, text in enumerate(filter(None, cells)):
        gap = " " * GAP if number else ""
        if number and cell_len(click.unstyle(line)) + GAP + cell_len(text) > layout.columns:
            yield line
            line, gap = " " * hang, ""
        *whole, line = layout.wrap(f"{line}{gap}", text, hang=hang)
        yield from whole
    yield line.rstrip()
