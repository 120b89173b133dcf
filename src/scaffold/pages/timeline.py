"""When which agent worked: a lane for each action, or for each slot of the run if there are many, with the phases.

A run may have paused for days, so the time scale shortens long times without work.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec import Struct

from scaffold.pages.components import Element, Node, References, element, mark_of, scrolling
from scaffold.views.agent_list import MERGE_QUEUE, PLANNER, SUPERVISOR
from scaffold.views.run_history import QUEUED, PhaseSpan, RunHistory
from scaffold.views.run_view import RunView
from scaffold.views.text_format import clip, format_duration, short_duration

MAX_LANES = 60
"""With more actions, there is a lane for each slot instead."""
MAX_BARS = 3_000
LEFT, RIGHT, WIDTH = 190.0, 30.0, 1060.0
LANE, BAR, TOP = 26.0, 16.0, 26.0
LABEL_CELLS = 23
KEY_WIDTH = 6.6
"""The width of a column of text within a bar."""
PLANS = "planning"
PHASES = {
    PLANS: "plans",
    QUEUED: "waits for a slot",
    "workspace": "gets a workspace",
    "executing": "works",
    "verifying": "is checked",
    "critiquing": "is reviewed",
    "candidate": "waits to land",
    "landing": "lands",
}
"""The words for a phase; `recorded` is only the moment of landing."""
LANDING_PHASES = frozenset({"candidate", "landing", "recorded"})
STATUS_BY_OUTCOME = {"landed": "completed", "recorded": "completed", "done": "completed", "waiting": "paused"}
"""The status with the same sign, for outcomes other than failures."""
QUIET_SHARE = 0.06
"""A quiet time is shortened if it is longer than this share of the times with work."""
SHORTEST_QUIET = timedelta(seconds=15)
QUIET_WIDTH = 46.0
"""The width of a shortened time, unless there are many."""
TICK_EVERY = 110.0
TICK_WIDTH = 64.0
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800)
Period = tuple[datetime, datetime]


class Bar(Struct, frozen=True, kw_only=True):
    """One attempt or turn, or a part of it."""

    name: str
    label: str
    """The text inside the bar; empty if the lane has its name."""
    outcome: str
    """Empty while it runs."""
    spans: tuple[PhaseSpan, ...]
    anchor: str | None


class TimelineRow(Struct, frozen=True):
    """Bars one after another."""

    name: str
    bars: tuple[Bar, ...]


class TimeScale:
    """Places moments from left to right; long quiet times are shortened."""

    def __init__(self, work: Sequence[Period], width: float) -> None:
        """`work` has at least one period; `width` is that of the whole drawing."""
        busy = _merge_periods(work, timedelta())
        longest = sum((end - start for start, end in busy), timedelta()) * QUIET_SHARE
        self._busy = _merge_periods(busy, max(longest, SHORTEST_QUIET))
        self.quiet: list[Period] = [(before[1], after[0]) for before, after in pairwise(self._busy)]
        """The shortened times."""
        seconds = sum((end - start).total_seconds() for start, end in self._busy) or 1.0
        self.quiet_width = min(QUIET_WIDTH, width / 2 / max(1, len(self.quiet)))
        self._per_s = (width - self.quiet_width * len(self.quiet)) / seconds

    def at(self, moment: datetime) -> float:
        """Return the distance of a moment from the left."""
        x = 0.0
        for start, end in self._busy:
            if moment <= start:
                return x
            x += (min(moment, end) - start).total_seconds() * self._per_s
            if moment <= end:
                return x
            x += self.quiet_width
        return x - self.quiet_width

    def ticks(self) -> Iterator[datetime]:
        """Yield round local times within the times of work, so far apart that each can be labelled."""
        step = next((step for step in STEPS_S if step * self._per_s >= TICK_EVERY), STEPS_S[-1])
        last = -TICK_WIDTH
        for start, end in self._busy:
            local = start.astimezone()
            offset = (local.utcoffset() or timedelta()).total_seconds()
            second = -(-(local.timestamp() + offset) // step) * step - offset
            while second <= end.timestamp():
                tick = local + timedelta(seconds=second - local.timestamp())
                if self.at(tick) - last >= TICK_WIDTH:
                    last = self.at(tick)
                    yield tick
                second += step


def timeline(view: RunView, history: RunHistory, refs: References) -> Node:
    """Return the picture of a run's agents over time; None if no agent has started."""
    lanes = [lane for lane in (*_planning_lanes(view, history), *_work_lanes(view, history, refs)) if lane.bars]
    periods = [(bar.spans[0].start, bar.spans[-1].end) for lane in lanes for bar in lane.bars]
    if not periods:
        return None
    scale = TimeScale(periods, WIDTH - LEFT - RIGHT)
    height = TOP + LANE * len(lanes) + 6
    drawn = [_lane_element(lane, scale, TOP + LANE * number) for number, lane in enumerate(lanes)]
    svg = element(
        "svg",
        *_axis_elements(scale, height),
        *drawn,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        width=WIDTH,
        height=height,
    )
    label = "Timeline of the agents. The table of attempts below has the same in words."
    bars = sum(len(lane.bars) for lane in lanes)
    more = f" The first {MAX_BARS:,} attempts are drawn." if bars >= MAX_BARS else ""
    lanes_are = "slot, failed attempts underlined" if _is_crowded(view) else "action"
    hint = f"A lane for each {lanes_are}; rest the pointer on a bar for details.{more}"
    picture = element("div", svg, role="group", aria_label=label)
    found = {span.phase for lane in lanes for bar in lane.bars for span in bar.spans}
    entries = []
    for phase, words in PHASES.items():
        if phase in found:
            color = element("rect", width=12, height=12, rx=2, class_=f"phase-{phase}")
            entries.append(element("li", element("svg", color, width=12, height=12, aria_hidden="true"), " ", words))
    return element(
        "figure", element("ul", *entries, class_="legend"), scrolling(picture, "Timeline"), element("figcaption", hint)
    )


def _is_crowded(view: RunView) -> bool:
    return len(view.attempts) > MAX_LANES


def _planning_lanes(view: RunView, history: RunHistory) -> Iterator[TimelineRow]:
    goals = {goal.id: goal.name for goal in view.goals}
    keys = {action.id: action.key for action in view.actions}
    now = view.summary.at if view.summary.is_live else view.last_change
    by_goal: dict[str, list[Bar]] = {}
    for turn in history.turns:
        about = keys.get(turn.action_id, "") if turn.action_id else ""
        name = PLANNER if turn.goal_id is None else f"{SUPERVISOR} {goals.get(turn.goal_id, '')}"
        # A clock may have been set back while the turn was open.
        span = PhaseSpan(PLANS, turn.started_at, max(turn.ended_at or now, turn.started_at))
        told = f"{name}: {turn.event} {about}".strip()
        bar = Bar(name=told, label="", outcome=turn.outcome or "", spans=(span,), anchor=None)
        by_goal.setdefault(name, []).append(bar)
    yield from (TimelineRow(name, tuple(bars)) for name, bars in by_goal.items())


def _work_lanes(view: RunView, history: RunHistory, refs: References) -> Iterator[TimelineRow]:
    by_action = [
        TimelineRow(
            action.key,
            tuple(
                Bar(
                    name=f"{action.key}, attempt {attempt.number}, {action.role}",
                    label=action.key if _is_crowded(view) else "",
                    outcome=attempt.outcome or "",
                    spans=spans,
                    anchor=refs.anchor(action.id),
                )
                for attempt in view.attempts_of(action)
                if (spans := history.spans[attempt.id])
            ),
        )
        for action in view.actions
    ]
    lanes = sorted((lane for lane in by_action if lane.bars), key=lambda lane: lane.bars[0].spans[0].start)
    if not _is_crowded(view):
        yield from lanes
        return
    bars = sorted((bar for lane in lanes for bar in lane.bars), key=lambda bar: bar.spans[0].start)[:MAX_BARS]
    yield from _slot_lanes(bars)


def _slot_lanes(bars: Sequence[Bar]) -> Iterator[TimelineRow]:
    """Yield a lane for each slot, as each attempt takes the first free one; then the lanes of the merge queue."""
    slots: list[list[Bar]] = []
    landings: list[Bar] = []
    for bar in bars:
        work = tuple(span for span in bar.spans if span.phase not in LANDING_PHASES)
        lands = tuple(span for span in bar.spans if span.phase == "landing")
        if lands:
            landings.append(_bar_segment(bar, lands))
        if work:
            free = next((slot for slot in slots if slot[-1].spans[-1].end <= work[0].start), None)
            if free is None:
                slots.append(free := [])
            free.append(_bar_segment(bar, work))
    yield from (TimelineRow(f"slot {number}", tuple(slot)) for number, slot in enumerate(slots, 1))
    yield TimelineRow(MERGE_QUEUE, tuple(landings))


def _bar_segment(bar: Bar, spans: tuple[PhaseSpan, ...]) -> Bar:
    return Bar(name=bar.name, label=bar.label, outcome=bar.outcome, spans=spans, anchor=bar.anchor)


def _axis_elements(scale: TimeScale, height: float) -> Iterator[Element]:
    for tick in scale.ticks():
        x = LEFT + scale.at(tick)
        yield element("line", x1=x, x2=x, y1=TOP - 6, y2=height, class_="grid")
        yield element("text", f"{tick:%H:%M:%S}", x=x, y=TOP - 11, class_="tick", text_anchor="middle")
    for start, end in scale.quiet:
        x = LEFT + scale.at(start)
        words = element("title", f"Nothing happened for {format_duration(end - start)}.")
        yield element("rect", words, x=x, y=TOP - 6, width=scale.quiet_width, height=height - TOP + 6, class_="quiet")
        if scale.quiet_width == QUIET_WIDTH:
            label, middle = short_duration(end - start), x + QUIET_WIDTH / 2
            yield element("text", label, x=middle, y=height - 8, class_="tick", text_anchor="middle")


def _lane_element(lane: TimelineRow, scale: TimeScale, y: float) -> Element:
    name = element("text", clip(lane.name, LABEL_CELLS), x=0, y=y + BAR - 3, class_="lane")
    bars = [_bar_element(bar, scale, y) for bar in lane.bars]
    # After all bars: the next attempt often begins where the one before it failed.
    return element("g", element("title", lane.name), name, *bars, *_end_signs(lane, scale, y))


def _end_signs(lane: TimelineRow, scale: TimeScale, y: float) -> Iterator[Element]:
    # Where bars stand close, signs would overlap: a line below a bar says that it failed.
    for bar in lane.bars:
        status = STATUS_BY_OUTCOME.get(bar.outcome, "failed")
        right = LEFT + scale.at(bar.spans[-1].end)
        if bar.outcome and not bar.label:
            yield element("text", mark_of(status), x=right + 2, y=y + BAR - 3, class_=f"end {status}")
        elif bar.outcome and status == "failed":
            left = LEFT + scale.at(bar.spans[0].start)
            yield element("rect", x=left, y=y + BAR + 1, width=max(right - left, 1.5), height=3, class_="failed")


def _bar_element(bar: Bar, scale: TimeScale, y: float) -> Element:
    start, end = bar.spans[0].start, bar.spans[-1].end
    left, right = LEFT + scale.at(start), LEFT + scale.at(end)
    longest = max(bar.spans, key=lambda span: span.end - span.start)
    words = [f"{bar.name}: {bar.outcome or 'goes on'}, {format_duration(end - start)}"]
    rects = []
    for span in bar.spans:
        x = LEFT + scale.at(span.start)
        width = LEFT + scale.at(span.end) - x
        words.append(f"{PHASES.get(span.phase, span.phase)} {format_duration(span.end - span.start)}")
        # Parts too narrow to see are left out, but each attempt keeps its longest.
        if width >= 0.5 or span is longest:
            rects.append(element("rect", x=x, y=y, width=max(width, 1.5), height=BAR, class_=f"phase-{span.phase}"))
    room = int((right - left - 6) / KEY_WIDTH)
    label = bar.label if room >= 3 else ""
    children: list[Node] = [element("title", "\n".join(words)), *rects]
    if label:
        children.append(element("text", clip(label, room), x=left + 3, y=y + BAR - 4, class_="in-bar"))
    return element("a", *children, href=f"#{bar.anchor}", tabindex="-1") if bar.anchor else element("g", *children)


def _merge_periods(periods: Sequence[Period], apart: timedelta) -> list[Period]:
    """Return the periods in order; those that overlap, or are at most `apart` from each other, are merged."""
    merged: list[Period] = []
    for start, end in sorted(periods):
        if merged and start - merged[-1][1] <= apart:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged
