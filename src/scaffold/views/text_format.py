"""Plain text for people: lines that fit into a terminal's columns, and values such as durations and costs."""

import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rich.cells import cell_len, chop_cells, set_cell_size, split_text

from scaffold.core.model import Usage
from scaffold.core.printable_text import count_of, format_usd, printable

TAB_CELLS = 2
"""Columns of a tab, which has no width itself: lines could not be cut at a column."""
BAR, CONTINUED_BAR = "    │ ", "    ┆ "
"""Before each row of an agent's words, so that none looks like ours; the second one where a line goes on."""

_WORD = re.compile(r"(\s*)((?:`[^`\n]*`|\S)+)")
"""A word, or a command in backticks with what adjoins it; before it the space that separates it."""
_PART = re.compile(r"(\s*)(\S+)")


def clip(text: str, width: int) -> str:
    """Return the first line of `text` that is not blank, safe to print, cut with `…` to at most `width` columns."""
    line = printable(text.strip().partition("\n")[0].expandtabs(TAB_CELLS))
    if cell_len(line) <= width:
        return line
    return f"{chop_cells(line, width - 1)[0]}…" if width > 1 else "…"


def clip_middle(text: str, width: int) -> str:
    """Return the line as `clip` does, but keep its end: a line that is too wide loses its middle."""
    line = clip(text, sys.maxsize)
    cells = cell_len(line)
    if cells <= width:
        return line
    end = split_text(line, cells - width // 2)[1].lstrip()
    return clip(line, width - cell_len(end)) + end


def brief(text: str, width: int) -> str:
    """Return the line as `clip` does, with the number of lines after it, in at most `width` columns."""
    more = text.strip().count("\n")
    rest = f" (+{count_of(more, 'line')})" if more else ""
    return f"{clip(text, max(1, width - len(rest)))}{rest}"


def waiting_text(seconds: float) -> str:
    """Return the notice that a request is sent again after `seconds`; of 0 there is a reason, and no wait."""
    return f"waiting {seconds:.0f} s" if seconds else "note"


def pad(text: str, width: int) -> str:
    """Return `text` clipped or filled to exactly `width` columns."""
    return set_cell_size(clip(text, width), width)


def fill(text: str, width: int) -> str:
    """Return `text`, safe to print, filled to `width` columns if it has fewer."""
    shown = printable(text)
    return f"{shown}{' ' * (width - cell_len(shown))}"


def wrap_text(text: str, width: int, *, first: int | None = None, break_words: bool = False) -> list[str]:
    """Return `text`, safe to print, in lines of at most `width` columns; the first one of at most `first`.

    It is broken at spaces, which stay as they are elsewhere; a line break is a space. Words and `commands in backticks`
    stay whole, even if they are wider, unless `break_words`. The first line is empty if nothing fits into it.
    """
    lines = [] if first is None else [""]
    for gap, word in _line_pieces(printable(text).strip(), width, break_words=break_words):
        room = width if first is None or len(lines) > 1 else first
        joined = f"{lines[-1]}{gap}{word}" if lines and lines[-1] else word
        if lines and cell_len(joined) <= room:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _line_pieces(text: str, width: int, *, break_words: bool) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a line, each with the space before it; with `break_words` none is too wide."""
    for gap, word in _WORD.findall(" ".join(text.splitlines())):
        if not break_words or cell_len(word) <= width:
            yield gap, word
            continue
        for space, part in _PART.findall(f"{gap}{word}"):
            begin, *rest = chop_cells(part, max(1, width))
            yield space, begin
            yield from (("", each) for each in rest)


def two_columns(rows: Sequence[tuple[str, str]], width: int, *, indent: str = "  ") -> Iterator[str]:
    """Yield rows of two columns; the second goes below the first on a narrow screen or after a long name."""
    first = max((len(name) for name, _ in rows), default=0)
    if first + 24 > width:
        for name, text in rows:
            yield f"{indent}{name}"
            yield from wrapped_lines(text, width, indent=f"{indent}    ")
        return
    for name, text in rows:
        head, *more = wrapped_lines(text, width - first - len(indent) - 2) or [""]
        yield f"{indent}{name:<{first}}  {head}".rstrip()
        yield from (f"{indent}{'':<{first}}  {line}" for line in more)


def wrapped_lines(text: str, width: int, *, indent: str = "") -> list[str]:
    """Return the lines of a text, each indented."""
    return [indent + line for line in wrap_text(text, max(20, width - len(indent)))]


def format_duration(length: timedelta) -> str:
    """Return a duration in its two largest units: `14 s`, `2 m 05 s`, `3 h 07 m`; from two days on `6 d 23 h`."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60:02} s"
    hours = seconds // 3600
    return f"{hours} h {seconds % 3600 // 60:02} m" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def format_seconds(seconds: float) -> str:
    """Return a number of seconds as `format_duration` shows it."""
    return format_duration(timedelta(seconds=seconds))


def short_duration(length: timedelta) -> str:
    """Return a duration in its largest unit alone: `14 s`, `2 m`, `3 h`, `6 d`."""
    seconds = max(0, int(length.total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def ago(length: timedelta) -> str:
    """Return how long ago something was, in the largest unit alone: `3 m ago`."""
    return f"{short_duration(length)} ago"


def local_time(at: datetime, now: datetime) -> str:
    """Return a moment in local time: `12:03:04` today, `Nov 24 12:03:04` this year, else `2025-11-24 12:03:04`."""
    here, today = at.astimezone(), now.astimezone()
    if here.date() == today.date():
        return f"{here:%H:%M:%S}"
    return f"{here:%b %d %H:%M:%S}" if here.year == today.year else f"{here:%Y-%m-%d %H:%M:%S}"


def format_cost(cost_usd: float | None) -> str:
    """Return an amount in dollars, or `cost unknown` for None.

    Always two decimals, unlike `format_usd`: the costs of a run's agents are shown below each other.
    """
    return "cost unknown" if cost_usd is None else f"${cost_usd:.2f}"


def format_usage(usage: Usage) -> str:
    """Return tokens and money in one line."""
    share = f" ({usage.cached_input_tokens / usage.input_tokens:.0%} cached)" if usage.cached_input_tokens else ""
    cost = "cost unknown" if usage.cost_usd is None else format_usd(usage.cost_usd)
    requests = count_of(usage.requests, "request")
    return f"{cost}, {usage.input_tokens:,} tokens in{share}, {usage.output_tokens:,} out, {requests}"
