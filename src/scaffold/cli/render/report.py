"""The report at the end of a run: landed work, its evidence, its cost, the next commands."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote

from scaffold.cli.render.audit_text import compliance_section
from scaffold.cli.render.goals_tasks_agents import evidence_source
from scaffold.cli.render.inbox_text import brief_lines
from scaffold.cli.render.status_text import MAX_ITEMS, budget_lines, failure_lines, next_lines, strength_suffix
from scaffold.cli.render.terminal.style import heading, status_mark, titled
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.ids import Assertion
from scaffold.core.model import Action, Attempt, Fact, Goal
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.contract import STRENGTHS, reasons_of
from scaffold.core.states import WORKER_PHASES, Completed, Failed, reason_of, status_of
from scaffold.landing.facts.effect_evidence import describe_gate
from scaffold.views.action_notes import ActionsById, status_reason, step_name
from scaffold.views.run_view import RunView
from scaffold.views.state_labels import AGREEMENTS, NARRATIVE_EVIDENCE, SUCCESSFUL_OUTCOMES, where_landed
from scaffold.views.text_format import format_cost, format_duration

EVIDENCE_INDENT = " " * 8


def report(view: RunView, root: Path, layout: Layout, page: Path | None = None) -> str:
    """Return the report of a run; without a limit its last line is `landed N actions, M facts with evidence`.

    `root` is the repository's checkout, `page` the report as an HTML page if it was written.
    """
    attempts = [attempt for own in view.attempts.values() for attempt in own]
    # An action that was reverted has landed twice.
    landed = sum(any(each.outcome == "landed" for each in own) for own in view.attempts.values())
    facts = sum(fact.state == "holds" for goal in view.goals for fact in view.facts_of(goal))
    waiting = list(brief_lines(view.summary.waiting, view.summary.at, layout, most=MAX_ITEMS))
    title, *commands = next_lines(view, layout, page)
    # The commands work in the repository only.
    is_elsewhere = not Path.cwd().is_relative_to(root)
    parts = [
        "",
        _run_header(view, len(attempts), layout),
        *_evidence_summary(view, layout),
        *(_goal_section(view, goal, layout) for goal in view.goals),
        *([compliance_section(view.compliance, layout)] if view.compliance else []),
        *_assumption_section(view, layout),
        *(["\n".join([heading("Needs you"), *waiting])] if waiting else []),
        "\n".join([title, *([f"  cd {quote(str(root))}"] if is_elsewhere else []), *commands]),
        # In a pipe this form is fixed, because scripts read it: plural even for one.
        "\n".join(layout.prose("", f"landed {count_of(landed, 'action')}, {count_of(facts, 'fact')} with evidence"))
        if layout.is_limited
        else f"landed {landed} actions, {facts} facts with evidence",
    ]
    return "\n\n".join(parts)


def _run_header(view: RunView, attempts: int, layout: Layout) -> str:
    run, usage = view.run, view.summary.spent
    took = format_duration(run.updated_at - run.created_at)
    spent = f"{count_of(usage.requests, 'request')}, {count_of(usage.tokens, 'token')}, {format_cost(usage.cost_usd)}"
    status = status_of(run.state)
    return "\n".join(
        [
            *titled(f"{status_mark(status)} ", f"run {run.id} {status}", reason_of(run.state) or "", layout),
            *layout.wrap("  ", f"{took}, {count_of(attempts, 'attempt')}, {spent}"),
            *(line for text in budget_lines(view.summary.budget) for line in layout.wrap("  ", text)),
        ]
    )


def _evidence_summary(view: RunView, layout: Layout) -> Iterator[str]:
    """Yield the number of facts by strength, the weak ones first, with the reasons."""
    holding = [fact for goal in view.goals for fact in view.facts_of(goal) if fact.state == "holds"]
    by_strength = {strength: [each for each in holding if each.strength == strength] for strength in STRENGTHS}
    lines: list[str] = []
    for strength, facts in by_strength.items():
        if facts:
            lines.append(f"  {count_of(len(facts), 'fact')} {strength}{'' if strength == 'proven' else ':'}")
        for fact in facts if strength != "proven" else ():
            lines += layout.prose("    ", f"{fact.assertion}: {'; '.join(reasons_of(fact.doubts))}", hang=6)
            agreed = [each for each in fact.evidence if each.kind in AGREEMENTS] if fact.reviewed else []
            lines += (line for each in agreed for line in layout.prose(" " * 6, evidence_source(each)))
    if len(by_strength["proven"]) < len(holding):
        yield "\n".join([heading("Evidence"), *lines])


def _assumption_section(view: RunView, layout: Layout) -> Iterator[str]:
    """Yield what agents assumed because no human was asked."""
    keys = {action.id: action.key for action in view.actions}
    lines = [
        line
        for each in view.assumptions
        for line in layout.prose(
            "  ",
            f"{keys[each.action_id]}: {each.assumed or 'it did not say what'} (instead of asking: {each.question})",
            hang=4,
        )
    ]
    if lines:
        yield "\n".join([heading("Assumed"), *lines])


def _goal_section(view: RunView, goal: Goal, layout: Layout) -> str:
    facts = {fact.assertion: fact for fact in view.facts[goal.id]}
    lines = titled("", f"{goal.name}: {status_of(goal.state)}", reason_of(goal.state) or "", layout)
    actions = {action.id: action for action in view.actions_of(goal)}
    for action in actions.values():
        if _is_told(action, view.attempts_of(action)):
            lines += _action_lines(action, view.attempts_of(action), facts, actions, layout)
    return "\n".join(lines)


def _is_told(action: Action, attempts: Sequence[Attempt]) -> bool:
    # Of a story, only steps that landed or failed are told.
    if action.workspace == "parent":
        return any(each.outcome != "recorded" for each in attempts)
    return action.kind == "primitive" or action.method == "story" or isinstance(action.state, Failed)


def _action_lines(
    action: Action, attempts: Sequence[Attempt], facts: Mapping[Assertion, Fact], actions: ActionsById, layout: Layout
) -> Iterator[str]:
    status = status_of(action.state)
    tried = attempts if isinstance(action.state, Completed) else ()
    done = next((attempt for attempt in reversed(tried) if attempt.outcome in SUCCESSFUL_OUTCOMES), None)
    reason, command = status_reason(action, actions), f"scaffold contract {quote(action.key)}"
    # The attempts below tell it.
    if any(attempt.error and attempt.error in reason for attempt in attempts):
        reason = ""
    where = where_landed(done) if done else f"{status}{_reason_suffix(reason)}"
    name = step_name(action)
    what = f"{name}, {where}" if name else where
    yield from layout.prose(f"  {status_mark(status)} ", f"{action.key}  {what}", hang=6)
    for attempt in attempts:
        if attempt.outcome not in SUCCESSFUL_OUTCOMES:
            how = attempt.outcome or ("has not ended" if attempt.phase in WORKER_PHASES else "waits to land")
            error = f"attempt {attempt.number}: {how}{_reason_suffix(attempt.error)}"
            yield from failure_lines(error, [attempt], command, layout, most=1)
    if done and done.verification:
        for file in done.verification.merged:
            yield from layout.prose("      merged  ", file.line)
        where = f"which only warns: `{command}`"
        for gate in done.verification.gates:
            if gate.warns:
                yield from layout.prose(f"      {status_mark('warn')} ", f"{describe_gate(gate)}, {where}")
    for effect in action.effects if done else ():
        if effect in facts and not facts[effect].only_orders:
            yield from _fact_lines(facts[effect], layout)


def _fact_lines(fact: Fact, layout: Layout) -> Iterator[str]:
    yield from layout.wrap(" " * 6, f"{fact.assertion} {fact.state}{strength_suffix(fact)}, shown by")
    for reason in reasons_of(fact.doubts):
        yield from layout.prose(EVIDENCE_INDENT, f"{fact.strength}: {reason}")
    gates = [each for each in fact.evidence if each.kind == "gate"]
    others = [each for each in fact.evidence if each.kind not in {"gate", "merge"}]
    judged = [each for each in others if each.kind in NARRATIVE_EVIDENCE]
    rules = [each for each in others if each.exit_code is None and each.kind not in NARRATIVE_EVIDENCE]
    for each in others:
        if each.exit_code is not None and each.kind not in NARRATIVE_EVIDENCE:
            yield from layout.wrap(f"{EVIDENCE_INDENT}exit {each.exit_code}  ", each.command or each.kind)
    for each in judged:
        yield from layout.prose(EVIDENCE_INDENT, evidence_source(each))
    for each in gates:
        yield from layout.wrap(f"{EVIDENCE_INDENT}gate    ", each.detail)
    if rules:
        yield from layout.wrap(EVIDENCE_INDENT, join_limited([each.command or each.kind for each in rules], 1))


def _reason_suffix(reason: str | None) -> str:
    return f": {reason}" if reason else ""
