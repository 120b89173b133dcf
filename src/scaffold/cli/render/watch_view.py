"""A run as it is watched: how its goals stand, and a row for each agent, as many as fit."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from scaffold.cli.render.style import heading, status_mark
from scaffold.core.states import reason_of
from scaffold.views.agent_list import AgentRow
from scaffold.views.text_format import clip, clip_middle, format_cost, format_duration, pad, short_duration
from scaffold.views.watch_frame import GoalProgress, WatchFrame

MAX_GOALS = 4
NAME_CELLS, PHASE_CELLS, AGE_CELLS, COST_CELLS = 20, 10, 8, 6
WIDE_NAME_CELLS = 36
WIDE = 120
"""Columns from which on names have more room."""
MIN_CELLS = 10
"""Columns that what an agent does has at least, however narrow the terminal."""


def frame_lines(scene: WatchFrame, width: int, height: int | None = None) -> list[str]:
    """Return the lines of a frame, none wider than `width`, at most `height` of them; what is left out is counted.

    Where room is short the goals share a line, so that as many agents as fit have one each.
    """
    title, needs_you = _title(scene, width), list(_needs_you(scene, width))
    head = [title, *_goals(scene, width), *needs_you, ""]
    rows = [_row(member, scene.at, width) for member in scene.members] or [_idle(scene, width)]
    if height is None:
        return [*head, *rows]
    if len(head) + len(rows) > height:
        head = [title, _goals_in_brief(scene, width), *needs_you]
    if len(head) >= height - 1:
        head = [head[0]]
    return [*head[: max(0, height - 1)], *_truncated(rows, width, max(1, height - len(head)))]


def agent_lines(scene: WatchFrame, width: int, height: int) -> list[str]:
    """Return the agents' rows alone, and below them how many actions are done."""
    done, total = _done(scene.goals)
    held = sum(goal.held for goal in scene.goals)
    lines = [_row(member, scene.at, width) for member in scene.members]
    below = f"{done} of {total} actions done, {held} facts, {format_cost(scene.spent.cost_usd)}"
    return [*_truncated(lines, width, max(1, height - 1)), f"  {clip(below, width - 2)}"]


def _goals_in_brief(scene: WatchFrame, width: int) -> str:
    done, total = _done(scene.goals)
    held, desired = sum(goal.held for goal in scene.goals), sum(goal.desired for goal in scene.goals)
    many = f"{len(scene.goals)} goal{'s' * (len(scene.goals) != 1)}"
    return f"  {clip(f'{many}: {held}/{desired} hold, {done}/{total} actions done', width - 2)}"


def _done(goals: Sequence[GoalProgress]) -> tuple[int, int]:
    """Return how many of the goals' actions are done, and how many there are."""
    done = sum(goal.status_counts.get("completed", 0) for goal in goals)
    return done, sum(sum(goal.status_counts.values()) for goal in goals)


def _title(scene: WatchFrame, width: int) -> str:
    limit = scene.run.settings.limits.budget_usd
    cost = format_cost(scene.spent.cost_usd) + (f" of {format_cost(limit)}" if limit is not None else "")
    age = format_duration((scene.at if scene.going_on else scene.run.updated_at) - scene.run.created_at)
    left, right = f"run {scene.run.id} {scene.status}", f"{age}, {cost}"
    room = width - len(left) - len(right) - 8
    asked = f": {clip(scene.run.request, room)}" if room > MIN_CELLS else ""
    end = f"  {right}" if room > 0 else ""
    return f"{status_mark(scene.status)} {heading(clip(left, width - 2))}{asked}{end}"


def _goals(scene: WatchFrame, width: int) -> Iterator[str]:
    for goal in scene.goals[:MAX_GOALS]:
        total, done = sum(goal.status_counts.values()), goal.status_counts.get("completed", 0)
        parts = [f"{goal.held}/{goal.desired} hold", f"{done}/{total} actions done"]
        parts += [
            f"{goal.status_counts[word]} {word}" for word in ("failed", "blocked") if goal.status_counts.get(word)
        ]
        told = f"{goal.name}: {goal.status}, {', '.join(parts)}"
        yield f"  {status_mark(goal.status)} {clip(told, width - 4)}"
    if len(scene.goals) > MAX_GOALS:
        yield f"    {clip(f'and {len(scene.goals) - MAX_GOALS} more goals: `scaffold goals`', width - 4)}"


def _needs_you(scene: WatchFrame, width: int) -> Iterator[str]:
    if scene.waiting:
        items = f"{scene.waiting} item{'s wait' if scene.waiting > 1 else ' waits'}"
        yield f"  {status_mark('blocked')} {heading(clip(f'needs you: {items}, `scaffold inbox`', width - 4))}"


def _idle(scene: WatchFrame, width: int) -> str:
    reason = reason_of(scene.run.state)
    why = f": {reason}" if reason else ""
    return f"  {clip('Nobody is at work just now.' if scene.going_on else f'{scene.status}{why}', width - 2)}"


def _row(member: AgentRow, now: datetime, width: int) -> str:
    """Return one agent's row: who, phase, what it waits for or did last, how long ago, what it cost."""
    name_cells = WIDE_NAME_CELLS if width >= WIDE else NAME_CELLS
    room = max(MIN_CELLS, width - name_cells - PHASE_CELLS - AGE_CELLS - COST_CELLS - 6)
    age = "" if member.last_activity is None and member.since is None else _ago(now, member)
    cost = f"${member.usage.cost_usd:.2f}" if member.usage.cost_usd is not None else "$?"
    name = f"{member.action}#{member.attempt}" if member.attempt is not None else member.name
    who = pad(clip_middle(name, name_cells), name_cells)
    line = f"{who} {pad(member.phase, PHASE_CELLS)} {pad(_doing(member), room)} {age:>{AGE_CELLS}}"
    sign = status_mark("blocked" if member.needs_you else "landing" if member.waits_on else "running")
    return f"{sign} {clip(f'{line} {cost:>{COST_CELLS}}', width - 2)}"


def _doing(member: AgentRow) -> str:
    """Return what an agent waits for, and what it did last."""
    act = member.last_activity.text if member.last_activity is not None else ""
    return f"waits for {member.waits_on}{f'; {act}' if act else ''}" if member.waits_on else act


def _ago(now: datetime, member: AgentRow) -> str:
    at = member.last_activity.at if member.last_activity is not None else member.since or now
    return f"{short_duration(now - at)} ago"


def _truncated(lines: Sequence[str], width: int, height: int) -> list[str]:
    if len(lines) <= height:
        return list(lines)
    kept = max(0, height - 1)
    return [*lines[:kept], f"  {clip(f'and {len(lines) - kept} more', width - 2)}"]
