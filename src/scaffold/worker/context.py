"""What a worker is told: pure text, built from the store's values and bounded however large the plan is."""

import re
from collections.abc import Iterator, Sequence

from scaffold.core.contract import Check, CheckResult, Contract, ExitCode, OutputContains, Verification
from scaffold.core.gates import GateResult
from scaffold.core.model import Action, Fact, Goal
from scaffold.verify.review import gives_verdict
from scaffold.worker.assignment import TESTING, Assignment

GOAL_CHARS = 600
GOAL_SENTENCES = 2
TASK_CHARS = 16_000
RESULT_CHARS = 4_000
RESULTS_CHARS = 16_000
VERIFIED_CHARS = 16_000
ALL_VERIFIED_CHARS = 48_000
LEAST_RESULT_CHARS = 800
"""A shorter piece of a result says nothing: rather fewer results."""
BRIEFING_CHARS = 24_000
CONTRACT_CHARS = 8_000
FAILURE_CHARS = 4_000
"""Of one check that failed, or one gate."""
FAILURES_CHARS = 24_000
MOST_TESTS = 20
"""Named of one gate."""
MOST_FACTS = 40
MOST_PATHS = 100

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def task_prompt(task: Assignment, contract: Contract | None = None) -> str:
    """Return the first message of an attempt: the goal in short, the task, what holds, what came before, what is done.

    `contract` is what the work is held to; None for the action's own. Who verifies is shown what is verified as fully
    as there is room, and where it landed.
    """
    action, verifies = task.action, gives_verdict(task.action.role) or task.action.role == TESTING
    parts = [
        _goal(task.goal),
        _task(action, task.parent),
        _under("# Another approach to take", action.guidance, TASK_CHARS),
        _files(action.files),
        clip(expectations(contract or action.contract), CONTRACT_CHARS),
        _facts(task.facts),
        _verified(task.prerequisites, task.grounds) if verifies else _results(task.prerequisites),
        _under("# What earlier attempts showed", task.attempt.briefing, BRIEFING_CHARS),
    ]
    return "\n\n".join(part for part in parts if part)


def failure_prompt(verification: Verification, *, asked_for_end: bool = False) -> str:
    """Return the message that puts work that does not pass back into the same attempt."""
    refused = "You asked for an end; there is none before the work passes. " if asked_for_end else ""
    told = summary(verification)
    return f"{refused}The work was checked and does not pass yet. Mend it; say so when you are done.\n\n{told}"


def summary(verification: Verification) -> str:
    """Return what blocks in a verification, a paragraph for each check and each gate, bounded however much it is."""
    paragraphs = [*map(_paragraph, verification.failures), *map(_gate, verification.broken_gates)]
    return clip("\n\n".join(paragraphs), FAILURES_CHARS)


def clip(text: str, limit: int) -> str:
    """Return `text` within `limit` characters; what is left out is in the middle, and said."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _paragraph(result: CheckResult) -> str:
    return f"[{result.verdict}] {result.name}\n{clip(result.detail, FAILURE_CHARS)}".rstrip()


def _gate(gate: GateResult) -> str:
    """Return what is worse in a gate than it was on the base: its new failures by name, and the end of its output."""
    new = [f"- {name}: new failure" for name, verdict in gate.tests.items() if verdict == "new_failure"]
    more = max(gate.counts.get("new_failure", 0), len(new)) - MOST_TESTS
    lines = [f"[{gate.verdict}] {gate.gate.name}: `{gate.gate.command}`", *new[:MOST_TESTS]]
    if more > 0:
        lines.append(f"- … and {more} more")
    return "\n".join([*lines, clip(gate.detail, FAILURE_CHARS)]).rstrip()


def _goal(goal: Goal) -> str:
    short = clip(goal.summary, GOAL_CHARS) or _in_short(goal.description)
    return f"# Goal: {clip(goal.name, GOAL_CHARS)}\n{short}".strip()


def _in_short(text: str) -> str:
    """Return the first sentences of a text."""
    first = text.strip().partition("\n\n")[0]
    return clip(" ".join(_SENTENCE.split(first)[:GOAL_SENTENCES]), GOAL_CHARS)


def _under(heading: str, text: str, limit: int) -> str:
    return f"{heading}\n{clip(text, limit)}" if text else ""


def _task(action: Action, parent: Action | None) -> str:
    part = f"\nIt is a part of {parent.key}: {_in_short(parent.description)}" if parent else ""
    return f"# Your task: {action.key} (role: {action.role})\n{clip(action.description, TASK_CHARS)}{part}"


def _facts(facts: Sequence[Fact]) -> str:
    lines = [f"- {fact.assertion} (shown at {fact.commit[:8]})" for fact in facts]
    return "# What holds already\n" + "\n".join(_first(lines, MOST_FACTS)) if facts else ""


def _first(lines: Sequence[str], most: int) -> Iterator[str]:
    """Yield the first `most` lines, and how many more there are."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"- … and {len(lines) - most} more"


def _files(files: Sequence[str]) -> str:
    listed = _first([f"- {path}" for path in files], MOST_PATHS)
    return "# Files this task means to touch\n" + "\n".join(listed) if files else ""


def expectations(contract: Contract | None) -> str:
    """Return what a contract asks for, in lines under a heading; empty where there is none."""
    if contract is None or contract.empty:
        return ""
    lines = [contract.intent] if contract.intent else []
    lines += [f"- {_expected(check)}" for check in contract.commands]
    lines += [f"- must exist: {glob}" for glob in contract.must_exist]
    lines += [f"- must not exist: {glob}" for glob in contract.must_not_exist]
    lines += [f"- must not change: {glob}" for glob in contract.must_not_change]
    return "# The work counts as done when\n" + "\n".join(lines)


def _expected(check: Check) -> str:
    optional = "" if check.required else " (optional)"
    match check.expect:
        case ExitCode(code=code):
            return f"`{check.command}` ends with exit code {code}{optional}"
        case OutputContains(text=text):
            return f"`{check.command}` prints `{text}`{optional}"


def _results(prerequisites: Sequence[Action]) -> str:
    told = [action for action in prerequisites if action.result]
    return _section("# What was done before", told, each=RESULT_CHARS, total=RESULTS_CHARS)


def _verified(prerequisites: Sequence[Action], grounds: Sequence[Fact]) -> str:
    """Return what is to be verified: where it landed, which paths it changed, and what its workers said of it."""
    told = [action for action in prerequisites if action.result]
    landed = _first([f"- {commit[:8]}: {effects}" for commit, effects in _landings(grounds)], MOST_FACTS)
    paths = [f"- {path}" for path in sorted({path for fact in grounds for path in fact.paths})]
    parts = [
        "# What you verify: it landed as (see `git show COMMIT`)\n" + "\n".join(landed) if grounds else "",
        "# Paths it changed\n" + "\n".join(_first(paths, MOST_PATHS)) if paths else "",
        _section("# What its workers said", told, each=VERIFIED_CHARS, total=ALL_VERIFIED_CHARS),
    ]
    return "\n\n".join(part for part in parts if part)


def _landings(grounds: Sequence[Fact]) -> list[tuple[str, str]]:
    """Return each commit with the assertions it has shown."""
    shown: dict[str, list[str]] = {}
    for fact in grounds:
        shown.setdefault(fact.commit, []).append(fact.assertion)
    return [(commit, ", ".join(effects)) for commit, effects in shown.items()]


def _section(heading: str, actions: Sequence[Action], *, each: int, total: int) -> str:
    """Return the actions' results below a heading: at most `each` characters of one, and `total` of all."""
    if not actions:
        return ""
    share = max(LEAST_RESULT_CHARS, min(each, total // len(actions)))
    shown = actions[: total // share]
    told = [f"## {action.key}: {_in_short(action.description)}\n{clip(action.result or '', share)}" for action in shown]
    if len(actions) > len(shown):
        told.append(f"… and the results of {len(actions) - len(shown)} more actions")
    return "\n\n".join([heading + "\n" + told[0], *told[1:]])
