"""Goals, actions and processes as text: what `goals`, `tasks`, `agents` and the REPL's slash commands print."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import assert_never

from rich.cells import cell_len

from scaffold.cli.render.status_text import action_note
from scaffold.cli.render.style import heading, status_mark
from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action, Attempt, CriticScore, Evidence, Fact, Goal, Run
from scaffold.core.printable_text import printable
from scaffold.core.states import status_of
from scaffold.views.agent_list import AgentRow
from scaffold.views.run_view import RunView, read_processes, read_run_view
from scaffold.views.state_labels import goal_reason, task_state
from scaffold.views.store_reader import StoreAccess
from scaffold.views.text_format import WIDTH, clip, format_cost, format_duration

INDENT = "  "
NAME_CELLS = 40
NO_PROCESSES = "No process is running."
NO_PLAN = "There is no plan yet."
STATE_MARKS: Mapping[str, str] = {
    "done": "completed",
    "waiting_approval": "blocked",
}
"""For agent states that are not a status: the status with the same mark."""


def goals_text(reader: StoreAccess, run: Run) -> str:
    """Return the goals of a run with what holds, its evidence, and what is missing."""
    return format_goals(read_run_view(reader, run))


def tasks_text(reader: StoreAccess, run: Run, goal: Goal | None = None) -> str:
    """Return the actions of a run, or of one goal, as a tree."""
    view = read_run_view(reader, run)
    return format_tasks(view, [each for each in view.goals if goal is None or each.id == goal.id])


def agents_text(reader: StoreAccess, run: Run) -> str:
    """Return every process of a run with its state, its last activity and its cost."""
    return format_agents(read_processes(reader, run), reader.clock.now())


def format_goals(view: RunView) -> str:
    """Return the goals of a view as text."""
    return "\n\n".join("\n".join(_goal(view, goal)) for goal in view.goals) or NO_PLAN


def format_tasks(view: RunView, goals: Sequence[Goal]) -> str:
    """Return the trees of actions of these goals as text."""
    return "\n\n".join("\n".join(_tree(view, goal)) for goal in goals) or NO_PLAN


def format_agents(rows: Sequence[AgentRow], now: datetime) -> str:
    """Return processes as text, two lines each."""
    return "\n".join(line for row in rows for line in _process(row, now)) or NO_PROCESSES


def _process(row: AgentRow, now: datetime) -> Iterator[str]:
    pid = "no process" if row.pid is None else f"pid {row.pid}{'' if row.alive else ', exited'}"
    text = f"{row.name} {row.state}" + (f", {row.phase}" if row.phase != row.state else "")
    yield f"{status_mark(STATE_MARKS.get(row.state, row.state))} {clip(text, WIDTH - len(pid) - 4)}  {pid}"
    facts = [f"{format_duration(now - row.since)}"] if row.since else []
    if row.usage.requests or row.usage.tokens:
        facts += [f"{row.usage.tokens:,} tokens", format_cost(row.usage.cost_usd)]
    if row.waits_on:
        facts.append(f"waits for {row.waits_on}")
    if row.last_activity is not None:
        facts.append(f"{format_duration(now - row.last_activity.at)} ago: {row.last_activity.text}")
    if facts:
        yield f"    {clip(', '.join(facts), WIDTH - 4)}"


def _goal(view: RunView, goal: Goal) -> Iterator[str]:
    yield _title(view, goal)
    if goal.description and goal.description != goal.name:
        yield f"  {clip(goal.description, WIDTH - 2)}"
    facts = {fact.assertion: fact for fact in view.facts[goal.id]}
    for assertion in goal.desired:
        yield from _effect(assertion, facts, INDENT)
    others = sorted(name for name in view.holding(goal) if name not in goal.desired)
    for assertion in others:
        yield from _effect(assertion, facts, INDENT)


def _title(view: RunView, goal: Goal) -> str:
    reason = goal_reason(goal, view.summary.at)
    state = status_of(goal.state) + (f": {reason}" if reason else "")
    name = clip(goal.name, NAME_CELLS)
    return f"{heading(name)}: {clip(state, WIDTH - cell_len(name) - 2)}"


def _tree(view: RunView, goal: Goal) -> Iterator[str]:
    yield _title(view, goal)
    actions = view.actions_of(goal)
    if actions:
        words = Counter(task_state(action.state) for action in actions)
        yield f"  {', '.join(f'{number} {word}' for word, number in sorted(words.items()))}"
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
        yield from _action(action, facts, note, INDENT * depth)
        yield from _score_line(view.attempts_of(action), INDENT * (depth + 2))
        stack += [(child, depth + 1) for child in reversed(children.get(action.id, []))]


def _action(action: Action, facts: Mapping[Assertion, Fact], note: str, indent: str) -> Iterator[str]:
    status = status_of(action.state)
    kind = ", compound" if action.kind == "compound" else ""
    word = f", {task}" if (task := task_state(action.state)) != status else ""
    text = f"{status} {action.key} ({action.role}{kind}{word}) {note}"
    yield f"{indent}{status_mark(status)} {clip(text, WIDTH - len(indent) - 2)}"
    for effect in action.effects:
        yield from _effect(effect, facts, indent + INDENT * 2)
    if action.result:
        yield f"{indent}{INDENT * 2}{clip(f'result: {action.result}', WIDTH - len(indent) - 4)}"


def _score_line(attempts: Sequence[Attempt], indent: str) -> Iterator[str]:
    """Yield the critic's score of the latest attempt, if it has one."""
    if attempts and (score := attempts[-1].score):
        yield f"{indent}critic: {format_score(score)}"


def format_score(score: CriticScore) -> str:
    """Return a score on one line: the total, its parts, and the total required."""
    criteria = {"correctness": score.correctness, "readability": score.readability, "edge cases": score.edge_cases}
    known = ", ".join(f"{name} {given}" for name, given in criteria.items() if given is not None)
    return f"{score.total}/9{f' ({known})' if known else ''}, {score.threshold} required"


def _effect(assertion: Assertion, facts: Mapping[Assertion, Fact], indent: str) -> Iterator[str]:
    """Yield an assertion with its state, and below it a line for each piece of evidence."""
    fact = facts.get(assertion)
    state = "missing" if fact is None else fact.state
    standing = "" if fact is None or fact.strength == "proven" else f", {fact.strength}: {_doubts_text(fact)}"
    yield f"{indent}{status_mark(state)} {clip(f'{state} {assertion}{standing}', WIDTH - len(indent) - 2)}"
    for evidence in fact.evidence if fact is not None else ():
        yield f"{indent}{INDENT * 2}{evidence_line(evidence, WIDTH - len(indent) - 4)}"


def _doubts_text(fact: Fact) -> str:
    return printable("; ".join(doubt.text for doubt in fact.doubts))


def evidence_line(evidence: Evidence, width: int) -> str:
    """Return evidence on one line: its source, the exit code, and the short commit."""
    ended = "" if evidence.exit_code is None else f", exit {evidence.exit_code}"
    end = f"{ended} at {evidence.commit[:8]}"
    return f"{clip(evidence_source(evidence), width - len(end))}{end}"


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
        case "review" | "human":
            return f"{evidence.kind}: {first}" if first else evidence.kind
        case _:
            assert_never(evidence.kind)
