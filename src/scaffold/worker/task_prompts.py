"""Prompts for workers: pure text built from the store's values, bounded however large the plan is."""

import re
from collections.abc import Iterator, Sequence

from scaffold.core.model import Action, Fact
from scaffold.core.plan import full_text
from scaffold.core.printable_text import count_of, truncate_text
from scaffold.core.proof.contract import Check, Contract, ExitCode, OutputContains, Verification
from scaffold.run.attempts.assignment import TESTING_ROLE, Assignment, Declaration, task_of
from scaffold.run.failures.refused_work import summarize_failures
from scaffold.verify.contract.review_verdict import is_review

GOAL_CHARS = 600
GOAL_SENTENCES = 2
TASK_CHARS = 16_000
RESULT_CHARS = 4_000
RESULTS_CHARS = 16_000
VERIFIED_CHARS = 16_000
ALL_VERIFIED_CHARS = 48_000
MIN_RESULT_CHARS = 800
"""A shorter piece of a result is useless: show fewer results instead."""
BRIEFING_CHARS = 24_000
CONTRACT_CHARS = 8_000
MAX_FACTS = 40
MAX_PATHS = 100

KEPT_FILES = """\
Ask for others with `request_files` before you change them; new tests in new files need no request.
Work is refused at once, and its attempt ends, if it changes existing tests, their data, what configures checks (such as
conftest.py), or protected files and areas that were neither listed nor granted."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
IGNORED_FILES = "ignored files"
"""The name of the result that says which files git ignores."""


def task_prompt(
    task: Assignment,
    contract: Contract | None = None,
    declaration: Declaration | None = None,
    named_tests: Sequence[str] = (),
) -> str:
    """Return the first message of an attempt: goal, task, facts, earlier results, earlier attempts.

    `contract` and `declaration` None mean the action's own; the `named_tests` are declared as it lists no files.
    Reviewers and testers see the results they verify in more detail, and the commits these landed as.
    """
    action, reviews = task.action, is_review(task.action)
    verifies = reviews or action.role == TESTING_ROLE
    before = [each for each in task.prerequisites if each.result]
    facts = [f"- {fact.assertion} (shown at {fact.commit[:8]})" for fact in task.facts]
    parent = task.parent
    part_of = f"\nIt is a part of {parent.key}: {_first_sentences(full_text(parent))}" if parent else ""
    goal = task.goal
    # The description is the user's or planner's; the summary is a model's, and says what was done, not what to do.
    so_far = f"\nSo far: {truncate_text(goal.summary, GOAL_CHARS)}" if goal.summary else ""
    parts = [
        f"# Goal: {truncate_text(goal.name, GOAL_CHARS)}\n{_first_sentences(goal.description)}{so_far}".strip(),
        f"# Your task: {action.key} (role: {action.role})\n{truncate_text(full_text(action), TASK_CHARS)}{part_of}",
        clipped_section("# Another approach to take", action.guidance, TASK_CHARS),
        files_section(
            declaration or Declaration(task=task_of(action), planned=action.files), named_tests, asks=not reviews
        ),
        truncate_text(contract_section(contract or action.contract), CONTRACT_CHARS),
        "# What already holds\n" + "\n".join(_first_lines(facts, MAX_FACTS)) if facts else "",
        _verified_section(before, task.prerequisite_facts)
        if verifies
        else _results_section("# What was done before", before, each=RESULT_CHARS, total=RESULTS_CHARS),
        clipped_section("# What earlier attempts showed", task.attempt.briefing, BRIEFING_CHARS),
    ]
    return "\n\n".join(part for part in parts if part)


def failure_prompt(verification: Verification, *, asked_for_end: bool = False) -> str:
    """Return the prompt that sends failing work back to its agent."""
    refused = "You asked to stop, but the work does not pass. " if asked_for_end else ""
    ignored = (each.detail for each in verification.results if each.name == IGNORED_FILES)
    failures = "\n\n".join([summarize_failures(verification), *ignored])
    return f"{refused}The work was checked and does not pass yet.\n\n{failures}\n\nSay so when you are done."


def _first_sentences(text: str) -> str:
    first = text.strip().partition("\n\n")[0]
    return truncate_text(" ".join(_SENTENCE.split(first)[:GOAL_SENTENCES]), GOAL_CHARS)


def clipped_section(heading: str, text: str, limit: int) -> str:
    """Return the text under its heading, cut to `limit` characters; empty without text."""
    return f"{heading}\n{truncate_text(text, limit)}" if text else ""


def _first_lines(lines: Sequence[str], most: int) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"- … and {len(lines) - most} more"


def files_section(declaration: Declaration, named_tests: Sequence[str], *, asks: bool) -> str:
    """Return the declared files, and which others end the attempt; `asks` if the agent can ask for others."""
    kept = f"\n{KEPT_FILES}" if asks else ""
    granted = [f"- {path} (granted on request)" for path in declaration.all if path not in declaration.planned]
    listed = "\n".join(
        _first_lines([*(f"- {path}" for path in (*declaration.planned, *named_tests)), *granted], MAX_PATHS)
    )
    if named_tests:
        return f"# Files\nNone is listed. These may change, as the task names them or what they test:\n{listed}{kept}"
    if listed:
        return f"# Files this task is expected to change\n{listed}{kept}"
    return f"# Files\nNone is listed.{kept}" if asks else ""


def contract_section(contract: Contract | None) -> str:
    """Return the contract as a list under a heading; empty if it is None or empty."""
    if contract is None or contract.empty:
        return ""
    lines = [contract.intent] if contract.intent else []
    lines += [f"- {_check_line(check)}" for check in contract.commands]
    lines += [f"- must exist: {glob}" for glob in contract.must_exist]
    lines += [f"- must not exist: {glob}" for glob in contract.must_not_exist]
    lines += [f"- must not change: {glob}" for glob in contract.must_not_change]
    return "# The work counts as done when\n" + "\n".join(lines)


def _check_line(check: Check) -> str:
    optional = "" if check.required else " (optional)"
    match check.expect:
        case ExitCode(code=code):
            return f"`{check.command}` ends with exit code {code}{optional}"
        case OutputContains(text=text):
            return f"`{check.command}` prints `{text}`{optional}"


def _verified_section(finished: Sequence[Action], facts: Sequence[Fact]) -> str:
    shown: dict[str, list[str]] = {}
    for fact in facts:
        shown.setdefault(fact.commit, []).append(fact.assertion)
    landed = _first_lines([f"- {commit[:8]}: {', '.join(effects)}" for commit, effects in shown.items()], MAX_FACTS)
    paths = [f"- {path}" for path in sorted({path for fact in facts for path in fact.paths})]
    parts = [
        "# Commits of the work that you verify (see `git show COMMIT`)\n" + "\n".join(landed) if facts else "",
        "# Paths it changed\n" + "\n".join(_first_lines(paths, MAX_PATHS)) if paths else "",
        _results_section("# What its agents reported", finished, each=VERIFIED_CHARS, total=ALL_VERIFIED_CHARS),
    ]
    return "\n\n".join(part for part in parts if part)


def _results_section(heading: str, actions: Sequence[Action], *, each: int, total: int) -> str:
    if not actions:
        return ""
    share = max(MIN_RESULT_CHARS, min(each, total // len(actions)))
    shown = actions[: total // share]
    sections = [
        f"## {action.key}: {_first_sentences(full_text(action))}\n{truncate_text(action.result or '', share)}"
        for action in shown
    ]
    if len(actions) > len(shown):
        sections.append(f"… and the results of {count_of(len(actions) - len(shown), 'more action')}")
    return "\n\n".join([heading + "\n" + sections[0], *sections[1:]])


def result_lines(verification: Verification) -> Iterator[str]:
    """Yield a line for each check and gate with its verdict."""
    yield from (f"- {result.verdict}: {result.name}" for result in verification.results)
    yield from (f"- {gate.verdict}: {gate.gate.name}, `{gate.gate.command}`" for gate in verification.gates)
