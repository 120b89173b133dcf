"""Words for a terminal: marks, colours that may be left out, lines that fit, values a person can read."""

import re
import textwrap
import unicodedata
from datetime import datetime, timedelta

from scaffold.core.printable_text import printable

WIDTH = 80
"""Columns that every line for people fits into."""


NO_BREAK = "\u00a0"
_COMMAND = re.compile("`[^`]*`")


def clip(text: str, width: int) -> str:
    """Return the first line of `text` that has any, safe to print, cut with `…` where it is wider than `width`."""
    line = printable(text.strip().partition("\n")[0].expandtabs(2))
    if display_width(line) <= width:
        return line
    kept, room = "", width - 1
    for character in line:
        room -= display_width(character)
        if room < 0:
            break
        kept += character
    return f"{kept}…"


def clip_middle(text: str, width: int) -> str:
    """Return `text` as `clip` does, but with its end: what is too long loses its middle."""
    line = clip(text, display_width(text) + width)
    if display_width(line) <= width:
        return line
    end = ""
    while display_width(line[len(line) - len(end) - 1] + end) <= width // 2:
        end = line[len(line) - len(end) - 1] + end
    return clip(line, width - display_width(end)) + end


def pad(text: str, width: int) -> str:
    """Return `text` clipped or filled up to exactly `width` columns."""
    clipped = clip(text, width)
    return clipped + " " * (width - display_width(clipped))


def wrap_text(text: str, width: int) -> list[str]:
    """Return `text`, safe to print, as lines of at most `width` characters; `commands in backticks` stay whole."""
    glued = _COMMAND.sub(lambda command: command[0].replace(" ", NO_BREAK), printable(text))
    lines = textwrap.wrap(glued, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines]


def format_duration(length: timedelta) -> str:
    """Return a length of time as people say it: `14 s`, `2 m 05 s`, `3 h 07 m`, from two days on `6 d 23 h`."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60:02} s"
    hours = seconds // 3600
    return f"{hours} h {seconds % 3600 // 60:02} m" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def short_duration(length: timedelta) -> str:
    """Return a length of time by its largest unit alone: `14 s`, `2 m`, `3 h`, `6 d`."""
    seconds = max(0, int(length.total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def clock_time(at: datetime) -> str:
    """Return the local time of day."""
    return f"{at.astimezone():%H:%M:%S}"


def format_cost(cost_usd: float | None) -> str:
    """Return an amount in dollars; an unknown one says so."""
    return "cost unknown" if cost_usd is None else f"${cost_usd:.2f}"


def display_width(text: str) -> int:
    """Return how many columns a terminal needs for `text`, which holds no control characters."""
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)
