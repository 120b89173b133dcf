"""Prompts for the critic of a change, and its critique as a prompt for the agent: pure text, bounded."""

from collections.abc import Iterator

from scaffold.core.contract import Contract, Verification
from scaffold.core.model import Action
from scaffold.run.failure_summary import clip
from scaffold.worker.critique import MAX_TOTAL, SCORE_FORMAT, Critique, format_critique
from scaffold.worker.prompts import contract_section

TASK_CHARS = 16_000
CONTRACT_CHARS = 8_000
DIFF_CHARS = 48_000
CRITIQUE_CHARS = 12_000
MAX_RESULTS = 60


def critique_prompt(
    action: Action, contract: Contract | None, verification: Verification, diff: str, *, iteration: int, maximum: int
) -> str:
    """Return the prompt for a critique of work that has passed `verification`."""
    shown = list(_result_lines(verification))
    more = [f"- … and {len(shown) - MAX_RESULTS} more"] if len(shown) > MAX_RESULTS else []
    parts = [
        f"# The task: {action.key} (role: {action.role})\n{clip(action.description, TASK_CHARS)}",
        clip(contract_section(contract), CONTRACT_CHARS),
        "\n".join(["# What was checked", *shown[:MAX_RESULTS], *more]),
        f"# The change\n```diff\n{clip(diff, DIFF_CHARS)}\n```",
        f"This is iteration {iteration} of {maximum}. Criticise the change.",
    ]
    return "\n\n".join(part for part in parts if part)


def malformed_prompt(why: str) -> str:
    """Return the prompt after an answer that is not a valid critique."""
    return f"That is not a valid critique. {why}\nWrite it again and end it with the lines {SCORE_FORMAT}."


def improve_prompt(critique: Critique) -> str:
    """Return the prompt that sends passing work back to its agent for improvement."""
    text = clip(format_critique(critique), CRITIQUE_CHARS)
    return (
        f"The work passes its checks. A critic gave it {critique.total} of {MAX_TOTAL}. Make the improvements that are "
        "worth it; the result is checked again. Where the critic is wrong, change nothing and say why.\n\n"
        f"{text}"
    )


def _result_lines(verification: Verification) -> Iterator[str]:
    yield from (f"- {result.verdict}: {result.name}" for result in verification.results)
    yield from (f"- {gate.verdict}: {gate.gate.name}, `{gate.gate.command}`" for gate in verification.gates)
