"""Failures of a verification as text for the next attempt or iteration; bounded, however many checks failed."""

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.gates import GateResult

FAILURE_CHARS = 4_000
"""The limit for one failed check or gate."""
FAILURES_CHARS = 24_000
MAX_TESTS = 20
"""Failed tests named per gate."""


def summarize_failures(verification: Verification) -> str:
    """Return the blocking checks and gates, one paragraph each, at most FAILURES_CHARS characters."""
    paragraphs = [*map(_check_paragraph, verification.failures), *map(_gate_paragraph, verification.broken_gates)]
    return clip("\n\n".join(paragraphs), FAILURES_CHARS)


def clip(text: str, limit: int) -> str:
    """Return `text` within `limit` characters; the middle is left out and replaced by a note."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters omitted …\n{text[-half:]}"


def _check_paragraph(result: CheckResult) -> str:
    return f"[{result.verdict}] {result.name}\n{clip(result.detail, FAILURE_CHARS)}".rstrip()


def _gate_paragraph(gate: GateResult) -> str:
    """Return a gate's regressions: its new failures by name, and its output."""
    new = [f"- {name}: new failure" for name, verdict in gate.tests.items() if verdict == "new_failure"]
    more = max(gate.counts.get("new_failure", 0), len(new)) - MAX_TESTS
    lines = [f"[{gate.verdict}] {gate.gate.name}: `{gate.gate.command}`", *new[:MAX_TESTS]]
    if more > 0:
        lines.append(f"- … and {more} more")
    return "\n".join([*lines, clip(gate.detail, FAILURE_CHARS)]).rstrip()
