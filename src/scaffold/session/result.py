"""How one call of `ralph` ended: the object that `--output-format json` prints."""

from collections.abc import Mapping

from scaffold.core.conversation import AssistantMessage, Message
from scaffold.core.errors import BudgetExceeded, ScaffoldError, TurnLimitExceeded
from scaffold.core.model import Usage
from scaffold.core.ports import NO_USAGE, History


class UsageCounter:
    """A history that also counts what this call alone used; a Protocol `History` around another one."""

    def __init__(self, inner: History) -> None:
        self._inner = inner
        self.usage = Usage()
        self.text = ""
        """The words of the last reply."""

    def add(self, message: Message, usage: Usage = NO_USAGE) -> None:
        """Keep the message, and count what it cost."""
        self._inner.add(message, usage)
        self.usage += usage
        if isinstance(message, AssistantMessage):
            self.text = message.text

    def compact(self, kept: int, summary: str) -> None:
        """Pass it on."""
        self._inner.compact(kept, summary)


def stop_reason(trouble: ScaffoldError) -> str:
    """Return the word for a call that ended with an error."""
    match trouble:
        case TurnLimitExceeded():
            return "max_turns"
        case BudgetExceeded():
            return "budget"
        case _:
            return "error"


def result_json(
    *,
    session: str,
    model: str,
    result: str,
    usage: Usage,
    stop: str,
    error: str | None = None,
    others: Usage = NO_USAGE,
) -> Mapping[str, object]:
    """Return the object; `result` is the last reply's text, empty where there was none.

    `usage` is the agent's own, `others` what its subagents used besides.
    """
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
        "stop_reason": stop,
        "error": error,
    }
