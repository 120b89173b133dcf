"""A run as it is watched: how its goals stand, and a row for each agent, as many as fit."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct, structs

from scaffold.cli.picture import GOING_ON
from scaffold.cli.reader import Readable, shown_status
from scaffold.cli.roster import Member, Roster
from scaffold.cli.screen import brief_span, clip, clip_inside, heading, mark, money, pad, span
from scaffold.core.model import Run, Usage
from scaffold.core.states import reason_of, status_of

MOST_GOALS = 4
NAME_CELLS, PHASE_CELLS, AGE_CELLS, COST_CELLS = 20, 10, 8, 6
WIDE_NAME_CELLS = 36
WIDE = 120
"""Columns from which on names have more room."""
LEAST_CELLS = 10
"""Columns that what an agent does has at least, however narrow the terminal."""


class Standing(Struct, frozen=True):
    """How one goal stands, in numbers."""

    name: str
    status: str
    held: int
    desired: int
    tally: Mapping[str, int]
    """How many of its actions have each status."""


class Scene(Struct, frozen=True, kw_only=True):
    """All that one frame shows."""

    at: datetime
    run: Run
    status: str
    spent: Usage
    waiting: int
    """How many items of the inbox wait for a human."""
    goals: tuple[Standing, ...]
    members: tuple[Member, ...]

    @property
    def going_on(self) -> bool:
        """Tell whether there will be more to see."""
        return self.status in GOING_ON

    def ageless(self) -> Any:
        """Return what two frames differ by that are worth two frames: all but the passing of time."""
        members = [(structs.replace(each, act=None), each.act and each.act.text) for each in self.members]
        return self.status, self.spent, self.waiting, self.goals, members


def look_at(reader: Readable, run: Run) -> Scene:
    """Return how the run stands now; reads no more than a frame needs, however long the run is."""
    store = reader.store
    run = store.runs.get(run.id) or run
    return Scene(
        at=reader.clock.now(),
        run=run,
        status=shown_status(run),
        spent=store.runs.spent(run.id),
        waiting=len(store.inbox.open_of_run(run.id)),
        goals=tuple(
            Standing(
                goal.name,
                status_of(goal.state),
                len(store.facts.holding(goal.id) & set(goal.desired)),
                len(goal.desired),
                store.actions.tally(goal.id),
            )
            for goal in store.goals.of_run(run.id)
        ),
        members=Roster(reader, run).agents(),
    )


def frame(scene: Scene, width: int, height: int | None = None) -> list[str]:
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
    return [*head[: max(0, height - 1)], *_fitted(rows, width, max(1, height - len(head)))]


def rows(scene: Scene, width: int, height: int) -> list[str]:
    """Return the agents' rows alone, and below them how many actions are done."""
    done, total = _done(scene.goals)
    held = sum(goal.held for goal in scene.goals)
    lines = [_row(member, scene.at, width) for member in scene.members]
    below = f"{done} of {total} actions done, {held} facts, {money(scene.spent.cost_usd)}"
    return [*_fitted(lines, width, max(1, height - 1)), f"  {clip(below, width - 2)}"]


def _goals_in_brief(scene: Scene, width: int) -> str:
    done, total = _done(scene.goals)
    held, desired = sum(goal.held for goal in scene.goals), sum(goal.desired for goal in scene.goals)
    many = f"{len(scene.goals)} goal{'s' * (len(scene.goals) != 1)}"
    return f"  {clip(f'{many}: {held}/{desired} hold, {done}/{total} actions done', width - 2)}"


def _done(goals: Sequence[Standing]) -> tuple[int, int]:
    """Return how many of the goals' actions are done, and how many there are."""
    done = sum(goal.tally.get("completed", 0) for goal in goals)
    return done, sum(sum(goal.tally.values()) for goal in goals)


def _title(scene: Scene, width: int) -> str:
    limit = scene.run.settings.budget_usd
    cost = money(scene.spent.cost_usd) + (f" of {money(limit)}" if limit is not None else "")
    age = span((scene.at if scene.going_on else scene.run.updated_at) - scene.run.created_at)
    left, right = f"run {scene.run.id} {scene.status}", f"{age}, {cost}"
    room = width - len(left) - len(right) - 8
    asked = f": {clip(scene.run.request, room)}" if room > LEAST_CELLS else ""
    end = f"  {right}" if room > 0 else ""
    return f"{mark(scene.status)} {heading(clip(left, width - 2))}{asked}{end}"


def _goals(scene: Scene, width: int) -> Iterator[str]:
    for goal in scene.goals[:MOST_GOALS]:
        total, done = sum(goal.tally.values()), goal.tally.get("completed", 0)
        parts = [f"{goal.held}/{goal.desired} hold", f"{done}/{total} actions done"]
        parts += [f"{goal.tally[word]} {word}" for word in ("failed", "blocked") if goal.tally.get(word)]
        told = f"{goal.name}: {goal.status}, {', '.join(parts)}"
        yield f"  {mark(goal.status)} {clip(told, width - 4)}"
    if len(scene.goals) > MOST_GOALS:
        yield f"    {clip(f'and {len(scene.goals) - MOST_GOALS} more goals: `scaffold goals`', width - 4)}"


def _needs_you(scene: Scene, width: int) -> Iterator[str]:
    if scene.waiting:
        items = f"{scene.waiting} item{'s wait' if scene.waiting > 1 else ' waits'}"
        yield f"  {mark('blocked')} {heading(clip(f'needs you: {items}, `scaffold inbox`', width - 4))}"


def _idle(scene: Scene, width: int) -> str:
    reason = reason_of(scene.run.state)
    why = f": {reason}" if reason else ""
    return f"  {clip('Nobody is at work just now.' if scene.going_on else f'{scene.status}{why}', width - 2)}"


def _row(member: Member, now: datetime, width: int) -> str:
    """Return one agent's row: who, phase, what it waits for or did last, how long ago, what it cost."""
    name_cells = WIDE_NAME_CELLS if width >= WIDE else NAME_CELLS
    room = max(LEAST_CELLS, width - name_cells - PHASE_CELLS - AGE_CELLS - COST_CELLS - 6)
    age = "" if member.act is None and member.since is None else _ago(now, member)
    cost = f"${member.usage.cost_usd:.2f}" if member.usage.cost_usd is not None else "$?"
    name = f"{member.action}#{member.attempt}" if member.attempt is not None else member.name
    who = pad(clip_inside(name, name_cells), name_cells)
    line = f"{who} {pad(member.phase, PHASE_CELLS)} {pad(_doing(member), room)} {age:>{AGE_CELLS}}"
    sign = mark("blocked" if member.needs_you else "landing" if member.waits_on else "running")
    return f"{sign} {clip(f'{line} {cost:>{COST_CELLS}}', width - 2)}"


def _doing(member: Member) -> str:
    """Return what an agent waits for, and what it did last."""
    act = member.act.text if member.act is not None else ""
    return f"waits for {member.waits_on}{f'; {act}' if act else ''}" if member.waits_on else act


def _ago(now: datetime, member: Member) -> str:
    at = member.act.at if member.act is not None else member.since or now
    return f"{brief_span(now - at)} ago"


def _fitted(lines: Sequence[str], width: int, height: int) -> list[str]:
    if len(lines) <= height:
        return list(lines)
    kept = max(0, height - 1)
    return [*lines[:kept], f"  {clip(f'and {len(lines) - kept} more', width - 2)}"]
