"""Words for a terminal: marks, colours that may be left out, lines that fit, values a person can read."""

import os
import re
import textwrap
import unicodedata
from datetime import datetime, timedelta
from typing import TextIO

import click
import msgspec

from scaffold.cli.safe import printable

WIDTH = 80
"""Columns that every line for people fits into."""

MARKS = {
    "completed": ("✓", "green"),
    "holds": ("✓", "green"),
    "pass": ("✓", "green"),
    "ok": ("✓", "green"),
    "planning": ("▶", "cyan"),
    "running": ("▶", "cyan"),
    "active": ("▶", "cyan"),
    "verifying": ("?", "cyan"),
    "landing": ("↓", "cyan"),
    "failed": ("✗", "red"),
    "fail": ("✗", "red"),
    "error": ("✗", "red"),
    "timeout": ("✗", "red"),
    "vacuous": ("✗", "red"),
    "refuted": ("✗", "red"),
    "blocked": ("■", "yellow"),
    "interrupted": ("■", "yellow"),
    "stale": ("!", "yellow"),
    "warn": ("!", "yellow"),
    "skipped": ("-", "bright_black"),
    "cancelled": ("-", "bright_black"),
    "paused": ("■", "yellow"),
}
"""A mark and a colour for each status; the word always stands beside them."""

NO_BREAK = "\u00a0"
_COMMAND = re.compile("`[^`]*`")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def at_terminal(*streams: TextIO | None) -> bool:
    """Tell whether a person is at all of these streams; one that was closed before we began is None, and nobody's."""
    return all(stream is not None and stream.isatty() for stream in streams)


def print_json(value: object) -> None:
    """Print `value`, of the kinds msgspec knows, as one line of JSON; times become ISO-8601 text."""
    click.echo(msgspec.json.encode(value))


def paint(text: str, colour: str) -> str:
    """Return `text` in `colour`, or as it is where NO_COLOR is set; what is no terminal gets no colours anyway."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)


def heading(text: str) -> str:
    """Return the words above a part of the screen."""
    return text if os.environ.get("NO_COLOR") else click.style(text, bold=True)


def mark(status: str) -> str:
    """Return the coloured mark of a status."""
    sign, colour = MARKS.get(status, ("·", "bright_black"))
    return paint(sign, colour)


def clip(text: str, width: int) -> str:
    """Return the first line of `text` that has any, safe to print, cut with `…` where it is wider than `width`."""
    line = printable(text.strip().partition("\n")[0].expandtabs(2))
    if cells(line) <= width:
        return line
    kept, room = "", width - 1
    for character in line:
        room -= cells(character)
        if room < 0:
            break
        kept += character
    return f"{kept}…"


def clip_inside(text: str, width: int) -> str:
    """Return `text` as `clip` does, but with its end: what is too long loses its middle."""
    line = clip(text, cells(text) + width)
    if cells(line) <= width:
        return line
    end = ""
    while cells(line[len(line) - len(end) - 1] + end) <= width // 2:
        end = line[len(line) - len(end) - 1] + end
    return clip(line, width - cells(end)) + end


def pad(text: str, width: int) -> str:
    """Return `text` clipped or filled up to exactly `width` columns."""
    clipped = clip(text, width)
    return clipped + " " * (width - cells(clipped))


def wrapped(text: str, width: int) -> list[str]:
    """Return `text`, safe to print, as lines of at most `width` characters; `commands in backticks` stay whole."""
    glued = _COMMAND.sub(lambda command: command[0].replace(" ", NO_BREAK), printable(text))
    lines = textwrap.wrap(glued, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines]


def span(length: timedelta) -> str:
    """Return a length of time as people say it: `14 s`, `2 m 05 s`, `3 h 07 m`, from two days on `6 d 23 h`."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60:02} s"
    hours = seconds // 3600
    return f"{hours} h {seconds % 3600 // 60:02} m" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def brief_span(length: timedelta) -> str:
    """Return a length of time by its largest unit alone: `14 s`, `2 m`, `3 h`, `6 d`."""
    seconds = max(0, int(length.total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def clock_time(at: datetime) -> str:
    """Return the local time of day."""
    return f"{at.astimezone():%H:%M:%S}"


def money(cost_usd: float | None) -> str:
    """Return an amount in dollars; an unknown one says so."""
    return "cost unknown" if cost_usd is None else f"${cost_usd:.2f}"


def cells(text: str) -> int:
    """Return how many columns a terminal needs for `text`, which holds no control characters."""
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)
