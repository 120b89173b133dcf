"""A watched run: its goals in numbers and a row for each agent, as many as fit, redrawn when they change."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import click
from msgspec import structs

from scaffold.cli.render.live.agent_rows import row_lines
from scaffold.cli.render.terminal.screen_redraw import ScreenRedraw, screen_size
from scaffold.cli.render.terminal.style import heading, status_mark
from scaffold.cli.render.terminal.text_layout import Layout, layout_for
from scaffold.core.printable_text import count_of
from scaffold.views.run_view import GoalProgress, RunSummary
from scaffold.views.text_format import clip, format_cost, format_duration, local_time

MAX_GOALS = 4
MIN_REQUEST_CELLS = 9
"""The request is left out of the title if fewer columns are left for it."""

ShowFrame = Callable[[RunSummary | None], None]
"""Shows a run; called with None at the end."""


def frame_lines(view: RunSummary, width: int, height: int | None = None) -> list[str]:
    """Return the lines of a frame, none wider than `width`, at most `height` of them; the rest is counted.

    Where room is short, one line sums up the goals, to leave room for the agents.
    """
    layout = Layout(width)
    title, told = _title_line(view, width), list(_wait_lines(view, layout))
    goals = [line for goal in view.goals[:MAX_GOALS] for line in _goal_lines(goal, layout)]
    if (more := len(view.goals) - MAX_GOALS) > 0:
        goals += layout.wrap("    ", f"and {count_of(more, 'more goal')}: `scaffold goals`")
    head = [title, *goals, *told, ""]
    room = None if height is None else height - len(head)
    rows = row_lines(view.active_agents, view.at, layout, most_lines=room) or _idle_lines(view, layout)
    if height is None:
        return [*head, *rows]
    if len(head) + len(rows) > height:
        done, total = _count_done(view.goals)
        held, desired = sum(goal.held for goal in view.goals), sum(goal.desired for goal in view.goals)
        text = f"{count_of(len(view.goals), 'goal')}: {held}/{desired} hold, {done} of {count_of(total, 'action')} done"
        head = [title, f"  {clip(text, width - 2)}", *told]
    if len(head) >= height - 1:
        head = [head[0]]
    return [*head[: max(0, height - 1)], *_truncate_lines(rows, width, max(1, height - len(head)))]


def agent_lines(view: RunSummary, width: int, height: int) -> list[str]:
    """Return the agents' rows, and below them what the run waits for and how many actions are done."""
    layout = Layout(width)
    done, total = _count_done(view.goals)
    held = sum(goal.held for goal in view.goals)
    cost = format_cost(view.spent.cost_usd)
    text = f"{done} of {count_of(total, 'action')} done, {count_of(held, 'fact')}, {cost}" if view.goals else cost
    below = [*_wait_lines(view, layout), *layout.wrap("  ", text)]
    if len(below) >= height:
        below = below[-1:]
    room = max(1, height - len(below))
    return [*_truncate_lines(row_lines(view.active_agents, view.at, layout, most_lines=room), width, room), *below]


def _count_done(goals: Sequence[GoalProgress]) -> tuple[int, int]:
    done = sum(goal.status_counts.get("completed", 0) for goal in goals)
    return done, sum(sum(goal.status_counts.values()) for goal in goals)


def _title_line(view: RunSummary, width: int) -> str:
    limits = view.budget.limits
    cost = format_cost(view.spent.cost_usd) + (f" of {format_cost(limits.usd)}" if limits.usd is not None else "")
    cost += f", {view.budget.spent.tokens / limits.tokens:.0%} of its tokens" if limits.tokens else ""
    age = format_duration((view.at if view.is_live else view.run.updated_at) - view.run.created_at)
    left, right = f"run {view.run.id} {view.status}", f"{age}, {cost}"
    room = width - len(left) - len(right) - 8
    asked = f": {clip(view.run.request, room)}" if room > MIN_REQUEST_CELLS else ""
    end = f"  {right}" if room > 0 else ""
    return f"{status_mark(view.status)} {heading(clip(left, width - 2))}{asked}{end}"


def _goal_lines(goal: GoalProgress, layout: Layout) -> list[str]:
    total, done = sum(goal.status_counts.values()), goal.status_counts.get("completed", 0)
    parts = [f"{goal.held}/{goal.desired} hold", f"{done} of {count_of(total, 'action')} done"]
    parts += [f"{goal.status_counts[word]} {word}" for word in ("failed", "blocked") if goal.status_counts.get(word)]
    text = f"{goal.name}: {goal.status}, {', '.join(parts)}"
    return layout.wrap(f"  {status_mark(goal.status)} ", text)


def _wait_lines(view: RunSummary, layout: Layout) -> Iterator[str]:
    if view.inbox:
        items = f"{count_of(len(view.inbox), 'item')} {'waits' if len(view.inbox) == 1 else 'wait'}"
        yield from layout.wrap(f"  {status_mark('blocked')} ", f"needs you: {items}, `scaffold inbox`")
    if view.waits_for:
        yield from layout.wrap(f"  {status_mark('blocked')} ", f"waits for {view.waits_for}")
    if view.ending:
        yield from layout.wrap(f"  {status_mark('paused')} ", view.ending)


def _idle_lines(view: RunSummary, layout: Layout) -> list[str]:
    why = f": {view.reason}" if view.reason else ""
    return layout.wrap("  ", "No agent is working." if view.is_live else f"{view.status}{why}")


def _truncate_lines(lines: Sequence[str], width: int, height: int) -> list[str]:
    if len(lines) <= height:
        return list(lines)
    kept = max(0, height - 1)
    return [*lines[:kept], f"  {clip(f'and {len(lines) - kept} more', width - 2)}"]


def print_changes() -> ShowFrame:
    """Return a function that prints, after the local time, a line for each change: of the run, a goal or an agent."""
    known: dict[str, Any] = {}

    def show(view: RunSummary | None) -> None:
        if view is None:
            return
        layout, now = layout_for(sys.stdout), local_time(view.at, view.at)
        beside = Layout(layout.columns - len(now) - 2) if layout.is_limited else layout
        parts = list(_frame_parts(view, beside))
        for name, state, lines in parts:
            if name not in known or known[name] != state:
                click.echo("\n".join(f"{now}  {line}" for line in lines))
        known.clear()
        known.update({name: state for name, state, _ in parts})

    return show


def _frame_parts(view: RunSummary, layout: Layout) -> Iterator[tuple[str, Any, Sequence[str]]]:
    """Yield (name, state, lines) for each part of a frame; its lines are shown again when the state changes."""
    told = list(_wait_lines(view, layout))
    yield "run", (view.status, view.spent, told), [_title_line(view, layout.columns), *told]
    for goal in view.goals:
        yield f"goal {goal.name}", goal, _goal_lines(goal, layout)
    for row in view.active_agents:
        state = (structs.replace(row, last_activity=None), row.last_activity and row.last_activity.text)
        yield f"agent {row.name}", state, row_lines([row], view.at, layout)
    if not view.active_agents:
        yield "idle", view.reason, _idle_lines(view, layout)


def redraw_frames(out: TextIO) -> ShowFrame:
    """Return a function that draws frames in place on a terminal and erases the last one."""
    screen = ScreenRedraw(out)

    def show(view: RunSummary | None) -> None:
        size = screen_size(out)
        if view is None:
            screen.erase(size)
        else:
            screen.draw(frame_lines(view, size.columns, size.rows - 1), size)

    return show
