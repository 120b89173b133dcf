"""Lay out text: as wide as the terminal, without a limit in a pipe or a file."""

import os
import sys
from collections.abc import Mapping
from typing import TextIO

import click
from msgspec import Struct
from rich.cells import cell_len

from scaffold.core.printable_text import printable
from scaffold.views.text_format import TAB_CELLS, brief, wrap_text

UNLIMITED = sys.maxsize
MIN_COLUMNS = 20
"""In a narrower terminal, the terminal wraps the lines."""
ASSUMED_COLUMNS = 80
"""The width of a terminal of unknown width, and of drawings in a pipe or a file."""
PROSE_COLUMNS = 100
"""Sentences are hard to read in longer lines."""
MIN_ROOM = 16
"""With less room beside the head of a text, its further lines are indented by NESTED columns only."""
NESTED = 4


class Layout(Struct, frozen=True):
    """The width of the place that text goes to."""

    columns: int = UNLIMITED

    @property
    def is_limited(self) -> bool:
        """Return whether lines are limited: True for terminals."""
        return self.columns < UNLIMITED

    @property
    def drawing_columns(self) -> int:
        """Return the default width of a drawing."""
        return self.columns if self.is_limited else ASSUMED_COLUMNS

    def cut(self, text: str, used: int = 0) -> str:
        """Return the first line of `text`, cut with `…` to the columns that `used` ones leave, and a count of the rest.

        For a line that is redrawn in place; without a limit it is whole.
        """
        return brief(text, max(1, self.columns - used))

    def shorten(self, text: str) -> str:
        """Return the first line of what another command shows in full, and a count of the rest.

        It is cut to PROSE_COLUMNS where there is a limit, however narrow the place: `wrap` folds it.
        """
        return brief(text, PROSE_COLUMNS if self.is_limited else UNLIMITED)

    def wrap(self, head: str, text: str, *, hang: int | None = None) -> list[str]:
        """Return all of `text`, safe to print, in lines that fit.

        The first one follows `head`, which may have colors; the others are indented by `hang` columns, or as far as
        `head` is wide. Each line of `text` begins on a line of its own and keeps its indentation.
        """
        return self._wrap_lines(head, text, hang, self.columns)

    def prose(self, head: str, text: str, *, hang: int | None = None) -> list[str]:
        """Return sentences as `wrap` does, in lines of at most PROSE_COLUMNS where there is a limit."""
        return self._wrap_lines(head, text, hang, min(self.columns, PROSE_COLUMNS) if self.is_limited else UNLIMITED)

    def _wrap_lines(self, head: str, text: str, hang: int | None, columns: int) -> list[str]:
        plain = click.unstyle(head)
        used = cell_len(plain)
        if hang is None:
            hang = used if columns - used >= MIN_ROOM else min(_indent_width(plain) + NESTED, columns // 3)
        lines: list[str] = []
        for number, line in enumerate(printable(text).strip("\n").split("\n")):
            start = " " * hang if number else head
            lines += self._fold_line(start, used if number == 0 else hang, line.rstrip(), hang, columns)
        return lines

    def _fold_line(self, start: str, used: int, line: str, hang: int, columns: int) -> list[str]:
        """Return the rows of one line after `start`, which is `used` columns wide; each keeps the indentation."""
        if not self.is_limited:
            return [f"{start}{line}".rstrip()]
        line = line.expandtabs(TAB_CELLS)
        own = " " * min(_indent_width(line), columns // 3)
        room = max(1, columns - hang - len(own))
        first, *rest = wrap_text(line, room, first=columns - used - len(own), break_words=True)
        return [f"{start}{own}{first}".rstrip(), *(f"{' ' * hang}{own}{each}" for each in rest)]


def _indent_width(line: str) -> int:
    return len(line) - len(line.lstrip())


def layout_for(stream: TextIO | None, environ: Mapping[str, str] = os.environ) -> Layout:
    """Return the current layout of a stream: COLUMNS, else the terminal's width; without a terminal, no limit."""
    if stream is None or not stream.isatty():
        return Layout()
    told = environ.get("COLUMNS", "")
    columns = int(told) if told.isdecimal() else 0
    return Layout(max(MIN_COLUMNS, columns or _terminal_columns(stream) or ASSUMED_COLUMNS))


def print_text(text: str, *, err: bool = False) -> None:
    """Print sentences in lines that fit the terminal, with their indentation; `err` prints on standard error."""
    start = "\n" * (len(text) - len(text.lstrip("\n")))
    lines = layout_for(sys.stderr if err else sys.stdout).prose("", text, hang=0)
    click.echo(start + "\n".join(lines), err=err)


def confirm(question: str, *, default: bool = False) -> bool:
    """Return the user's yes or no to a question on standard error, in lines that fit the terminal."""
    # The last line leaves room for the answers.
    layout = Layout(layout_for(sys.stderr).columns - len(" [y/N]: "))
    return click.confirm("\n".join(layout.prose("", question, hang=0)), default, err=True)


def _terminal_columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # a stand-in for a terminal
        return 0
