"""The critic: it looks at work that has passed its checks, and says how good it is and what would make it better."""

from scaffold.agent.agent import Finish
from scaffold.core.errors import BudgetSpent, ModelTrouble
from scaffold.core.ports import Model
from scaffold.worker.adviser import Adviser
from scaffold.worker.critic_prompt import malformed_prompt
from scaffold.worker.critique import Critique, Malformed, read_critique
from scaffold.worker.station import Station
from scaffold.worker.watch import Stuck

ASKS = 3
"""How often a critic is asked until its answer can be used."""


class Critic:
    """Criticises the work of one attempt, which pays for it; each critique is a conversation of its own."""

    def __init__(self, station: Station, model: Model) -> None:
        self._station = station
        self._model = model

    async def critique(self, question: str) -> Critique | None:
        """Ask until the answer is a critique; None if there is none to be had, which the run is warned of.

        The work has passed: whatever becomes of its critic, it is not lost.
        """
        key, adviser = self._station.task.action.key, Adviser(self._station, self._model, "critic")
        try:
            answer = await _answer(adviser, question)
        except (ModelTrouble, BudgetSpent) as trouble:
            adviser.warn(f"Nobody criticised {key}: {trouble.what}")
            return None
        if isinstance(answer, Critique):
            return answer
        adviser.warn(f"Nobody criticised {key}: {answer}")
        return None


async def _answer(adviser: Adviser, said: str) -> Critique | str:
    """Return a critique, or why there is none."""
    why = ""
    for _ in range(ASKS):
        finish = await adviser.turn(said)
        if isinstance(finish, Stuck):
            return finish.cause
        read = _read(finish)
        if isinstance(read, Critique):
            return read
        why, said = read.why, malformed_prompt(read.why)
    return f"no answer of {ASKS} can be used. {why}"


def _read(finish: Finish) -> Critique | Malformed:
    return Malformed("It was a refusal.") if finish.stop == "refused" else read_critique(finish.text)
