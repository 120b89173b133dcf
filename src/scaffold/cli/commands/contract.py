"""`contract`: the checks of an action and their latest results."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct

from scaffold.cli.commands.options import json_option, run_option
from scaffold.cli.render.goals_tasks_agents import evidence_line, format_score
from scaffold.cli.render.status_text import strength_suffix
from scaffold.cli.render.style import heading, print_json, status_mark
from scaffold.cli.wiring import context_with_run
from scaffold.core.contract import ChangeReview, CheckResult, Contract, SealedContract, Verification
from scaffold.core.gates import GateResult, TestFate
from scaffold.core.model import Action, Attempt, Fact, FileGrant
from scaffold.core.printable_text import printable
from scaffold.host.process.async_runner import run_async
from scaffold.plan.text.file_format import expectation_text, full_contract_document
from scaffold.verify.contract.review import is_review_role, review_text
from scaffold.verify.gates.refusals import describe_refused
from scaffold.verify.regression.base_tests import shown_name
from scaffold.verify.regression.baseline import ADVISORY, UNINFORMATIVE
from scaffold.views.lookup import find_action
from scaffold.views.run_json import fact_json, grant_json
from scaffold.views.text_format import WIDTH, clip, wrap_text

UNCLIPPED = 10_000
"""Columns for text that must not be cut off."""
FATES: Mapping[TestFate, str] = {
    "lost": "gone, and failing as it was",
    "removed": "removed with what it tested",
    "changed": "expects something else now",
    "moved": "gone from its place, and passing as it was",
}
"""What is said of a test of the base that is gone or changed."""


@click.command()
@click.argument("action_name", metavar="ACTION")
@run_option
@json_option
def contract(action_name: str, run_name: str | None, *, as_json: bool) -> None:
    """Show the checks of ACTION, their latest results, and the evidence of its facts."""
    held = run_async(_read(action_name, run_name))
    if as_json:
        print_json(_contract_json(held))
    else:
        click.echo("\n\n".join("\n".join(part) for part in _sections(held)))


class ContractView(Struct, frozen=True, kw_only=True):
    """An action with its contract, its latest results and its facts."""

    action: Action
    grants: tuple[FileGrant, ...]
    """The entries added to its files at its agents' request."""
    seals: tuple[SealedContract, ...]
    checked: Attempt | None
    """The latest attempt whose work was checked."""
    facts: tuple[Fact, ...]
    drafter: bool
    """Whether an agent drafts contracts in its run."""

    @property
    def phase(self) -> Literal["given", "draft", "final"] | None:
        """The origin of its contract; None without one."""
        if self.seals:
            return self.seals[-1].phase
        return None if self.action.contract is None else "given"


async def _read(name: str, run_name: str | None) -> ContractView:
    async with context_with_run(run_name) as (context, run):
        action = find_action(context, run, name)
        attempts = context.store.attempts.of_action(action.id)
        facts = context.store.facts.of_goal(action.goal_id)
        return ContractView(
            action=action,
            grants=context.store.file_grants.of_action(action.id),
            seals=context.store.seals.of_action(action.id),
            checked=next((each for each in reversed(attempts) if each.verification is not None), None),
            facts=tuple(fact for fact in facts if fact.assertion in action.effects),
            drafter=run.settings.planning.drafter,
        )


def _contract_json(about: ContractView) -> dict[str, Any]:
    action, checked, held = about.action, about.checked, about.action.contract or Contract()
    verification = checked.verification if checked else None
    last = None
    if checked is not None and verification is not None:
        last = {
            "attempt": checked.number,
            "commit": verification.commit,
            "passed": verification.passed,
            "strength": verification.strength,
            "weak": verification.strength == "weak",
            "doubts": [msgspec.structs.asdict(doubt) for doubt in verification.doubts],
            "red_on_base": verification.failed_on_base,
            "executed_lines": msgspec.to_builtins(verification.executed_lines),
            "review": None if verification.review is None else msgspec.to_builtins(verification.review),
            "score": None if checked.score is None else msgspec.structs.asdict(checked.score),
            "results": [msgspec.structs.asdict(result) for result in verification.results],
            "gates": [{"name": gate.gate.name, **msgspec.to_builtins(gate)} for gate in verification.gates],
        }
    return {
        "action": action.key,
        "given": about.phase == "given",
        "phase": about.phase,
        "sha256": about.seals[-1].sha256 if about.seals else None,
        "seals": [{"phase": seal.phase, "sha256": seal.sha256} for seal in about.seals],
        **full_contract_document(held),
        "files": list(action.files),
        "granted_files": [grant_json(grant) for grant in about.grants],
        "last": last,
        "facts": [fact_json(fact) for fact in about.facts],
    }


def _sections(about: ContractView) -> Iterator[Sequence[str]]:
    title = f"Contract of {clip(about.action.key, 60)}"
    if about.seals:
        title = f"{title} ({about.phase}, sealed as {about.seals[-1].sha256[:12]})"
    yield [heading(title), *_contract_lines(about)]
    if about.action.files or about.grants:
        yield [heading("Files it may change"), *_file_lines(about)]
    checked = about.checked
    if checked is not None and checked.verification is not None:
        yield from _check_lines(checked, checked.verification)
    else:
        yield ["No check has run yet."]
    for fact in about.facts:
        shown = [f"  {evidence_line(evidence, UNCLIPPED)}" for evidence in fact.evidence]
        held = f"{fact.assertion} {fact.state}{strength_suffix(fact)}, shown by"
        yield [f"{status_mark(fact.state)} {clip(held, WIDTH - 2)}", *shown]


def _check_lines(attempt: Attempt, verification: Verification) -> Iterator[Sequence[str]]:
    about = f"Attempt {attempt.number}, checked at {verification.commit[:8]}"
    doubts = [f"  {verification.strength}: {printable(doubt.text)}" for doubt in verification.doubts]
    lines = verification.executed_lines
    executed = [f"  changed lines: {lines.total}, executed by checks: {lines.executed}"] if lines else []
    results = [line for result in verification.results for line in _result(result, verification.failed_on_base)]
    critic = [] if attempt.score is None else [f"  critic: {format_score(attempt.score)}"]
    yield [heading(about), *doubts, *executed, *results, *critic, *_second_review(verification.review)]
    if verification.gates:
        yield [heading("Gates"), *(line for gate in verification.gates for line in _gate(gate))]


def _second_review(review: ChangeReview | None) -> Iterator[str]:
    """Yield the second reviewer's verdict, its summary, and a line per citation."""
    if review is not None:
        yield f"  second review by {printable(review.model)}: {review.review.verdict}"
        yield from (f"      {line}" for line in printable(review_text(review.review)).splitlines())


def _file_lines(about: ContractView) -> Iterator[str]:
    yield from (f"  {printable(path)}" for path in about.action.files)
    for grant in about.grants:
        by = "by rule, except what judges the work" if grant.by == "rule" else f"by a {grant.by}"
        yield f"  {printable(grant.path)}  added {by}: {clip(grant.reason, UNCLIPPED)}"


def _without_checks(about: ContractView) -> str:
    if is_review_role(about.action.role):
        return "A review: it needs a verdict whose citations exist."
    if about.drafter and about.phase is None and about.checked is None:
        return "None yet: it is drafted before the work."
    return "No checks: any change that lands is enough, and its facts are marked weak."


def _contract_lines(about: ContractView) -> Iterator[str]:
    held = about.action.contract
    if held is None or held.empty:
        yield f"  {_without_checks(about)}"
        return
    if held.intent:
        yield f"  {_indented(held.intent)}"
    for check in held.commands:
        need = "" if check.required else " (optional)"
        yield f"  $ {_indented(check.command)}"
        yield f"      {_indented(expectation_text(check.expect))}{need}"
    for name in ("must_exist", "must_not_exist", "must_not_change"):
        yield from (f"  {name}: {printable(glob)}" for glob in getattr(held, name))


def _indented(text: str) -> str:
    """Return the complete text, ready to be copied; further lines are indented like the first."""
    return printable(text).rstrip("\n").replace("\n", "\n      ")


def _result(result: CheckResult, red: Sequence[str]) -> Iterator[str]:
    before = " (failed before the work)" if result.name in red else ""
    yield f"  {status_mark(result.verdict)} {result.verdict} {clip(result.name, UNCLIPPED)}{before}"
    if result.verdict != "pass":
        yield from _excerpt(result.detail)


def _gate(gate: GateResult) -> Iterator[str]:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in gate.counts.items() if count)
    scope = " (focused)" if gate.focused else ""
    summary = f"{gate.gate.name}: {gate.verdict}{f', {counts}' if counts else ''}{scope}"
    mark = "fail" if gate.blocks else "warn" if gate.warns else "pass"
    yield f"  {status_mark(mark)} {clip(summary, UNCLIPPED)}"
    if gate.warns:
        yield f"      it only warns: {ADVISORY}"
    if gate.verdict == "pre_existing" and gate.gate.runner == "exit":
        yield f"      it {UNINFORMATIVE}"
    if gate.refused:
        yield from (f"      {line}" for line in wrap_text(describe_refused(gate.refused), WIDTH - 6, break_words=True))
    for fate, words in FATES.items():
        names = ", ".join(shown_name(gate.gate, name) for name, given in gate.base_tests.items() if given == fate)
        yield from (f"      {line}" for line in wrap_text(f"{words}: {names}", WIDTH - 6) if names)
    if gate.blocks or gate.warns:
        yield from (f"      {verdict} {clip(name, WIDTH - 20)}" for name, verdict in list(gate.tests.items())[:20])
        yield from _excerpt(gate.detail) if gate.verdict == "new_failure" else _last_lines(gate)


def _last_lines(gate: GateResult) -> Iterator[str]:
    """Yield what a gate that could not judge printed last, and where all of it is."""
    yield from (f"      {clip(line, WIDTH - 6)}" for line in gate.detail.splitlines() if line.strip())
    if gate.log:
        yield f"      the whole log: {gate.log}"


def _excerpt(detail: str) -> Iterator[str]:
    lines = [line for line in detail.splitlines() if line.strip()]
    shown = lines if len(lines) <= 8 else [lines[0], "…", *lines[-6:]]
    yield from (f"      {clip(line, WIDTH - 6)}" for line in shown)
