"""Stop agents in a loop, which repeat the same tool calls with the same answers."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from scaffold.core.conversation import (
    AssistantMessage,
    DeltaHandler,
    Message,
    Reply,
    Request,
    Text,
    ToolCall,
    ToolResult,
    ignore_delta,
)
from scaffold.core.errors import ModelError
from scaffold.core.model import Usage
from scaffold.core.ports import Model

MAX_REPEATS = 3
"""How often the same call gets the same answer, with nothing new in between, in a loop."""
_Exchange = tuple[str, bytes, str]
"""(tool name, arguments as JSON, answer) of one call."""


class LoopDetected(ModelError):
    """The agent is in a loop; another request to its model would only cost more."""


class LoopGuardModel:
    """Wraps a model and raises LoopDetected once the conversation is in a loop. Implements `core.ports.Model`."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def window_tokens(self) -> int | None:
        """Return the window of the wrapped model."""
        return self._model.window_tokens

    def estimate(self, request: Request) -> Usage:
        """Return the estimate of the wrapped model."""
        return self._model.estimate(request)

    async def reply(self, request: Request, on_delta: DeltaHandler = ignore_delta) -> Reply:
        """Return the model's reply; raises LoopDetected if the conversation is in a loop."""
        tool = find_repeated_tool(request.messages)
        if tool is not None:
            what = (
                f"the agent was stopped in a loop: `{tool}` gave the same answer to the same call {MAX_REPEATS} times"
            )
            raise LoopDetected(what, "Its journal shows what it tried to do.")
        return await self._model.reply(request, on_delta)


def find_repeated_tool(messages: Sequence[Message]) -> str | None:
    """Return the tool that gave the same answer to the same call `MAX_REPEATS` times with nothing new in between.

    None if there is none. Only calls after the user's last message count.
    """
    seen: set[_Exchange] = set()
    repeats: Counter[_Exchange] = Counter()
    for exchanges in _exchanges_by_reply(messages):
        # One new exchange makes a reply progress, however many old ones it repeats.
        if exchanges <= seen:
            repeats.update(exchanges)
        else:
            repeats.clear()
        seen |= exchanges
        for each in exchanges:
            if repeats[each] == MAX_REPEATS - 1:
                return each[0]
    return None


def _exchanges_by_reply(messages: Sequence[Message]) -> Iterator[set[_Exchange]]:
    """Yield the exchanges of each reply since the user's last message."""
    text_positions = [
        i
        for i, message in enumerate(messages)
        if not isinstance(message, AssistantMessage) and any(isinstance(part, Text) for part in message.parts)
    ]
    calls: dict[str, ToolCall] = {}
    for message in messages[text_positions[-1] if text_positions else 0 :]:
        if isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.tool_calls}
        elif answers := [part for part in message.parts if isinstance(part, ToolResult) and part.call_id in calls]:
            # A set, because the order of parallel calls and duplicates in one reply do not matter. Sorted arguments,
            # because models vary the order of keys.
            asked = ((calls[answer.call_id], answer.content) for answer in answers)
            yield {(call.name, msgspec.json.encode(call.args, order="sorted"), content) for call, content in asked}
