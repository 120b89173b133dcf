"""What the critic of a change is told, and what its words become for the agent: pure text, bounded."""

from collections.abc import Iterator

from scaffold.core.contract import Contract, Verification
from scaffold.core.model import Action
from scaffold.worker.context import clip, expectations
from scaffold.worker.critique import HIGHEST, SHAPE, Critique, written

TASK_CHARS = 16_000
CONTRACT_CHARS = 8_000
DIFF_CHARS = 48_000
CRITIQUE_CHARS = 12_000
MOST_RESULTS = 60


def critique_prompt(
    action: Action, contract: Contract | None, verification: Verification, diff: str, *, iteration: int, maximum: int
) -> str:
    """Return the question for a critique of work that has passed `verification`."""
    shown = list(_shown(verification))
    more = [f"- … and {len(shown) - MOST_RESULTS} more"] if len(shown) > MOST_RESULTS else []
    parts = [
        f"# The task: {action.key} (role: {action.role})\n{clip(action.description, TASK_CHARS)}",
        clip(expectations(contract), CONTRACT_CHARS),
        "\n".join(["# What was checked", *shown[:MOST_RESULTS], *more]),
        f"# The change\n```diff\n{clip(diff, DIFF_CHARS)}\n```",
        f"This is iteration {iteration} of {maximum}. Criticise the change.",
    ]
    return "\n\n".join(part for part in parts if part)


def malformed_prompt(why: str) -> str:
    """Return the words for an answer that is no critique."""
    return f"That cannot be used as a critique. {why}\nGive it again; it ends with the lines {SHAPE}."


def improve_prompt(critique: Critique) -> str:
    """Return the message that puts work that passes back into the same attempt."""
    told = clip(written(critique), CRITIQUE_CHARS)
    return (
        f"The work passes its checks. A critic looked at it and gave {critique.total} of {HIGHEST}. Improve what is "
        "worth it; what you leave is checked again. Where the critic is wrong, leave it as it is and say why.\n\n"
        f"{told}"
    )


def _shown(verification: Verification) -> Iterator[str]:
    yield from (f"- {result.verdict}: {result.name}" for result in verification.results)
    yield from (f"- {gate.verdict}: {gate.gate.name}, `{gate.gate.command}`" for gate in verification.gates)
