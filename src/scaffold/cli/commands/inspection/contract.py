"""`contract`: the checks of an action and their latest results."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct

from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.goals_tasks_agents import evidence_line, format_score
from scaffold.cli.render.status_text import strength_suffix
from scaffold.cli.render.terminal.style import OUTPUT_INDENT, heading, output_lines, print_json, status_mark
from scaffold.cli.render.terminal.text_layout import Layout, layout_for
from scaffold.cli.wiring import context_with_run
from scaffold.core.model import Action, Attempt, Fact, FileGrant
from scaffold.core.printable_text import count_of, printable
from scaffold.core.proof.contract import Contract, SealedContract, Verification, evidence_json, reasons_of
from scaffold.core.proof.gates import GateResult, TestFate
from scaffold.host.process.async_runner import run_async
from scaffold.plan.text.file_format import expectation_text, full_contract_document
from scaffold.run.gate_logs import shown_path
from scaffold.verify.contract.review_verdict import is_audit, is_review, review_text
from scaffold.verify.gates.refusals import describe_refused
from scaffold.verify.regression.base_tests import shown_name
from scaffold.verify.regression.baseline_capture import ADVISORY
from scaffold.verify.regression.test_identity import describe_varying
from scaffold.views.name_lookup import find_landing_action
from scaffold.views.run_json import fact_json, grant_json

MAX_TESTS = 20  # names of tests that did not pass; `--json` has them all
FATES: Mapping[TestFate, str] = {
    "lost": "gone, and failing as it was",
    "removed": "removed with what it tested",
    "changed": "expects something else now",
    "moved": "gone from its place, and passing as it was",
}
"""Descriptions of tests of the base that are gone or changed."""


@click.command()
@click.argument("action_name", metavar="ACTION")
@run_option
@json_option
@pageable
def contract(action_name: str, run_name: str | None, *, as_json: bool) -> None:
    """Show the checks of ACTION, their latest results, and the evidence of its facts."""
    held = run_async(_read_contract(action_name, run_name))
    if as_json:
        print_json(_contract_json(held))
    else:
        click.echo("\n\n".join("\n".join(part) for part in _text_sections(held, layout_for(sys.stdout))))


class ContractView(Struct, frozen=True, kw_only=True):
    """An action with its contract, its latest results and its facts."""

    action: Action
    grants: tuple[FileGrant, ...]
    """The entries added to its files at its agents' request."""
    seals: tuple[SealedContract, ...]
    checked: Attempt | None
    """The latest attempt whose work was checked."""
    attempts: tuple[Attempt, ...]
    logs: str
    """The folder with the complete outputs of its run's checks and gates; empty if there is none."""
    facts: tuple[Fact, ...]
    drafter: bool
    """Whether an agent drafts contracts in its run."""

    @property
    def phase(self) -> Literal["given", "draft", "final"] | None:
        """The origin of its contract; None without one."""
        if self.seals:
            return self.seals[-1].phase
        return None if self.action.contract is None else "given"


async def _read_contract(name: str, run_name: str | None) -> ContractView:
    async with context_with_run(run_name, part=name) as (context, run):
        action = find_landing_action(context, run, name)
        attempts = context.store.attempts.for_action(action.id)
        facts = context.store.facts.for_goal(action.goal_id)
        return ContractView(
            action=action,
            grants=context.store.file_grants.for_action(action.id),
            seals=context.store.seals.for_action(action.id),
            checked=next((each for each in reversed(attempts) if each.verification is not None), None),
            attempts=attempts,
            logs=shown_path(context.repository.root, logs) if (logs := context.gate_logs(run.id)).status() else "",
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
            **evidence_json(verification.doubts, verification.strength),
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


def _text_sections(about: ContractView, layout: Layout) -> Iterator[Sequence[str]]:
    title = f"Contract of {about.action.key}"
    if about.seals:
        title = f"{title} ({about.phase}, sealed as {about.seals[-1].sha256[:12]})"
    yield [*map(heading, layout.wrap("", title, hang=2)), *_contract_lines(about, layout)]
    if about.action.files or about.grants:
        files = [heading("Files it may change"), *(f"  {printable(path)}" for path in about.action.files)]
        for grant in about.grants:
            by = "by rule, except what judges the work" if grant.by == "rule" else f"by a {grant.by}"
            files += layout.prose("  ", f"{grant.path}  added {by}: {grant.reason}", hang=4)
        yield files
    checked = about.checked
    for attempt in about.attempts:
        # A failure of the checks is shown below with their output.
        told = attempt is checked and attempt.verification is not None and not attempt.verification.passed
        if attempt.error and not told:
            lines = [heading(f"Attempt {attempt.number}: {attempt.outcome}"), *layout.prose("  ", attempt.error)]
            by_checks = attempt.outcome in {"contract_failed", "gate_failed"} and about.logs
            more = layout.wrap("  ", f"the whole output, if it is longer: {about.logs}") if by_checks else []
            yield [*lines, *more]
    if checked is not None and checked.verification is not None:
        yield from _check_sections(checked, checked.verification, layout)
    else:
        yield layout.wrap("", "No check has run yet.")
    for fact in about.facts:
        shown = [line for evidence in fact.evidence for line in layout.wrap("  ", evidence_line(evidence), hang=4)]
        held = f"{fact.assertion} {fact.state}{strength_suffix(fact)}, shown by"
        yield [*layout.wrap(f"{status_mark(fact.state)} ", held), *shown]


def _check_sections(attempt: Attempt, verification: Verification, layout: Layout) -> Iterator[Sequence[str]]:
    lines = [*map(heading, layout.wrap("", f"Attempt {attempt.number}, checked at {verification.commit[:8]}"))]
    for reason in reasons_of(verification.doubts):
        lines += layout.prose("  ", f"{verification.strength}: {reason}", hang=4)
    if executed := verification.executed_lines:
        lines += layout.prose("  ", f"changed lines: {executed.total}, executed by checks: {executed.executed}")
    for result in verification.results:
        before = " (failed before the work)" if result.name in verification.failed_on_base else ""
        mark = status_mark(result.verdict)
        lines += layout.wrap(f"  {mark} {result.verdict} ", f"{result.name}{before}")
        if result.verdict != "pass":
            lines += output_lines(result.detail, result.log, layout)
    if attempt.score is not None:
        lines += layout.prose("  ", f"critic: {format_score(attempt.score)}")
    if (second := verification.review) is not None:
        lines += layout.prose("  ", f"second review by {second.model}: {second.review.verdict}")
        lines += layout.prose(OUTPUT_INDENT, review_text(second.review))
    yield lines
    if verification.gates:
        yield [heading("Gates"), *(line for gate in verification.gates for line in _gate_lines(gate, layout))]


def _contract_lines(about: ContractView, layout: Layout) -> Iterator[str]:
    held = about.action.contract
    if held is None or held.empty:
        if is_audit(about.action):
            what = "An audit: it needs a verdict on each requirement, which counts as met only with lines that exist."
        elif is_review(about.action):
            what = "A review: it needs a verdict whose citations exist."
        elif about.drafter and about.phase is None and about.checked is None:
            what = "None yet: it is drafted before the work."
        else:
            what = "No checks: any change that lands is enough, and its facts are marked weak."
        yield from layout.prose("  ", what)
        return
    if held.intent:
        yield from layout.prose("  ", held.intent)
    for check in held.commands:
        need = "" if check.required else " (optional)"
        # As it is, ready to be copied: the terminal wraps it. Further lines are indented.
        command = printable(check.command).rstrip("\n").replace("\n", "\n      ")
        yield f"  $ {command}"
        yield from layout.wrap(OUTPUT_INDENT, f"{expectation_text(check.expect)}{need}")
    for name in ("must_exist", "must_not_exist", "must_not_change"):
        yield from (f"  {name}: {printable(glob)}" for glob in getattr(held, name))


def _gate_lines(gate: GateResult, layout: Layout) -> Iterator[str]:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in gate.counts.items() if count)
    scope = " (focused)" if gate.focused else ""
    summary = f"{gate.gate.name}: {gate.verdict}{f', {counts}' if counts else ''}{scope}"
    applies = gate.verdict != "not_applicable"
    mark = "fail" if gate.blocks else "warn" if gate.warns else "pass" if applies else "skipped"
    yield from layout.wrap(f"  {status_mark(mark)} ", summary)
    if not applies and gate.detail:
        yield from layout.prose(OUTPUT_INDENT, gate.detail)
    if gate.warns:
        yield from layout.prose(OUTPUT_INDENT, f"it only warns: {ADVISORY}")
    if gate.blind:
        yield from layout.prose(OUTPUT_INDENT, f"it {gate.blind}")
    if gate.refused:
        yield from layout.prose(OUTPUT_INDENT, describe_refused(gate.refused))
    if gate.varying:
        yield from layout.prose(OUTPUT_INDENT, describe_varying(gate.varying))
    for fate, words in FATES.items():
        names = ", ".join(shown_name(gate.gate, name) for name, given in gate.base_tests.items() if given == fate)
        yield from layout.wrap(OUTPUT_INDENT, f"{words}: {names}") if names else ()
    if gate.blocks or gate.warns:
        for name, verdict in list(gate.tests.items())[:MAX_TESTS]:
            yield from layout.wrap(f"{OUTPUT_INDENT}{verdict} ", name)
        if len(gate.tests) > MAX_TESTS:
            yield f"{OUTPUT_INDENT}and {count_of(len(gate.tests) - MAX_TESTS, 'more test')}; `--json` lists them all"
        yield from output_lines(gate.detail, gate.log, layout)
