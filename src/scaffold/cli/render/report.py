"""The report at the end of a run: what landed, what shows it, what it took, what to do next."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from scaffold.cli.render.goals_tasks_agents import evidence_source
from scaffold.cli.render.inbox import brief_lines
from scaffold.cli.render.status_text import MAX_ITEMS, ActionsById, status_reason
from scaffold.cli.render.style import heading, status_mark
from scaffold.core.ids import Assertion
from scaffold.core.model import Action, Attempt, Evidence, Fact, Goal, Run
from scaffold.core.printable_text import join_limited
from scaffold.core.states import Completed, Failed, Paused, reason_of, status_of
from scaffold.run.context import RunContext
from scaffold.views.inbox import requesters_by_item
from scaffold.views.text_format import WIDTH, clip, format_cost, format_duration

SUCCESSFUL_OUTCOMES = frozenset({"landed", "recorded"})
"""Outcomes of attempts whose effects are facts; an approval lands nothing."""
NARRATIVE_EVIDENCE = frozenset({"change", "review", "human"})
"""Kinds of evidence that are no command: who or what speaks says so in words."""


def report(site: RunContext, run: Run) -> str:
    """Return the report as text; its last line is `landed N actions, M facts with evidence`."""
    attempts = site.store.attempts.of_run(run.id)
    goals = [_goal(site, goal, attempts) for goal in site.store.goals.of_run(run.id)]
    goals += _needs_you(site, run)
    landed = sum(1 for attempt in attempts if attempt.outcome == "landed")
    last = f"landed {landed} actions, {site.store.facts.count_holding(run.id)} facts with evidence"
    return "\n\n".join(["", _head(site, run, attempts), *goals, "\n".join(_next(site, run)), last])


def _head(site: RunContext, run: Run, attempts: Sequence[Attempt]) -> str:
    usage = site.store.runs.spent(run.id)
    took = format_duration(run.updated_at - run.created_at)
    spent = f"{usage.requests} requests, {usage.tokens:,} tokens, {format_cost(usage.cost_usd)}"
    status = status_of(run.state)
    title = heading(clip(f"run {run.id} {status}{_reason_suffix(reason_of(run.state))}", WIDTH - 2))
    return f"{status_mark(status)} {title}\n  {took}, {len(attempts)} attempts, {spent}"


def _needs_you(site: RunContext, run: Run) -> Iterator[str]:
    items = site.store.inbox.open_of_run(run.id)
    if items:
        who = requesters_by_item(items, site.store.actions.of_run(run.id))
        yield "\n".join([heading("Needs you"), *brief_lines(items, who, most=MAX_ITEMS)])


def _goal(site: RunContext, goal: Goal, attempts: Sequence[Attempt]) -> str:
    facts = {fact.assertion: fact for fact in site.store.facts.of_goal(goal.id)}
    lines = [heading(clip(f"{goal.name}: {status_of(goal.state)}{_reason_suffix(reason_of(goal.state))}", WIDTH))]
    actions = {action.id: action for action in site.store.actions.of_goal(goal.id)}
    for action in actions.values():
        if action.kind == "primitive" or isinstance(action.state, Failed):
            own = [attempt for attempt in attempts if attempt.action_id == action.id]
            lines += _action(action, own, facts, actions)
    return "\n".join(lines)


def _action(
    action: Action, attempts: Sequence[Attempt], facts: Mapping[Assertion, Fact], actions: ActionsById
) -> Iterator[str]:
    status = status_of(action.state)
    done = next((attempt for attempt in attempts if attempt.outcome in SUCCESSFUL_OUTCOMES), None)
    where = (
        f"{done.outcome} as {(done.head_sha or '')[:8]}"
        if done
        else f"{status}{_reason_suffix(status_reason(action, actions))}"
    )
    yield f"  {status_mark(status)} {clip(f'{action.key}  {where}', WIDTH - 4)}"
    for attempt in attempts:
        if attempt.outcome not in SUCCESSFUL_OUTCOMES:
            yield _line(6, f"attempt {attempt.number}: {attempt.outcome}{_reason_suffix(attempt.error)}")
    for effect in action.effects if done else ():
        if effect in facts:
            yield from _fact(facts[effect])


def _fact(fact: Fact) -> Iterator[str]:
    weak = " (weak)" if fact.weak else ""
    yield _line(6, f"{fact.assertion} {fact.state}{weak}, shown by")
    gates = [each for each in fact.evidence if each.kind == "gate"]
    others = [each for each in fact.evidence if each.kind != "gate"]
    judged = [each for each in others if each.kind in NARRATIVE_EVIDENCE]
    rules = [each for each in others if each.exit_code is None and each.kind not in NARRATIVE_EVIDENCE]
    yield from (_shown(each) for each in others if each.exit_code is not None and each.kind not in NARRATIVE_EVIDENCE)
    yield from (_line(8, evidence_source(each)) for each in judged)
    yield from (_line(8, f"gate    {each.detail}") for each in gates)
    if rules:
        yield _line(8, join_limited([each.command or each.kind for each in rules], 1))


def _shown(evidence: Evidence) -> str:
    return _line(8, f"exit {evidence.exit_code}  {evidence.command}")


def _next(site: RunContext, run: Run) -> Iterator[str]:
    yield heading("Next")
    if not Path.cwd().is_relative_to(site.repository.root):
        yield f"  cd {site.repository.root}"
    match run.state:
        case Completed():
            yield "  scaffold tasks                         every action with its evidence"
            yield f"  git log -p {run.base_sha[:8]}..{run.session_branch}  a commit for each action"
            yield f"  git merge --ff-only {run.session_branch}   take them"
        case Failed():
            yield "  scaffold logs ACTION                   why it failed"
            yield "  scaffold retry && scaffold resume      another chance for what failed"
        case Paused():
            if site.store.inbox.open_of_run(run.id):
                yield "  scaffold inbox                         what waits for you, in full"
            yield f"  scaffold resume {run.id}"
        case _:
            yield "  scaffold status"


def _line(indent: int, text: str) -> str:
    return " " * indent + clip(text, WIDTH - indent)


def _reason_suffix(reason: str | None) -> str:
    return f": {reason}" if reason else ""
