"""What is said between an agent and a model, in our own words; codecs translate to the wires."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from scaffold.core.model import Usage
from scaffold.core.tool import Tool


class Text(Struct, frozen=True, tag="text"):
    """Plain words."""

    text: str


class Thinking(Struct, frozen=True, tag="thinking"):
    """A model's thoughts, shown but never taken for an answer."""

    text: str


class ToolCall(Struct, frozen=True, tag="tool_call"):
    """A model's wish to have a tool run; ids are unique within a conversation."""

    id: str
    name: str
    args: Mapping[str, Any]


class ToolResult(Struct, frozen=True, tag="tool_result"):
    """What came of a tool call."""

    call_id: str
    name: str
    content: str
    failed: bool = False


class UserMessage(Struct, frozen=True, tag="user"):
    """The user's, or the orchestrator's, words and the results of tools."""

    parts: tuple[Text | ToolResult, ...]


class AssistantMessage(Struct, frozen=True, tag="assistant"):
    """A model's reply."""

    parts: tuple[Text | Thinking | ToolCall, ...]

    @property
    def text(self) -> str:
        """All plain words, joined; empty if there are none."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, in the order the model made them."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


Message = UserMessage | AssistantMessage

StopReason = Literal["end", "tool_calls", "max_tokens"]


class Caller(Struct, frozen=True, kw_only=True):
    """Who asks: enough to find the reply on a cassette, and to account for the cost."""

    role: str
    action: str | None = None
    attempt: int = 1
    turn: int = 1
    """This agent's requests, from 1 in each attempt; for planners and the like in each of their turns."""
    event: str | None = None


class Request(Struct, frozen=True, kw_only=True):
    """One question to a model."""

    caller: Caller
    system: str
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()


class Reply(Struct, frozen=True, kw_only=True):
    """One whole answer; a reply that was cut off anywhere never becomes one."""

    message: AssistantMessage
    usage: Usage
    stop: StopReason
