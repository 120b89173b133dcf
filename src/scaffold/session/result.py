"""The usage and the result of one call of `ralph`: the object that `--output-format json` prints."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from scaffold.core.conversation import AssistantMessage, Message
from scaffold.core.errors import BudgetExceeded, ScaffoldError, TurnLimitExceeded
from scaffold.core.model import Usage
from scaffold.core.ports import NO_USAGE, History


class UsageCounter:
    """A `History` around another one; also counts the usage of this session alone."""

    def __init__(self, inner: History, model: str = "") -> None:
        self._inner = inner
        self.model = model
        """The model that answers; set it when the session switches."""
        self.by_model: dict[str, Usage] = {}
        self.text = ""
        """The text of the last reply."""

    @property
    def usage(self) -> Usage:
        """The usage of all models together."""
        return sum(self.by_model.values(), Usage())

    def add(self, message: Message, usage: Usage = NO_USAGE) -> None:
        """Store the message and count its usage."""
        self._inner.add(message, usage)
        if isinstance(message, AssistantMessage):
            self._count_reply(usage)
            self.text = message.text

    def draft(self, message: Message) -> None:
        """Store what is the next message if the process dies now."""
        self._inner.draft(message)

    def spend(self, usage: Usage) -> None:
        """Store and count usage that no message came of."""
        self._inner.spend(usage)
        self._count_reply(usage)

    def compact(self, kept: int, summary: str) -> None:
        """Compact the inner history."""
        self._inner.compact(kept, summary)

    def _count_reply(self, usage: Usage) -> None:
        self.by_model[self.model] = self.by_model.get(self.model, Usage()) + usage


def stop_reason(error: ScaffoldError) -> str:
    """Return the `stop_reason` of a call that ended with this error."""
    match error:
        case TurnLimitExceeded():
            return "max_turns"
        case BudgetExceeded():
            return "budget"
        case _:
            return "error"


class Ending(Struct, frozen=True, kw_only=True):
    """How a call of `ralph` ended."""

    stop: str = "end"
    """As `stop_reason` returns it, `end`, `refused` or `interrupted`."""
    error: str | None = None
    denials: Sequence[Mapping[str, object]] = ()
    """As `DecisionRecord.denials`."""


DONE = Ending()


def result_json(
    *, session: str, model: str, result: str, usage: Usage, others: Usage = NO_USAGE, ending: Ending = DONE
) -> Mapping[str, object]:
    """Return the result object; `result` is the last reply's text, `usage` the agent's own, `others` its subagents'."""
    total = usage + others
    return {
        "result": result,
        "session_id": session,
        "model": model,
        "usage": {
            "input_tokens": total.input_tokens,
            "cached_input_tokens": total.cached_input_tokens,
            "output_tokens": total.output_tokens,
            "cost_usd": total.cost_usd,
            "requests": total.requests,
        },
        "turns": usage.requests,
        "stop_reason": ending.stop,
        "permission_denials": list(ending.denials),
        "error": ending.error,
    }
