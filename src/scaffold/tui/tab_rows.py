"""The rows of each tab, in the words that every interface uses, fitted to a width."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action
from scaffold.core.printable_text import count_of, printable
from scaffold.core.states import status_of
from scaffold.tui.row_list import NO_CURSOR, Row
from scaffold.tui.run_feed import Shown
from scaffold.views.action_notes import action_note, conflict_notes, place_note
from scaffold.views.agent_list import AgentRow
from scaffold.views.lookalikes import mark_lookalikes
from scaffold.views.run_view import RunSummary, RunView
from scaffold.views.state_labels import STATUS_MARKS, goal_reason, where_landed
from scaffold.views.text_format import (
    ago,
    clip_middle,
    format_cost,
    format_duration,
    pad,
    short_duration,
    wrapped_lines,
)
from scaffold.views.waiting import WaitingEntry

STATE_CELLS, TIME_CELLS, TOKEN_CELLS, COST_CELLS = 18, 5, 7, 7
MIN_DOING_CELLS = 12
MIN_NAME_CELLS, MAX_NAME_CELLS = 8, 32
KIND_CELLS = 11
NARROW = 60
"""Columns below which a tab leaves out what is shown elsewhere."""
MAX_INDENT_SHARE = 4
AGENT_MARKS: Mapping[str, str] = {"done": "completed", "waiting_approval": "blocked", "pending": "paused"}
"""The status with the same mark, for agent states that are not a status."""
LANDED_SHOWN = 20
MAX_PROVIDERS = 3


def agents_rows(shown: Shown, width: int) -> Sequence[Row]:
    """Return the grid of agents: state, task, minutes, tokens; then cost and activity, where there is room."""
    if shown.view is None:
        return ()
    summary = shown.view.summary
    rows = [*summary.active_agents, *(row for row in summary.agents if not row.active)]
    if not rows:
        why = f": {summary.reason}" if summary.reason else ""
        return [Row(key="empty", text=f"No agent is working; the run is {summary.status}{why}.")]
    name_cells = max([MIN_NAME_CELLS, *(len(printable(row.label)) for row in rows)])
    state_cells = STATE_CELLS if width >= NARROW else 10
    fixed = len(NO_CURSOR) + state_cells + TIME_CELLS + TOKEN_CELLS + 3
    name_cells = min(name_cells, MAX_NAME_CELLS, max(MIN_NAME_CELLS, width - fixed))
    rest = width - fixed - name_cells - COST_CELLS - 2
    return [_agent_row(row, summary, state_cells, name_cells, rest) for row in rows]


def _agent_row(row: AgentRow, summary: RunSummary, state_cells: int, name_cells: int, rest: int) -> Row:
    mark, color = status_sign(AGENT_MARKS.get(row.state, row.state))
    since = "" if row.since is None else short_duration(summary.at - row.since)
    state = "waits for you" if row.needs_you else row.state
    text = (
        f"{pad(f'{mark} {state}', state_cells)} {pad(clip_middle(row.label, name_cells), name_cells)} "
        f"{since:>{TIME_CELLS}} {_count_tokens(row.usage.counted_tokens):>{TOKEN_CELLS}}"
    )
    if rest >= MIN_DOING_CELLS:
        cost = format_cost(row.usage.cost_usd) if row.usage.cost_usd is not None else "$?"
        text += f" {cost:>{COST_CELLS}} {pad(row.doing or row.phase, rest)}"
    return Row(key=row.name, text=text, color=color if row.active else "bright_black", about=row)


def plan_rows(shown: Shown, width: int) -> Sequence[Row]:
    """Return the goals, and below each its actions as a tree."""
    return [] if shown.view is None else [*_plan_rows(shown.view, width)]


def _plan_rows(view: RunView, width: int) -> Iterator[Row]:
    numbers = {goal.name: goal for goal in view.summary.goals}
    for goal in view.goals:
        mark, color = status_sign(status_of(goal.state))
        progress, reason = numbers[goal.name], goal_reason(goal, view.summary.at)
        held = f"{progress.held}/{progress.desired} hold"
        text = f"{mark} {goal.name}: {status_of(goal.state)}, {held}{f', {reason}' if reason else ''}"
        yield Row(key=goal.id, text=text, color=color, about=goal)
        holding, own = view.holding(goal), view.actions_of(goal)
        by_id = {action.id: action for action in own}
        for action, depth in plan_order(own):
            mark, color = status_sign(status_of(action.state))
            indent = min(2 * (depth + 1), width // MAX_INDENT_SHARE)
            note = action_note(view, action, holding, by_id)
            why = missing_providers(view, action, holding)
            told = " ".join(filter(None, (note and f": {note}", why and f"({why})")))
            yield Row(
                key=action.id,
                text=f"{' ' * indent}{mark} {action.key} {status_of(action.state)}{told}",
                color=color,
                about=action,
            )


def plan_order(actions: Sequence[Action]) -> Iterator[tuple[Action, int]]:
    """Yield a goal's actions with their depths: each below its compound, else below the last of its providers."""
    providers = _providers_of(actions)
    above = {action.id: _find_parent(action, providers) for action in actions}
    below: dict[ActionId | None, list[Action]] = {}
    for action in actions:
        below.setdefault(above[action.id] if above[action.id] in above else None, []).append(action)
    shown = set[ActionId]()
    # Actions that provide for each other stand below nothing: they are reached last.
    for root in (*below.get(None, ()), *actions):
        rest = [(root, 0)]
        while rest:
            action, depth = rest.pop()
            if action.id not in shown:
                shown.add(action.id)
                yield action, depth
                rest += [(each, depth + 1) for each in reversed(below.get(action.id, ()))]


def missing_providers(view: RunView, action: Action, holding: frozenset[Assertion]) -> str:
    """Return who provides what a pending action lacks, with their states: `store is running`; empty if nothing."""
    if status_of(action.state) != "pending":
        return ""
    providers = _providers_of([each for each in view.actions if each.goal_id == action.goal_id])
    lacking = [name for name in action.preconditions if name not in holding]
    told = dict.fromkeys(
        f"{provider.key} is {status_of(provider.state)}" if (provider := providers.get(name)) else f"{name}: nobody yet"
        for name in lacking
    )
    more = f" and {len(told) - MAX_PROVIDERS} more" if len(told) > MAX_PROVIDERS else ""
    return ", ".join([*told][:MAX_PROVIDERS]) + more


def _providers_of(actions: Sequence[Action]) -> Mapping[Assertion, Action]:
    # The children of a compound repeat its effects: the compound comes first and stands for them.
    return {effect: action for action in reversed(actions) for effect in action.effects}


def _find_parent(action: Action, providers: Mapping[Assertion, Action]) -> ActionId | None:
    if action.parent_id is not None:
        return action.parent_id
    found = [providers[name] for name in action.preconditions if name in providers]
    return next((each.id for each in reversed(found) if each.id != action.id), None)


def landing_rows(shown: Shown, _width: int) -> Sequence[Row]:
    """Return the candidates in landing order with their conflicts, the checks that run, what landed last."""
    return [] if shown.view is None else [*_landing_rows(shown.view)]


def _landing_rows(view: RunView) -> Iterator[Row]:
    actions = {action.id: action for action in view.actions}
    for number, attempt in enumerate(view.queue, start=1):
        action, place = actions[attempt.action_id], view.places.get(attempt.id)
        handed_in = ago(view.summary.at - action.updated_at)
        step = f", {place_note(place)}" if place else ""
        mark, color = status_sign("blocked" if place and place.state == "approval" else "landing")
        text = f"{number:>2} {mark} {action.key}#{attempt.number} handed in {handed_in}{step}"
        yield Row(key=action.id, text=text, color=color, about=action)
        for conflict in conflict_notes(place) if place else ():
            yield Row(key=f"{attempt.id} {conflict}", text=f"     ! {conflict}", color="yellow", about=action)
    for row in view.summary.agents:
        if row.activity is not None:
            since = format_duration(view.summary.at - row.activity.since)
            yield Row(key=f"step {row.name}", text=f"   ▶ {row.label}: {row.doing}, {since}", color="cyan", about=row)
    if not view.queue:
        yield Row(key="empty", text="Nothing waits to land.")
    landed = [(attempts[-1], actions[key]) for key, attempts in view.attempts.items() if attempts[-1].ended_at]
    newest = sorted(landed, key=lambda each: each[0].ended_at or view.summary.at, reverse=True)
    for attempt, action in newest[:LANDED_SHOWN]:
        outcome = attempt.outcome or "ended"
        mark, color = status_sign("completed" if outcome in {"landed", "recorded"} else "failed")
        age = ago(view.summary.at - (attempt.ended_at or view.summary.at))
        what = where_landed(attempt) if outcome == "landed" else outcome.replace("_", " ")
        text = f"   {mark} {action.key}#{attempt.number} {what}, {age}"
        yield Row(key=f"ended {action.id}", text=text, color=color, about=action)


def inbox_rows(shown: Shown, width: int) -> Sequence[Row]:
    """Return what waits for the user, oldest first."""
    now = shown.view.summary.at if shown.view else None
    return [_waiting_row(entry, now or entry.since, width) for entry in shown.waiting]


def _waiting_row(entry: WaitingEntry, now: datetime, width: int) -> Row:
    words = mark_lookalikes(printable(entry.line))
    age = f"{entry.age(now):>10} " if width >= NARROW else f"{short_duration(now - entry.since):>4} "
    text = f"{age}{pad(entry.kind, KIND_CELLS)} {words}"
    return Row(key=entry.id, text=text, color="yellow", about=entry)


def stats_rows(shown: Shown, width: int) -> Sequence[Row]:
    """Return the run in numbers: tier and confidence, duration, tokens and cost against their limits, proof."""
    if shown.view is None:
        return ()
    lines: list[tuple[str, str]] = [*_stats_pairs(shown.view)]
    cells = max(len(name) for name, _ in lines)
    rows: list[Row] = []
    for name, text in lines:
        for number, line in enumerate(wrapped_lines(text, width - cells - 6) or [""]):
            rows.append(Row(key=f"{name} {number}", text=f"{pad(name if number == 0 else '', cells)}  {line}"))
    return rows


def _stats_pairs(view: RunView) -> Iterator[tuple[str, str]]:
    run, summary = view.run, view.summary
    choice, budget = run.settings.choice, summary.budget
    end = summary.at if summary.is_live else run.updated_at
    yield "run", f"{run.id}: {summary.status}{f', {summary.reason}' if summary.reason else ''}"
    yield "request", run.request
    yield "tier", f"{run.settings.tier.name} (confidence {choice.confidence:.0%}), {count_of(run.agents, 'agent')}"
    yield "duration", format_duration(end - run.created_at)
    spent, limits = budget.spent, budget.limits
    of_tokens = f" of {limits.tokens:,}" if limits.tokens else ", no limit"
    yield "tokens", f"{spent.tokens:,}{of_tokens}"
    of_usd = f" of {format_cost(limits.usd)}" if limits.usd is not None else ", no limit"
    yield "cost", f"{format_cost(summary.spent.cost_usd)}{of_usd} (confidence {budget.confidence:.0%})"
    if budget.share is not None:
        yield "used", f"{_share_bar(budget.share)} {budget.share:.0%}"
    done = sum(status_of(action.state) == "completed" for action in view.actions)
    yield "actions", f"{done} of {len(view.actions)} done"
    facts = [fact for goal in view.goals for fact in view.facts_of(goal) if fact.state == "holds"]
    weak = sum(fact.strength == "weak" for fact in facts)
    yield "facts", f"{len(facts)} hold{f', {weak} of them weak' if weak else ''}"
    yield "branch", f"{run.session_branch}, from {run.base_branch or run.base_sha[:8]}"


def _share_bar(share: float, cells: int = 20) -> str:
    full = round(min(1.0, share) * cells)
    return f"[{'#' * full}{'.' * (cells - full)}]"


def head_line(shown: Shown, width: int) -> str:
    """Return the run in one line: status, progress, cost, what waits, its request."""
    if shown.view is None:
        return "no run yet: press r, or type :run TASK"
    view, summary = shown.view, shown.view.summary
    mark, _ = status_sign(summary.status)
    done = sum(status_of(action.state) == "completed" for action in view.actions)
    limit = summary.budget.limits.usd
    cost = format_cost(summary.spent.cost_usd) + (f" of {format_cost(limit)}" if limit is not None else "")
    status = summary.ending or summary.status
    parts = [f"{mark} {view.run.id} {status}", f"{done}/{len(view.actions)} done", cost]
    parts += [f"{len(shown.waiting)} {'waits' if len(shown.waiting) == 1 else 'wait'} for you"] if shown.waiting else []
    parts += [f"waits for {summary.waits_for}"] if summary.waits_for else []
    if width >= NARROW:
        parts.append(view.run.request)
    return " · ".join(printable(part) for part in parts)


def entries_about(shown: Shown, action: Action) -> Sequence[WaitingEntry]:
    """Return what the user has to decide for an action."""
    return [each for each in shown.waiting if action.key in each.asks and each.run == action.run_id]


def status_sign(status: str) -> tuple[str, str]:
    """Return the mark of a status and its color."""
    return STATUS_MARKS.get(status, ("·", "bright_black"))


def _count_tokens(tokens: int) -> str:
    if tokens < 1_000:
        return str(tokens)
    return f"{tokens / 1_000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"
