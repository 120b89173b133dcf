"""`contract`: what must be true before an action counts as done, and what checking showed last."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, assert_never

import click
import msgspec

from scaffold.cli.lookup import find_action, run_option, site_with_run
from scaffold.cli.safe import printable
from scaffold.cli.screen import WIDTH, clip, heading, json_option, mark, print_json
from scaffold.cli.snapshot import fact_shape
from scaffold.cli.views import evidence_line
from scaffold.core.contract import Check, CheckResult, Contract, ExitCode, Expectation, OutputContains
from scaffold.core.model import Action, Attempt, Fact

WHOLE = 10_000
"""Columns for what must not be cut."""


@click.command()
@click.argument("action_name", metavar="ACTION")
@run_option
@json_option
def contract(action_name: str, run_name: str | None, *, as_json: bool) -> None:
    """Show the checks of ACTION, their last results, and the evidence of the facts it made."""
    action, attempts, facts = asyncio.run(_read(action_name, run_name))
    checked = next((attempt for attempt in reversed(attempts) if attempt.verification is not None), None)
    if as_json:
        print_json(_shape(action, checked, facts))
    else:
        click.echo("\n\n".join("\n".join(part) for part in _parts(action, checked, facts)))


async def _read(name: str, run_name: str | None) -> tuple[Action, Sequence[Attempt], Sequence[Fact]]:
    async with site_with_run(run_name) as (site, run):
        action = find_action(site, run, name)
        facts = [fact for fact in site.store.facts.of_goal(action.goal_id) if fact.assertion in action.effects]
        return action, site.store.attempts.of_action(action.id), facts


def _shape(action: Action, checked: Attempt | None, facts: Sequence[Fact]) -> dict[str, Any]:
    held = action.contract or Contract()
    verification = checked.verification if checked else None
    last = None
    if checked is not None and verification is not None:
        last = {
            "attempt": checked.number,
            "commit": verification.commit,
            "passed": verification.passed,
            "weak": verification.weak,
            "results": [msgspec.structs.asdict(result) for result in verification.results],
        }
    return {
        "action": action.key,
        "given": action.contract is not None,
        "intent": held.intent,
        "commands": [_check(check) for check in held.commands],
        "must_exist": held.must_exist,
        "must_not_exist": held.must_not_exist,
        "must_not_change": held.must_not_change,
        "last": last,
        "facts": [fact_shape(fact) for fact in facts],
    }


def _check(check: Check) -> dict[str, Any]:
    return {**msgspec.structs.asdict(check), "expect": expected(check.expect)}


def expected(expect: Expectation) -> str:
    """Return an expectation in the words of a plan file."""
    match expect:
        case ExitCode(code=code):
            return f"exit {code}"
        case OutputContains(text=text):
            return f"output contains {text}"
        case _:
            assert_never(expect)


def _parts(action: Action, checked: Attempt | None, facts: Sequence[Fact]) -> Iterator[Sequence[str]]:
    yield [heading(f"Contract of {clip(action.key, 60)}"), *_promises(action.contract)]
    if checked is not None and checked.verification is not None:
        verification = checked.verification
        about = f"Attempt {checked.number}, checked at {verification.commit[:8]}"
        yield [heading(about), *(line for result in verification.results for line in _result(result))]
    else:
        yield ["Nothing was checked yet."]
    for fact in facts:
        shown = [f"  {evidence_line(evidence, WHOLE)}" for evidence in fact.evidence]
        yield [f"{mark(fact.state)} {clip(f'{fact.assertion} {fact.state}, shown by', WIDTH - 2)}", *shown]


def _promises(held: Contract | None) -> Iterator[str]:
    if held is None or held.empty:
        yield "  No check was given: a change that lands will do, and its facts are marked weak."
        return
    if held.intent:
        yield f"  {_indented(held.intent)}"
    for check in held.commands:
        need = "" if check.required else " (optional)"
        yield f"  $ {_indented(check.command)}"
        yield f"      {_indented(expected(check.expect))}{need}"
    for name in ("must_exist", "must_not_exist", "must_not_change"):
        yield from (f"  {name}: {printable(glob)}" for glob in getattr(held, name))


def _indented(text: str) -> str:
    """Return `text` whole, to be copied; its further lines below the first."""
    return printable(text).rstrip("\n").replace("\n", "\n      ")


def _result(result: CheckResult) -> Iterator[str]:
    yield f"  {mark(result.verdict)} {result.verdict} {clip(result.name, WHOLE)}"
    if result.verdict != "pass":
        lines = [line for line in result.detail.splitlines() if line.strip()]
        shown = lines if len(lines) <= 8 else [lines[0], "…", *lines[-6:]]
        yield from (f"      {clip(line, WIDTH - 6)}" for line in shown)
