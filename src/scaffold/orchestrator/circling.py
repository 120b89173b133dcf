"""Agents that go round in circles: asking the same again, and being told the same again."""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from scaffold.core.conversation import (
    AssistantMessage,
    Hear,
    Message,
    Reply,
    Request,
    Text,
    ToolCall,
    ToolResult,
    unheard,
)
from scaffold.core.errors import ModelTrouble
from scaffold.core.model import Usage
from scaffold.core.ports import Model

SAME = 3
"""So many times the same call with the same answer, and nothing new in between, is a circle."""

_Told = tuple[str, bytes, str]
"""A tool, what it was asked, and what it answered."""


class Circling(ModelTrouble):
    """The agent goes round in circles: asking its model once more would only cost more."""


class Attentive:
    """A model that is not asked any more once the conversation goes round in circles. Implements `core.ports.Model`."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def window_tokens(self) -> int | None:
        """Return the window of the model behind it."""
        return self._model.window_tokens

    def estimate(self, request: Request) -> Usage:
        """Return what the model behind it estimates."""
        return self._model.estimate(request)

    async def reply(self, request: Request, hear: Hear = unheard) -> Reply:
        """Return the model's reply; Circling if nothing new comes of the conversation."""
        tool = circle(request.messages)
        if tool is not None:
            what = f"the agent went round in circles: `{tool}` gave the same answer to the same call {SAME} times"
            raise Circling(what, "Look into its journal for what it was after.")
        return await self._model.reply(request, hear)


def circle(messages: Sequence[Message]) -> str | None:
    """Return the tool that was last told the same `SAME` times with nothing new in between, None if there is none.

    Only what came after the last words of the user counts.
    """
    seen: set[_Told] = set()
    again: Counter[_Told] = Counter()
    for told in _exchanges(messages):
        if told <= seen:
            again.update(told)
        else:
            again.clear()
        seen |= told
        for each in told:
            if again[each] == SAME - 1:
                return each[0]
    return None


def _exchanges(messages: Sequence[Message]) -> Iterator[set[_Told]]:
    """Yield what was called and answered since the last words, reply by reply; equal calls of one reply are one."""
    said = [i for i, message in enumerate(messages) if _says(message)]
    calls: dict[str, ToolCall] = {}
    for message in messages[said[-1] if said else 0 :]:
        if isinstance(message, AssistantMessage):
            calls |= {call.id: call for call in message.tool_calls}
        elif answers := [part for part in message.parts if isinstance(part, ToolResult) and part.call_id in calls]:
            yield {_told(calls[answer.call_id], answer) for answer in answers}


def _says(message: Message) -> bool:
    return not isinstance(message, AssistantMessage) and any(isinstance(part, Text) for part in message.parts)


def _told(call: ToolCall, answer: ToolResult) -> _Told:
    return call.name, msgspec.json.encode(call.args, order="sorted"), answer.content
