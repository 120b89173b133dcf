"""A watched run: its goals in numbers and a row for each agent, as many as fit, drawn again when they change."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TextIO

import click
from rich.cells import cell_len

from scaffold.cli.render.layout import UNLIMITED, layout_for
from scaffold.cli.render.style import heading, status_mark
from scaffold.core.printable_text import count_of, printable
from scaffold.views.agent_list import AgentRow
from scaffold.views.run_view import GoalProgress, RunSummary
from scaffold.views.text_format import ago, clip, clip_middle, format_cost, format_duration, pad

MAX_GOALS = 4
NAME_CELLS, PHASE_CELLS, AGE_CELLS, COST_CELLS = 20, 10, 8, 6
WIDE_NAME_CELLS, NARROW_NAME_CELLS = 36, 8
WIDE = 120
"""Terminals with at least so many columns have more room for names."""
MIN_CELLS = 9
"""The minimum number of columns for an agent's activity, even on a narrow terminal."""

UP = "\x1b[{}A"
LINE = "\r\x1b[2K"
BELOW = "\x1b[J"
CLEAR = "\x1b[2J\x1b[H"

ShowFrame = Callable[[RunSummary | None], None]
"""Shows a run; called with None at the end."""


def frame_lines(view: RunSummary, width: int, height: int | None = None) -> list[str]:
    """Return the lines of a frame, none wider than `width`, at most `height` of them; the rest is counted.

    Where room is short, one line sums up the goals, to leave room for the agents.
    """
    title, needs_you = _title(view, width), list(_needs_you(view, width))
    head = [title, *_goals(view, width), *needs_you, ""]
    rows = [_row(row, view.at, width) for row in view.active_agents] or [_idle(view, width)]
    if height is None:
        return [*head, *rows]
    if len(head) + len(rows) > height:
        head = [title, _goals_in_brief(view, width), *needs_you]
    if len(head) >= height - 1:
        head = [head[0]]
    return [*head[: max(0, height - 1)], *_truncated(rows, width, max(1, height - len(head)))]


def agent_lines(view: RunSummary, width: int, height: int) -> list[str]:
    """Return the agents' rows, and below them how many actions are done."""
    done, total = _done(view.goals)
    held = sum(goal.held for goal in view.goals)
    lines = [_row(row, view.at, width) for row in view.active_agents]
    below = f"{done} of {count_of(total, 'action')} done, {count_of(held, 'fact')}, {format_cost(view.spent.cost_usd)}"
    return [*_truncated(lines, width, max(1, height - 1)), f"  {clip(below, width - 2)}"]


def _goals_in_brief(view: RunSummary, width: int) -> str:
    done, total = _done(view.goals)
    held, desired = sum(goal.held for goal in view.goals), sum(goal.desired for goal in view.goals)
    text = f"{count_of(len(view.goals), 'goal')}: {held}/{desired} hold, {done} of {count_of(total, 'action')} done"
    return f"  {clip(text, width - 2)}"


def _done(goals: Sequence[GoalProgress]) -> tuple[int, int]:
    """Return how many of the goals' actions are done, and how many there are."""
    done = sum(goal.status_counts.get("completed", 0) for goal in goals)
    return done, sum(sum(goal.status_counts.values()) for goal in goals)


def _title(view: RunSummary, width: int) -> str:
    limit = view.run.settings.limits.budget_usd
    cost = format_cost(view.spent.cost_usd) + (f" of {format_cost(limit)}" if limit is not None else "")
    age = format_duration((view.at if view.is_live else view.run.updated_at) - view.run.created_at)
    left, right = f"run {view.run.id} {view.status}", f"{age}, {cost}"
    room = width - len(left) - len(right) - 8
    asked = f": {clip(view.run.request, room)}" if room > MIN_CELLS else ""
    end = f"  {right}" if room > 0 else ""
    return f"{status_mark(view.status)} {heading(clip(left, width - 2))}{asked}{end}"


def _goals(view: RunSummary, width: int) -> Iterator[str]:
    for goal in view.goals[:MAX_GOALS]:
        total, done = sum(goal.status_counts.values()), goal.status_counts.get("completed", 0)
        parts = [f"{goal.held}/{goal.desired} hold", f"{done} of {count_of(total, 'action')} done"]
        parts += [
            f"{goal.status_counts[word]} {word}" for word in ("failed", "blocked") if goal.status_counts.get(word)
        ]
        text = f"{goal.name}: {goal.status}, {', '.join(parts)}"
        yield f"  {status_mark(goal.status)} {clip(text, width - 4)}"
    if (more := len(view.goals) - MAX_GOALS) > 0:
        text = f"and {count_of(more, 'more goal')}: `scaffold goals`"
        yield f"    {clip(text, width - 4)}"


def _needs_you(view: RunSummary, width: int) -> Iterator[str]:
    if view.inbox:
        items = f"{count_of(len(view.inbox), 'item')} wait{'s' * (len(view.inbox) == 1)}"
        text = f"needs you: {items}, `scaffold inbox`"
        yield f"  {status_mark('blocked')} {heading(clip(text, width - 4))}"


def _idle(view: RunSummary, width: int) -> str:
    why = f": {view.reason}" if view.reason else ""
    return f"  {clip('No agent is working.' if view.is_live else f'{view.status}{why}', width - 2)}"


def _row(row: AgentRow, now: datetime, width: int) -> str:
    """Return one agent's row: name, phase, what it waits for or did last, how long ago, and the cost if it fits.

    Without a limit of the width nothing is cut, and there are no columns.
    """
    cost = format_cost(row.usage.cost_usd) if row.usage.cost_usd is not None else "$?"
    sign = status_mark("blocked" if row.needs_you else "landing" if row.waits_on else "running")
    name = f"{row.action}#{row.attempt}" if row.attempt is not None else row.name
    age = "" if row.last_activity is None and row.since is None else _ago(now, row)
    if width == UNLIMITED:
        return f"{sign} {printable('  '.join(filter(None, (name, row.phase, _doing(row), age, cost))))}"
    name_cells = WIDE_NAME_CELLS if width >= WIDE else max(NARROW_NAME_CELLS, min(NAME_CELLS, width - 40))
    room = max(MIN_CELLS, width - name_cells - PHASE_CELLS - AGE_CELLS - max(COST_CELLS, len(cost)) - 6)
    who = pad(clip_middle(name, name_cells), name_cells)
    line = f"{who} {pad(row.phase, PHASE_CELLS)} {pad(_doing(row), room)} {age:>{AGE_CELLS}}"
    with_cost = f"{line} {cost:>{COST_CELLS}}"
    return f"{sign} {clip(with_cost if cell_len(with_cost) <= width - 2 else line, width - 2)}"


def _doing(row: AgentRow) -> str:
    """Return what an agent waits for, and what it did last."""
    act = row.last_activity.text if row.last_activity is not None else ""
    return f"waits for {row.waits_on}{f'; {act}' if act else ''}" if row.waits_on else act


def _ago(now: datetime, row: AgentRow) -> str:
    at = row.last_activity.at if row.last_activity is not None else row.since or now
    return ago(now - at)


def _truncated(lines: Sequence[str], width: int, height: int) -> list[str]:
    if len(lines) <= height:
        return list(lines)
    kept = max(0, height - 1)
    return [*lines[:kept], f"  {clip(f'and {len(lines) - kept} more', width - 2)}"]


def print_frames() -> ShowFrame:
    """Return a function that prints a frame for each change, one below the other."""
    shown: list[Any] = []

    def show(view: RunSummary | None) -> None:
        if view is not None and (now := view.without_ages()) not in shown:
            shown[:] = [now]
            click.echo("\n".join([*frame_lines(view, layout_for(sys.stdout).columns), ""]))

    return show


def redraw_frames(out: TextIO) -> ShowFrame:
    """Return a function that draws frames in place on a terminal and erases the last one."""
    screen = ScreenRedraw(out)

    def show(view: RunSummary | None) -> None:
        if view is None:
            screen.erase()
            return
        size = shutil.get_terminal_size()
        screen.draw(frame_lines(view, size.columns, size.lines - 1), (size.columns, size.lines))

    return show


class ScreenRedraw:
    """Lines at the end of a terminal that are redrawn in place; the cursor stays below them.

    It sets no mode of the terminal, so a kill leaves nothing to restore.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: list[str] = []
        self._size: tuple[int, int] | None = None

    def draw(self, lines: Sequence[str], size: tuple[int, int]) -> None:
        """Show `lines`, which must fit into `size` (columns, rows) with a row to spare; write only lines that changed.

        A new size clears the screen first, because terminals differ in how they reflow lines.
        """
        if self._size is not None and size != self._size:
            self._lines = []
            self._write(CLEAR)
        self._size = size
        if self._lines == list(lines):
            return
        old = self._lines
        pieces = [UP.format(len(old))] if old else []
        for number, line in enumerate(lines):
            unchanged = number < len(old) and old[number] == line
            pieces.append("\n" if unchanged else f"{LINE}{line}\n")
        if len(lines) < len(old):
            pieces.append(BELOW)
        self._lines = list(lines)
        self._write("".join(pieces))

    def erase(self) -> None:
        """Erase the lines and move the cursor to where they began."""
        if self._lines:
            self._write(f"{UP.format(len(self._lines))}\r{BELOW}")
            self._lines = []

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
