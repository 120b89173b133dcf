"""The report at the end of a run: what landed, what shows it, what it took, what to do next."""

from collections.abc import Mapping
from datetime import timedelta

from scaffold.cli.safe import printable
from scaffold.core.ids import Assertion
from scaffold.core.model import Action, Attempt, Evidence, Fact, Run
from scaffold.core.states import Completed, Failed, Paused, reason_of, status_of
from scaffold.worker.site import Site


def report(site: Site, run: Run) -> str:
    """Return the report as text; its last line is `landed N actions, M facts with evidence`."""
    actions = site.store.actions.of_run(run.id)
    attempts = site.store.attempts.of_run(run.id)
    parts = [_head(run, attempts, site)]
    for goal in site.store.goals.of_run(run.id):
        lines = [f"{goal.name}: {status_of(goal.state)}{_because(reason_of(goal.state))}"]
        facts = {fact.assertion: fact for fact in site.store.facts.of_goal(goal.id)}
        for action in actions:
            if action.goal_id == goal.id and action.kind == "primitive":
                lines += _action(action, [a for a in attempts if a.action_id == action.id], facts)
        parts.append("\n".join(lines))
    parts.append("\n".join(_next(run)))
    landed = sum(1 for attempt in attempts if attempt.outcome == "landed")
    facts_held = site.store.facts.count_holding(run.id)
    parts.append(f"landed {landed} actions, {facts_held} facts with evidence")
    return "\n" + printable("\n\n".join(parts))


def _head(run: Run, attempts: tuple[Attempt, ...], site: Site) -> str:
    usage = site.store.runs.spent(run.id)
    cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.2f}"
    took = _clock(site.clock.now() - run.created_at)
    state = f"{status_of(run.state)}{_because(reason_of(run.state))}"
    return (
        f"Run {run.id} {state}\n"
        f"{took}, {len(attempts)} attempts, {usage.requests} requests, {usage.tokens:,} tokens, {cost}"
    )


def _action(action: Action, attempts: list[Attempt], facts: Mapping[Assertion, Fact]) -> list[str]:
    landed = next((a for a in attempts if a.outcome == "landed"), None)
    mark = {"completed": "✓", "failed": "✗", "blocked": "✗"}.get(status_of(action.state), "·")
    where = f" {(landed.head_sha or '')[:8]}" if landed else ""
    tries = f", {len(attempts)} attempts" if len(attempts) > 1 else ""
    lines = [
        f"  {mark} {action.key}{where} {status_of(action.state)}{tries}{_because(_short(reason_of(action.state)))}"
    ]
    lines += [f"      {why}" for why in _earlier(attempts)]
    for effect in action.effects:
        fact = facts.get(effect)
        if fact is not None and landed is not None:
            lines.append(f"      {fact.assertion} {fact.state}{' (weak)' if fact.weak else ''}")
            lines += [f"        {_shown(evidence)}" for evidence in fact.evidence]
    return lines


def _earlier(attempts: list[Attempt]) -> list[str]:
    return [f"attempt {a.number}: {a.outcome}{_because(_short(a.error))}" for a in attempts if a.outcome != "landed"]


def _shown(evidence: Evidence) -> str:
    if evidence.exit_code is None:
        return f"{evidence.command or evidence.kind} - {_short(evidence.detail)}"
    return f"{evidence.command} - exit {evidence.exit_code}"


def _next(run: Run) -> list[str]:
    match run.state:
        case Completed():
            return [
                "Next",
                f"  git log --oneline {run.base_sha[:8]}..{run.session_branch}   what landed, a commit an action",
                f"  git merge --ff-only {run.session_branch}             take it",
                "  scaffold tasks                                every action with its evidence",
            ]
        case Failed():
            return ["Next", "  scaffold logs ACTION    why it failed", "  scaffold retry && scaffold resume"]
        case Paused():
            return ["Next", f"  scaffold resume {run.id}"]
        case _:
            return ["Next", "  scaffold status"]


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _short(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0][:140]


def _clock(span: timedelta) -> str:
    seconds = span.total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"
