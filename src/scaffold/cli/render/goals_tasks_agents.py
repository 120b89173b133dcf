"""Goals, actions and processes as text, for `goals`, `tasks`, `agents` and the REPL's slash commands."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import assert_never

from scaffold.cli.render.live.agent_rows import work_sentence
from scaffold.cli.render.terminal.style import heading, status_mark
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action, CriticScore, Evidence, Fact, Goal, Run
from scaffold.core.printable_text import printable
from scaffold.core.proof.contract import reasons_of
from scaffold.core.states import status_of
from scaffold.views.action_notes import action_note
from scaffold.views.agent_list import AgentRow, HeldBackAction
from scaffold.views.run_view import RunView, read_processes, read_run_view
from scaffold.views.state_labels import goal_reason, task_state
from scaffold.views.store_reader import StoreAccess
from scaffold.views.text_format import ago, format_cost, format_duration

INDENT = "  "
NO_PROCESSES = "No process is running."
MAX_HELD_BACK = 10
NO_PLAN = "There is no plan yet."
STATE_MARKS: Mapping[str, str] = {"done": "completed", "waiting_approval": "blocked"}
"""The status with the same mark, for agent states that are not a status."""


def goals_text(reader: StoreAccess, run: Run, layout: Layout, goal: Goal | None = None) -> str:
    """Return the goals of a run, or one, with the facts that hold, their evidence, and what is missing."""
    view = read_run_view(reader, run)
    return format_goals(view, [each for each in view.goals if goal is None or each.id == goal.id], layout)


def tasks_text(reader: StoreAccess, run: Run, layout: Layout, goal: Goal | None = None) -> str:
    """Return the actions of a run, or of one goal, as a tree."""
    view = read_run_view(reader, run)
    return format_tasks(view, [each for each in view.goals if goal is None or each.id == goal.id], layout)


def agents_text(reader: StoreAccess, run: Run, layout: Layout) -> str:
    """Return every process of a run with its state, its last activity and its cost."""
    return format_agents(read_processes(reader, run), reader.clock.now(), layout)


def format_goals(view: RunView, goals: Sequence[Goal], layout: Layout) -> str:
    """Return these goals as text."""
    return "\n\n".join("\n".join(_goal_lines(view, goal, layout)) for goal in goals) or NO_PLAN


def format_tasks(view: RunView, goals: Sequence[Goal], layout: Layout) -> str:
    """Return the trees of actions of these goals as text."""
    return "\n\n".join("\n".join(_action_tree(view, goal, layout)) for goal in goals) or NO_PLAN


def format_agents(rows: Sequence[AgentRow], now: datetime, layout: Layout) -> str:
    """Return processes as text, two lines each."""
    lines = [line for row in rows for line in _process_lines(row, now, layout)]
    return "\n".join(lines or layout.wrap("", NO_PROCESSES))


def held_back_lines(held_back: Sequence[HeldBackAction], layout: Layout) -> Iterator[str]:
    """Yield a line for each of the first actions that no agent may start now, and a count of the others."""
    for each in held_back[:MAX_HELD_BACK]:
        yield from layout.wrap(f"{status_mark('pending')} ", f"{each.key} held back: {each.why.text}")
    if len(held_back) > MAX_HELD_BACK:
        yield f"{INDENT}and {len(held_back) - MAX_HELD_BACK} more: `scaffold tasks`"


def _process_lines(row: AgentRow, now: datetime, layout: Layout) -> Iterator[str]:
    pid = "no process" if row.pid is None else f"pid {row.pid}{'' if row.alive else ', exited'}"
    text = f"{row.name} {row.state}" + (f", {row.phase}" if row.phase != row.state else "")
    yield from layout.wrap(f"{status_mark(STATE_MARKS.get(row.state, row.state))} ", f"{text}  {pid}")
    facts = [f"{format_duration(now - row.since)}"] if row.since else []
    if row.usage.requests or row.usage.tokens:
        facts += [f"{row.usage.tokens:,} tokens", format_cost(row.usage.cost_usd)]
    if row.waits_on:
        facts.append(f"waits for {row.waits_on}")
    if row.activity is not None:
        facts.append(f"{format_duration(now - row.activity.since)} {work_sentence(row.activity)}")
    elif row.last_activity is not None:
        facts.append(f"{ago(now - row.last_activity.at)}: {row.last_activity.text}")
    if facts:
        yield from layout.wrap(INDENT * 2, ", ".join(facts))


def _goal_lines(view: RunView, goal: Goal, layout: Layout) -> Iterator[str]:
    yield from _goal_title(view, goal, layout)
    if goal.description and goal.description != goal.name:
        yield from layout.prose(INDENT, goal.description)
    facts = {fact.assertion: fact for fact in view.facts[goal.id]}
    for assertion in goal.desired:
        yield from _effect_lines(assertion, facts, INDENT, layout)
    held = {fact.assertion for fact in view.facts_of(goal) if fact.state == "holds"}
    others = sorted(held.difference(goal.desired))
    for assertion in others:
        yield from _effect_lines(assertion, facts, INDENT, layout)


def _goal_title(view: RunView, goal: Goal, layout: Layout) -> list[str]:
    reason = goal_reason(goal, view.summary.at)
    state = status_of(goal.state) + (f": {reason}" if reason else "")
    *names, last = layout.wrap("", goal.name)
    return [*map(heading, names), *layout.prose(f"{heading(last)}: ", state, hang=len(INDENT))]


def _action_tree(view: RunView, goal: Goal, layout: Layout) -> Iterator[str]:
    yield from _goal_title(view, goal, layout)
    actions = view.actions_of(goal)
    if actions:
        words = Counter(task_state(action.state) for action in actions)
        yield from layout.wrap(INDENT, ", ".join(f"{number} {word}" for word, number in sorted(words.items())))
    children: dict[ActionId | None, list[Action]] = {}
    for action in actions:
        children.setdefault(action.parent_id, []).append(action)
    facts = {fact.assertion: fact for fact in view.facts[goal.id]}
    by_id = {action.id: action for action in actions}
    holding = view.holding(goal)
    stack = [(action, 1) for action in reversed(children.get(None, []))]
    while stack:
        action, depth = stack.pop()
        note = action_note(view, action, holding, by_id)
        yield from _action_lines(action, facts, note, INDENT * depth, layout)
        attempts = view.attempts_of(action)
        if attempts and (score := attempts[-1].score):
            yield f"{INDENT * (depth + 2)}critic: {format_score(score)}"
        stack += [(child, depth + 1) for child in reversed(children.get(action.id, []))]


def _action_lines(
    action: Action, facts: Mapping[Assertion, Fact], note: str, indent: str, layout: Layout
) -> Iterator[str]:
    status = status_of(action.state)
    kind = ", compound" if action.kind == "compound" else ""
    word = f", {task}" if (task := task_state(action.state)) != status else ""
    text = f"{status} {action.key} ({action.role}{kind}{word}) {note}"
    yield from layout.wrap(f"{indent}{status_mark(status)} ", text)
    for effect in action.effects:
        if (fact := facts.get(effect)) is not None and fact.only_orders:
            continue
        yield from _effect_lines(effect, facts, indent + INDENT * 2, layout)
    if action.result:
        yield from layout.wrap(indent + INDENT * 2, layout.shorten(f"result: {action.result}"))


def format_score(score: CriticScore) -> str:
    """Return a score on one line: the total, its parts, and the total required."""
    criteria = {"correctness": score.correctness, "readability": score.readability, "edge cases": score.edge_cases}
    known = ", ".join(f"{name} {given}" for name, given in criteria.items() if given is not None)
    return f"{score.total}/9{f' ({known})' if known else ''}, {score.threshold} required"


def _effect_lines(assertion: Assertion, facts: Mapping[Assertion, Fact], indent: str, layout: Layout) -> Iterator[str]:
    fact = facts.get(assertion)
    state = "missing" if fact is None else fact.state
    standing = ""
    if fact is not None and fact.strength != "proven":
        standing = f", {fact.strength}: {printable('; '.join(reasons_of(fact.doubts)))}"
    yield from layout.prose(f"{indent}{status_mark(state)} ", f"{state} {assertion}{standing}")
    for evidence in fact.evidence if fact is not None else ():
        yield from layout.wrap(indent + INDENT * 2, evidence_line(evidence))


def evidence_line(evidence: Evidence) -> str:
    """Return evidence on one line: its source, the exit code, and the short commit."""
    ended = "" if evidence.exit_code is None else f", exit {evidence.exit_code}"
    return f"{evidence_source(evidence)}{ended} at {evidence.commit[:8]}"


def evidence_source(evidence: Evidence) -> str:
    """Return the source of evidence: the command, or the kind with the first line of its detail."""
    first = evidence.detail.partition("\n")[0]
    match evidence.kind:
        case "contract" | "trivial":
            return evidence.command or evidence.kind
        case "change":
            return f"a change: {first}" if first else "a change"
        case "gate":
            return f"gate {first} ({evidence.command})"
        case "review" | "human" | "merge" | "step" | "audit":
            return f"{evidence.kind}: {first}" if first else evidence.kind
        case _:
            assert_never(evidence.kind)
