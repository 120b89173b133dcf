"""Goals, actions and agents as text: what `goals`, `tasks` and `agents` print, and the slash commands of the REPL."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import assert_never

from rich.cells import cell_len

from scaffold.cli.render.status_text import action_note
from scaffold.cli.render.style import heading, status_mark
from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action, Attempt, CriticScore, Evidence, Fact, Goal, Run
from scaffold.core.states import reason_of, status_of
from scaffold.views.agent_list import AgentList, AgentRow
from scaffold.views.run_view import RunView, read_run_view
from scaffold.views.state_labels import task_state
from scaffold.views.store_reader import StoreAccess
from scaffold.views.text_format import WIDTH, clip, format_cost, format_duration

INDENT = "  "
NAME_CELLS = 40
NO_PROCESSES = "Nobody is at work."
NO_PLAN = "There is no plan yet."
STATE_MARKS: Mapping[str, str] = {
    "done": "completed",
    "waiting_approval": "blocked",
}
"""The status whose mark an agent's state has that is no status itself."""


def goals_text(reader: StoreAccess, run: Run) -> str:
    """Return the goals of a run with what holds, what shows it, and what is missing."""
    return format_goals(read_run_view(reader, run))


def tasks_text(reader: StoreAccess, run: Run, goal: Goal | None = None) -> str:
    """Return the actions of a run, or of one goal, as a tree."""
    picture = read_run_view(reader, run)
    return format_tasks(picture, [each for each in picture.goals if goal is None or each.id == goal.id])


def agents_text(reader: StoreAccess, run: Run) -> str:
    """Return every process of a run: what it is about, how it does, what it did last, what it cost."""
    return format_agents(AgentList(reader, run).processes(), reader.clock.now())


def format_goals(picture: RunView) -> str:
    """Return the goals of a picture as text."""
    return "\n\n".join("\n".join(_goal(picture, goal)) for goal in picture.goals) or NO_PLAN


def format_tasks(picture: RunView, goals: Sequence[Goal]) -> str:
    """Return these goals' trees of actions as text."""
    return "\n\n".join("\n".join(_tree(picture, goal)) for goal in goals) or NO_PLAN


def format_agents(members: Sequence[AgentRow], now: datetime) -> str:
    """Return processes as text, two lines each."""
    return "\n".join(line for member in members for line in _process(member, now)) or NO_PROCESSES


def _process(member: AgentRow, now: datetime) -> Iterator[str]:
    pid = "no process" if member.pid is None else f"pid {member.pid}{'' if member.alive else ', gone'}"
    told = f"{member.name} {member.state}" + (f", {member.phase}" if member.phase != member.state else "")
    yield f"{status_mark(STATE_MARKS.get(member.state, member.state))} {clip(told, WIDTH - len(pid) - 4)}  {pid}"
    facts = [f"{format_duration(now - member.since)}"] if member.since else []
    if member.usage.requests or member.usage.tokens:
        facts += [f"{member.usage.tokens:,} tokens", format_cost(member.usage.cost_usd)]
    if member.waits_on:
        facts.append(f"waits for {member.waits_on}")
    if member.last_activity is not None:
        facts.append(f"{format_duration(now - member.last_activity.at)} ago: {member.last_activity.text}")
    if facts:
        yield f"    {clip(', '.join(facts), WIDTH - 4)}"


def _goal(picture: RunView, goal: Goal) -> Iterator[str]:
    yield _title(goal)
    if goal.description and goal.description != goal.name:
        yield f"  {clip(goal.description, WIDTH - 2)}"
    facts = {fact.assertion: fact for fact in picture.facts[goal.id]}
    for assertion in goal.desired:
        yield from _effect(assertion, facts, INDENT)
    others = sorted(name for name in picture.holding(goal) if name not in goal.desired)
    for assertion in others:
        yield from _effect(assertion, facts, INDENT)


def _title(goal: Goal) -> str:
    reason = reason_of(goal.state)
    state = status_of(goal.state) + (f": {reason}" if reason else "")
    name = clip(goal.name, NAME_CELLS)
    return f"{heading(name)}: {clip(state, WIDTH - cell_len(name) - 2)}"


def _tree(picture: RunView, goal: Goal) -> Iterator[str]:
    yield _title(goal)
    actions = picture.actions_of(goal)
    if actions:
        words = Counter(task_state(action.state) for action in actions)
        yield f"  {', '.join(f'{number} {word}' for word, number in sorted(words.items()))}"
    children: dict[ActionId | None, list[Action]] = {}
    for action in actions:
        children.setdefault(action.parent_id, []).append(action)
    facts = {fact.assertion: fact for fact in picture.facts[goal.id]}
    by_id = {action.id: action for action in actions}
    holding = picture.holding(goal)
    stack = [(action, 1) for action in reversed(children.get(None, []))]
    while stack:
        action, depth = stack.pop()
        note = action_note(picture, action, holding, by_id)
        yield from _action(action, facts, note, INDENT * depth)
        yield from _score_line(picture.attempts_of(action), INDENT * (depth + 2))
        stack += [(child, depth + 1) for child in reversed(children.get(action.id, []))]


def _action(action: Action, facts: Mapping[Assertion, Fact], note: str, indent: str) -> Iterator[str]:
    status = status_of(action.state)
    kind = ", compound" if action.kind == "compound" else ""
    word = f", {task}" if (task := task_state(action.state)) != status else ""
    told = f"{status} {action.key} ({action.role}{kind}{word}) {note}"
    yield f"{indent}{status_mark(status)} {clip(told, WIDTH - len(indent) - 2)}"
    for effect in action.effects:
        yield from _effect(effect, facts, indent + INDENT * 2)
    if action.result:
        yield f"{indent}{INDENT * 2}{clip(f'said: {action.result}', WIDTH - len(indent) - 4)}"


def _score_line(attempts: Sequence[Attempt], indent: str) -> Iterator[str]:
    """Yield what a critic gave the latest attempt, if one did."""
    if attempts and (score := attempts[-1].score):
        yield f"{indent}critic: {format_score(score)}"


def format_score(score: CriticScore) -> str:
    """Return a score on one line: the total, what it is made of, and what is asked for."""
    criteria = {"correctness": score.correctness, "readability": score.readability, "edge cases": score.edge_cases}
    known = ", ".join(f"{name} {given}" for name, given in criteria.items() if given is not None)
    return f"{score.total}/9{f' ({known})' if known else ''}, {score.threshold} is asked for"


def _effect(assertion: Assertion, facts: Mapping[Assertion, Fact], indent: str) -> Iterator[str]:
    """Yield an assertion with its state, and below it a line for each piece of evidence."""
    fact = facts.get(assertion)
    state = "missing" if fact is None else fact.state
    weak = ", weak: nothing tells it from no work at all" if fact is not None and fact.weak else ""
    yield f"{indent}{status_mark(state)} {clip(f'{state} {assertion}{weak}', WIDTH - len(indent) - 2)}"
    for evidence in fact.evidence if fact is not None else ():
        yield f"{indent}{INDENT * 2}{evidence_line(evidence, WIDTH - len(indent) - 4)}"


def evidence_line(evidence: Evidence, width: int) -> str:
    """Return evidence on one line: the command or what else it is, how it ended, and the short commit."""
    ended = "" if evidence.exit_code is None else f", exit {evidence.exit_code}"
    end = f"{ended} at {evidence.commit[:8]}"
    return f"{clip(evidence_source(evidence), width - len(end))}{end}"


def evidence_source(evidence: Evidence) -> str:
    """Return who or what speaks: a command for itself, all others with the first line of what they say."""
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
