"""Color and marks for the terminal; without color where NO_COLOR is set or the output is no terminal."""

import os
from typing import TextIO

import click
import msgspec

from scaffold.core.printable_text import printable

STATUS_MARKS = {
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


def is_terminal(*streams: TextIO | None) -> bool:
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


def status_mark(status: str) -> str:
    """Return the coloured mark of a status."""
    sign, colour = STATUS_MARKS.get(status, ("·", "bright_black"))
    return paint(sign, colour)


def print_note(text: str) -> None:
    """Print a warning that stops nothing, on standard error."""
    click.echo(printable(f"note: {text}"), err=True)
