"""A line for each agent of a run, fitted to the width: its name, its activity with its time, and its cost."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct, structs
from rich.cells import cell_len

from scaffold.cli.render.terminal.style import status_mark
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.model import CurrentActivity
from scaffold.core.printable_text import printable
from scaffold.views.agent_list import MERGE_QUEUE, ORCHESTRATOR, AgentRow
from scaffold.views.text_format import ago, clip, clip_middle, format_cost, format_duration, format_seconds, pad
from scaffold.views.text_format import short_duration as short

MIN_NAME_CELLS, MAX_NAME_CELLS = 8, 36
NAME_SHARE = 3
"""Names take at most a third of the width."""
PHASE_CELLS = 10
MIN_CELLS = 9
"""The fewest columns for an agent's activity; its cost and its times are shortened before."""
MARK_CELLS = 2
NARROW_CELLS = 60
"""On a narrower terminal an agent has two lines if there is room, so that its activity can be read."""
SECOND = timedelta(seconds=1)
LANDING = "landing"

FormatTime = Callable[[AgentRow, datetime], str]


class _Columns(Struct, frozen=True):
    """The widths of all rows' columns, and the format of their times."""

    name: int
    phase: int
    doing: int
    time: int
    cost: int
    """0 for no costs."""
    show_time: FormatTime


def row_lines(rows: Sequence[AgentRow], now: datetime, layout: Layout, *, most_lines: int | None = None) -> list[str]:
    """Return a line for each row, or two on a narrow terminal if that makes at most `most_lines`, None for any number.

    Without a limit of the width nothing is cut, and there are no columns.
    """
    if not layout.is_limited:
        parts = ((r.label, _phase_label(r), r.doing, _time_in_full(r, now), _cost_text(r)) for r in rows)
        texts = (printable("  ".join(filter(None, each))) for each in parts)
        return [f"{_row_mark(row)} {text}" for row, text in zip(rows, texts, strict=True)]
    if layout.columns < NARROW_CELLS and (most_lines is None or 2 * len(rows) <= most_lines):
        return [line for row in rows for line in _two_lines(row, now, layout)]
    columns = _fit_columns(rows, now, layout.columns)
    lines = []
    for row in rows:
        who = pad(clip_middle(row.label, columns.name), columns.name)
        doing = pad(layout.cut(row.doing, layout.columns - columns.doing), columns.doing)
        line = f"{who} {pad(_phase_label(row), columns.phase)} {doing} {columns.show_time(row, now):>{columns.time}}"
        cost = f" {_cost_text(row):>{columns.cost}}" if columns.cost else ""
        lines.append(f"{_row_mark(row)} {clip(f'{line}{cost}', layout.columns - MARK_CELLS)}")
    return lines


def _two_lines(row: AgentRow, now: datetime, layout: Layout) -> Sequence[str]:
    name, width, full = row.label, layout.columns - MARK_CELLS - 1, _time_in_full(row, now)
    ends = (f"{full} {_cost_text(row)}".rstrip(), full, _time_text(row, now, short, with_last=False))
    end = next((each for each in ends if cell_len(printable(name)) + len(each) <= width), ends[-1])
    first = pad(clip_middle(name, width - len(end)), width - len(end))
    return f"{_row_mark(row)} {first} {end}", f"  {layout.cut(f'{_phase_label(row)} {row.doing}', MARK_CELLS)}"


def row_subject(row: AgentRow) -> str:
    """Return the subject of a sentence about a row: the agent, what lands, or for the owner the stage of the run."""
    if row.role == ORCHESTRATOR:
        return row.phase
    return f"{LANDING} {row.label}" if _phase_label(row) == LANDING else row.label


def _fit_columns(rows: Sequence[AgentRow], now: datetime, width: int) -> _Columns:
    # Where room is short, costs go first, then seconds, then the last duration; then names are cut.
    most = max(MIN_NAME_CELLS, min(MAX_NAME_CELLS, width // NAME_SHARE))
    name = min(most, max((cell_len(printable(row.label)) for row in rows), default=0))
    phase = min(PHASE_CELLS, max((cell_len(printable(_phase_label(row))) for row in rows), default=0))
    cost = max((len(_cost_text(row)) for row in rows), default=0)
    choices = []
    in_brief = partial(_time_text, show=short)
    alone = partial(_time_text, show=short, with_last=False)
    formats: Sequence[tuple[FormatTime, int]] = (
        *((_time_in_full, cost), (_time_in_full, 0)),
        *((in_brief, 0), (alone, 0)),
    )
    for show_time, cost_cells in formats:
        time = max((len(show_time(row, now)) for row in rows), default=0)
        used = MARK_CELLS + name + phase + time + 3 + (cost_cells + 1 if cost_cells else 0)
        choices.append(_Columns(name, phase, width - used, time, cost_cells, show_time))
    fitting = next((each for each in choices if each.doing >= MIN_CELLS), choices[-1])
    lacking = max(0, MIN_CELLS - fitting.doing)
    fewer = min(name, max(MIN_NAME_CELLS, name - lacking))
    return structs.replace(fitting, name=fewer, doing=max(MIN_CELLS, fitting.doing))


def _row_mark(row: AgentRow) -> str:
    return status_mark("blocked" if row.needs_you else "landing" if row.waits_on == MERGE_QUEUE else "running")


def _phase_label(row: AgentRow) -> str:
    return LANDING if row.activity is not None and row.waits_on == MERGE_QUEUE else row.phase


def _cost_text(row: AgentRow) -> str:
    if row.role == ORCHESTRATOR:
        return ""
    return format_cost(row.usage.cost_usd) if row.usage.cost_usd is not None else "$?"


def _time_in_full(row: AgentRow, now: datetime) -> str:
    return _time_text(row, now, format_duration)


def _time_text(row: AgentRow, now: datetime, show: Callable[[timedelta], str], *, with_last: bool = True) -> str:
    """Return how long the current step or planning turn has taken; for other agents, the age of the last activity."""
    if row.activity is not None:
        last = timedelta(seconds=row.activity.last_s) if with_last and row.activity.last_s is not None else None
        told = "" if last is None else f", last {show(last) if last >= SECOND else '<1 s'}"
        return show(now - row.activity.since) + told
    if row.last_activity is not None and row.attempt is not None:
        return ago(now - row.last_activity.at)
    return show(now - row.since) if row.since is not None else ""


def work_sentence(step: CurrentActivity) -> str:
    """Return a step as words for a sentence, e.g. "check `pytest -q` (last 42 s)"."""
    command = f" `{step.work.command}`" if step.work.command else ""
    last = "" if step.last_s is None else f" (last {format_seconds(step.last_s)})"
    return f"{step.work.label}{command}{last}"
