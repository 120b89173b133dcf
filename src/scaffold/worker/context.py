"""What a worker is told: pure text, built from the store's values."""

from collections.abc import Sequence

from scaffold.core.contract import Check, CheckResult, Contract, ExitCode, OutputContains, Verification
from scaffold.core.model import Action, Goal

RESULT_CHARS = 4_000
BRIEFING_CHARS = 24_000


def task_prompt(goal: Goal, action: Action, prerequisites: Sequence[Action], briefing: str) -> str:
    """Return the first message of an attempt: the goal in short, the task, what came before, what counts as done."""
    parts = [
        f"# Goal: {goal.name}\n{goal.description}".strip(),
        f"# Your task: {action.key}\n{action.description}",
        _files(action.files),
        _contract(action.contract),
        _results(prerequisites),
        f"# What earlier attempts showed\n{clip(briefing, BRIEFING_CHARS)}" if briefing else "",
    ]
    return "\n\n".join(part for part in parts if part)


def failure_prompt(verification: Verification) -> str:
    """Return the message that puts a failed contract back into the same attempt."""
    return f"The work was checked and does not pass yet. Mend it; say so when you are done.\n\n{summary(verification)}"


def summary(verification: Verification) -> str:
    """Return the failures of a verification, a paragraph each."""
    return "\n\n".join(_paragraph(result) for result in verification.failures)


def clip(text: str, limit: int) -> str:
    """Return `text` within `limit` characters; what is left out is in the middle, and said."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _paragraph(result: CheckResult) -> str:
    return f"[{result.verdict}] {result.name}\n{result.detail}".rstrip()


def _files(files: Sequence[str]) -> str:
    return "# Files this task means to touch\n" + "\n".join(f"- {path}" for path in files) if files else ""


def _contract(contract: Contract | None) -> str:
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
    told = [
        f"## {action.key}: {action.description}\n{clip(action.result, RESULT_CHARS)}"
        for action in prerequisites
        if action.result
    ]
    return "# What was done before\n" + "\n\n".join(told) if told else ""
