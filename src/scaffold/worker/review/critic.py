"""The critic: scores work that has passed its checks and suggests improvements. With its prompts."""

from scaffold.core.errors import BudgetExceeded, ModelError
from scaffold.core.model import Action
from scaffold.core.plan import full_text
from scaffold.core.printable_text import truncate_text
from scaffold.core.proof.contract import Contract, Verification
from scaffold.git import commits
from scaffold.worker.agent.agent_source import AgentSource
from scaffold.worker.agent.side_agent import SideAgent
from scaffold.worker.agent.watchdog import NoProgress
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.review.critique import (
    MAX_TOTAL,
    SCORE_FORMAT,
    Critique,
    MalformedCritique,
    format_critique,
    read_critique,
)
from scaffold.worker.task_prompts import contract_section, result_lines
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace

MAX_ASKS = 3
"""Answers a critic may give until one can be used."""

TASK_CHARS = 16_000
CONTRACT_CHARS = 8_000
DIFF_BYTES = 128 * 1024
"""Bytes of the change's diff that are read; the prompt has fewer."""
DIFF_CHARS = 48_000
CRITIQUE_CHARS = 12_000
MAX_RESULTS = 60


class Critic:
    """Criticises the work of one attempt and is paid from its budget; each critique is a new conversation."""

    def __init__(self, workspace: AttemptWorkspace, records: AttemptRecords, source: AgentSource) -> None:
        self._workspace = workspace
        self._records = records
        self._source = source

    async def critique(self, verification: Verification, contract: Contract | None, iteration: int) -> Critique | None:
        """Return a critique of work that has passed; None, with a warning in the run, if none can be used."""
        task, workspace = self._records.task, self._workspace
        question = critique_prompt(
            task.action,
            contract,
            verification,
            await commits.diff_text(workspace.git, workspace.base, verification.commit, limit_bytes=DIFF_BYTES),
            iteration=iteration,
            maximum=task.run.settings.tier.iterations,
        )
        side_agent = SideAgent(workspace, self._records, self._source, "critic")
        # The work has passed, so a critic that fails must not lose it.
        try:
            answer = await _ask_critic(side_agent, question)
        except (ModelError, BudgetExceeded) as error:
            answer = error.what
        if isinstance(answer, Critique):
            return answer
        side_agent.warn(f"{task.action.key} was not critiqued: {answer}")
        return None


async def _ask_critic(side_agent: SideAgent, prompt: str) -> Critique | str:
    why = ""
    for _ in range(MAX_ASKS):
        finish = await side_agent.turn(prompt)
        if isinstance(finish, NoProgress):
            return finish.cause
        # The text of a refusal may quote a score from the diff.
        refused = finish.stop == "refused"
        read = MalformedCritique("It was a refusal.") if refused else read_critique(finish.text)
        if isinstance(read, Critique):
            return read
        why, prompt = read.why, malformed_prompt(read.why)
    return f"none of its {MAX_ASKS} answers can be used. {why}"


def critique_prompt(
    action: Action, contract: Contract | None, verification: Verification, diff: str, *, iteration: int, maximum: int
) -> str:
    """Return the prompt for a critique of work that has passed `verification`."""
    shown = list(result_lines(verification))
    more = [f"- … and {len(shown) - MAX_RESULTS} more"] if len(shown) > MAX_RESULTS else []
    parts = [
        f"# The task: {action.key} (role: {action.role})\n{truncate_text(full_text(action), TASK_CHARS)}",
        truncate_text(contract_section(contract), CONTRACT_CHARS),
        "\n".join(["# What was checked", *shown[:MAX_RESULTS], *more]),
        f"# The change\n```diff\n{truncate_text(diff, DIFF_CHARS)}\n```",
        f"This is iteration {iteration} of {maximum}. Critique the change.",
    ]
    return "\n\n".join(part for part in parts if part)


def malformed_prompt(why: str) -> str:
    """Return the prompt after an answer that is not a valid critique."""
    return f"That is not a valid critique. {why}\nWrite it again and end it with the lines {SCORE_FORMAT}."


def improve_prompt(critique: Critique) -> str:
    """Return the prompt that sends passing work back to its agent for improvement."""
    text = truncate_text(format_critique(critique), CRITIQUE_CHARS)
    return (
        f"The work passes its checks. A critic gave it {critique.total} of {MAX_TOTAL}:\n\n{text}\n\n"
        "Make the improvements that are worth it; the result is checked again. Where the critic is wrong, change "
        "nothing and say why."
    )
