"""The critic: scores work that has passed its checks and suggests improvements."""

from scaffold.agent.turn_loop import TurnResult
from scaffold.core.errors import BudgetExceeded, ModelError
from scaffold.core.ports import Model
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.critic_prompt import malformed_prompt
from scaffold.worker.critique import Critique, MalformedCritique, read_critique
from scaffold.worker.side_agent import SideAgent
from scaffold.worker.turn_watchdog import NoProgress

MAX_ASKS = 3
"""Answers a critic may give until one can be used."""


class Critic:
    """Criticises the work of one attempt and is paid from its budget; each critique is a new conversation."""

    def __init__(self, context: AttemptContext, model: Model) -> None:
        self._context = context
        self._model = model

    async def critique(self, question: str) -> Critique | None:
        """Return a critique; None, with a warning in the run, if the critic gives no usable one.

        The work has passed, so a failing critic must not lose it.
        """
        key, side_agent = self._context.task.action.key, SideAgent(self._context, self._model, "critic")
        try:
            answer = await _answer(side_agent, question)
        except (ModelError, BudgetExceeded) as error:
            side_agent.warn(f"{key} was not criticised: {error.what}")
            return None
        if isinstance(answer, Critique):
            return answer
        side_agent.warn(f"{key} was not criticised: {answer}")
        return None


async def _answer(side_agent: SideAgent, prompt: str) -> Critique | str:
    """Return a critique, or the reason why none could be read."""
    why = ""
    for _ in range(MAX_ASKS):
        finish = await side_agent.turn(prompt)
        if isinstance(finish, NoProgress):
            return finish.cause
        read = _read(finish)
        if isinstance(read, Critique):
            return read
        why, prompt = read.why, malformed_prompt(read.why)
    return f"none of its {MAX_ASKS} answers can be used. {why}"


def _read(finish: TurnResult) -> Critique | MalformedCritique:
    return MalformedCritique("It was a refusal.") if finish.stop == "refused" else read_critique(finish.text)
