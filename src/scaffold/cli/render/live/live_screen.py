"""The live screen of `run` and `attach`: a line for each event, and below them a row for each agent."""

import sys
from contextlib import ExitStack
from typing import Protocol, TextIO

from scaffold.cli.render.live.event_lines import (
    EventSink,
    TextEventLines,
    change_sentence,
    event_sentence,
    sentence_lines,
    work_lines,
)
from scaffold.cli.render.live.watch_view import agent_lines
from scaffold.cli.render.terminal.screen_redraw import ScreenRedraw, lines_above, screen_size
from scaffold.cli.render.terminal.style import can_draw_on, paint
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.config.settings import load_settings
from scaffold.core.events import StoredEvent
from scaffold.core.model import Run
from scaffold.run.context import RunContext
from scaffold.views.run_view import read_summary, read_work
from scaffold.views.text_format import local_time

NARROW = 60
"""A terminal with fewer columns, such as a phone's, has no room for a row for each agent."""
STYLES = {
    "landed": "green",
    "fact": "green",
    "failed": "red",
    "blocked": "red",
    "ended": "yellow",
    "warning": "yellow",
    "waits": "yellow",
}


class LiveScreen:
    """Draws on a terminal; reads the store only from the caller's thread.

    What this process prints meanwhile appears above the rows, as events do.
    """

    def __init__(self, context: RunContext, run: Run, out: TextIO, *, redraw_s: float) -> None:
        self._context = context
        self._run = run
        self._out = out
        self._redraw_s = redraw_s
        self._screen = ScreenRedraw(self._out)
        self._view = read_summary(context, run)
        self._size = screen_size(self._out)
        self._due = 0.0
        self._redirected = ExitStack()
        self.resume()

    def show(self, recorded: StoredEvent) -> None:
        """Print the event above the rows, unless only machines need it."""
        now, sentence = self._context.clock.now(), event_sentence(recorded.event)
        if sentence is not None:
            lines = list(sentence_lines(sentence, recorded.at, now, Layout(screen_size(self._out).columns)))
            start = len(local_time(recorded.at, now)) + 2
            color = STYLES.get(lines[0][start:].split(" ", 1)[0])
            if color is not None:
                lines = [lines[0][:start] + paint(lines[0][start:], color), *(paint(line, color) for line in lines[1:])]
            self._print_above("".join(f"{line}\n" for line in lines))

    def tick(self) -> None:
        """Draw the rows again: after `redraw_s` seconds, and at once if the terminal has another size."""
        now, size = self._context.clock.monotonic(), screen_size(self._out)
        if now >= self._due:
            self._due = now + self._redraw_s
            self._view = read_summary(self._context, self._run)
        elif size == self._size:
            return
        self._size = size
        self._screen.draw(agent_lines(self._view, size.columns, max(2, size.rows - 1)), size)

    def pause(self) -> None:
        """Erase the rows until `resume`; the lines stay."""
        self._redirected.close()
        self._screen.erase(screen_size(self._out))

    def resume(self) -> None:
        """Draw rows again from the next tick on."""
        self._redirected.enter_context(lines_above(self._print_above))
        self._due = 0.0

    def close(self) -> None:
        """Erase the rows; the lines stay."""
        self.pause()

    def _print_above(self, text: str) -> None:
        self._screen.print_above(text, screen_size(self._out))


class RunScreen(EventSink, Protocol):
    """Shows a run to people, and makes room for a question."""

    def pause(self) -> None:
        """Draw nothing until `resume`; what is printed stays."""
        ...

    def resume(self) -> None:
        """Draw again from the next tick on."""
        ...


def run_screen(context: RunContext, run: Run, *, quiet: bool = False, err: bool = False) -> RunScreen:
    """Return the display of a run: a live screen on a terminal, else lines of text.

    With `quiet`, and on a narrow terminal, lines about the four kinds of changes alone. Text goes to standard error
    with `err`.
    """
    out = sys.stderr if err else sys.stdout
    draws = can_draw_on(out)
    if quiet or (draws and screen_size(out).columns < NARROW):
        return TextEventLines(context.clock, err=err, say=change_sentence)
    if draws:
        settings = load_settings(context.repository.root, context.environ, {})
        return LiveScreen(context, run, out, redraw_s=settings.number("refresh"))
    return TextEventLines(context.clock, err=err, work=lambda: work_lines(*read_work(context, run)))
