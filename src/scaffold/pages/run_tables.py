"""The actions, the attempts and the costs of a run as tables."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action, Attempt
from scaffold.core.plan import full_text
from scaffold.core.states import status_of
from scaffold.pages.components import (
    MAX_ROWS,
    Element,
    LongTexts,
    Node,
    References,
    TableRow,
    badge,
    commit,
    element,
    section,
    table,
)
from scaffold.views.action_notes import status_reason
from scaffold.views.run_history import QUEUED, CostLine, RunCosts, RunHistory
from scaffold.views.run_view import RunView
from scaffold.views.state_labels import SUCCESSFUL_OUTCOMES, where_landed
from scaffold.views.text_format import clip, clip_middle, format_cost, format_duration, format_seconds

MAX_DEPTH = 5
"""The deepest indentation of children."""
MODEL_CELLS = 28
WORK = ("workspace", "executing", "critiquing")
LANDING = ("candidate", "landing", "recorded")
SHARE_WIDTH = 90.0


def action_table(view: RunView, refs: References, texts: LongTexts) -> Element:
    """Return all actions below each other, children after their compound."""
    by_id = {action.id: action for action in view.actions}
    holding = {goal.id: view.holding(goal) for goal in view.goals}
    rows = [
        TableRow(
            (
                _action_cell(action, depth, refs, texts),
                element("span", badge(status_of(action.state)), *_outcome_nodes(view, action, by_id)),
                _assertion_list(action.preconditions, holding[action.goal_id]),
                _assertion_list(action.effects, holding[action.goal_id]),
            ),
            refs.anchor(action.id),
        )
        for action, depth in _actions_with_depth(view.actions)[:MAX_ROWS]
    ]
    shown = table(("Action", "Status", "Needs", "Gives"), rows, label="Actions")
    if len(view.actions) <= MAX_ROWS:
        return shown
    return element("div", shown, element("p", f"and {len(view.actions) - MAX_ROWS:,} more: `{refs.command('tasks')}`"))


def _actions_with_depth(actions: Sequence[Action]) -> list[tuple[Action, int]]:
    """Return the actions with their depth in plan order, children after their parent."""
    children: dict[ActionId | None, list[Action]] = {}
    for action in actions:
        children.setdefault(action.parent_id, []).append(action)
    found: list[tuple[Action, int]] = []
    stack = [(action, 0) for action in reversed(children.get(None, []))]
    while stack:
        action, depth = stack.pop()
        found.append((action, depth))
        stack += [(child, depth + 1) for child in reversed(children.get(action.id, []))]
    return found


def _action_cell(action: Action, depth: int, refs: References, texts: LongTexts) -> Element:
    kind = f"{action.role}, compound" if action.kind == "compound" else action.role
    return element(
        "div",
        element("code", action.key),
        element("span", f" {kind}", class_="note"),
        element("p", clip(full_text(action), 600)) if action.description else None,
        texts.folded(action.result or "", "Its agent's last message", refs.command("logs", action)),
        class_=f"depth-{min(depth, MAX_DEPTH)}",
    )


def _outcome_nodes(view: RunView, action: Action, by_id: Mapping[ActionId, Action]) -> Iterator[Node]:
    attempts = view.attempts_of(action)
    done = next((each for each in attempts if each.outcome in SUCCESSFUL_OUTCOMES), None)
    if done is not None:
        known = done.head_sha is not None
        yield element("br")
        yield from (f"{done.outcome} as ", commit(done.head_sha)) if known else (where_landed(done),)
    elif reason := clip(status_reason(action, by_id), 200):
        yield from (element("br"), reason)
    if len(attempts) > 1:
        yield from (element("br"), f"{len(attempts)} attempts")


def _assertion_list(names: Sequence[Assertion], holding: frozenset[Assertion]) -> Node:
    if not names:
        return "-"
    parts: list[Node] = []
    for name in names:
        sign, words = ("✓", "holds") if name in holding else ("·", "does not hold")
        parts.append(element("li", element("span", sign, title=words, class_="sign"), " ", element("code", name)))
    return element("ul", *parts, class_="facts")


def attempt_table(view: RunView, history: RunHistory) -> Element:
    """Return all attempts with how long they took in which phases, in the order they were queued."""
    keys = {action.id: action for action in view.actions}
    attempts = sorted((each for own in view.attempts.values() for each in own), key=lambda each: each.queued_at)
    rows = [TableRow(tuple(_attempt_cells(keys[each.action_id], each, history))) for each in attempts[:MAX_ROWS]]
    heads = ("Attempt", "Outcome", "Model", "Waited", "Worked", "Checked", "Landing", "Tokens", "Cost")
    shown = table(heads, rows, label="Attempts", numbers=6)
    more = (
        f"and {len(attempts) - MAX_ROWS:,} more: `scaffold status {view.run.id} --json`"
        if len(attempts) > MAX_ROWS
        else None
    )
    title = element("summary", f"All {len(attempts)} attempts as a table")
    return element("details", title, shown, more and element("p", more))


def _attempt_cells(action: Action, attempt: Attempt, history: RunHistory) -> Iterator[Node]:
    yield element(
        "span", element("code", f"{action.key}#{attempt.number}"), element("span", f" {action.role}", class_="note")
    )
    yield attempt.outcome or attempt.phase
    model = clip_middle(attempt.model, MODEL_CELLS) if attempt.model else "-"
    yield element("code", model, title=attempt.model, class_="nowrap")
    for phases in ((QUEUED,), WORK, ("verifying",), LANDING):
        seconds = sum(history.seconds_in(attempt, phase) for phase in phases)
        yield format_duration(timedelta(seconds=seconds)) if seconds else "-"
    yield f"{attempt.usage.tokens:,}"
    yield format_cost(attempt.usage.cost_usd)


def cost_section(costs: RunCosts) -> Node:
    """Return what the run cost, split in four ways; None if no agent has run."""
    if not costs.by_model:
        return None
    times = [f"{line.name} {format_seconds(line.seconds)}" for line in costs.by_purpose if line.seconds is not None]
    note = f"Time of all agents together: {', '.join(times)}." if times else ""
    parts = [
        _cost_table("By purpose", costs.by_purpose),
        _cost_table("By goal", costs.by_goal),
        _cost_table("By role", costs.by_role),
        _cost_table("By model", costs.by_model),
    ]
    return section("cost", "Cost", *parts, note=note)


def _cost_table(title: str, lines: Sequence[CostLine]) -> Element:
    total = sum(line.usage.cost_usd or 0.0 for line in lines)
    rows = [
        TableRow(
            (
                element("span", line.name, class_="name"),
                _share_bar(line.usage.cost_usd, total),
                f"{line.agents:,}",
                f"{line.usage.requests:,}",
                f"{line.usage.input_tokens:,}",
                f"{line.usage.cached_input_tokens:,}",
                f"{line.usage.output_tokens:,}",
                format_cost(line.usage.cost_usd),
            )
        )
        for line in lines[:MAX_ROWS]
    ]
    heads = (title, "Share", "Agents", "Requests", "Tokens in", "of these cached", "Tokens out", "Cost")
    return table(heads, rows, label=f"Cost {title.lower()}", numbers=6)


def _share_bar(cost_usd: float | None, total: float) -> Node:
    if cost_usd is None or not total:
        return "-"
    share = cost_usd / total
    bar = element("rect", width=max(1.0, share * SHARE_WIDTH), height=8, rx=2, class_="share")
    svg = element("svg", bar, width=SHARE_WIDTH, height=8, aria_hidden="true")
    return element("span", svg, f" {share:.0%}", class_="nowrap")
