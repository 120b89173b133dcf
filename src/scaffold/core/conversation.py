"""What is said between an agent and a model, in our own words; codecs translate to the wires."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from scaffold.core.model import Usage
from scaffold.core.tool import Tool


class Text(Struct, frozen=True, tag="text"):
    """Plain words."""

    text: str


ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


class Image(Struct, frozen=True, tag="image"):
    """A picture the user attached; in JSON its bytes are base64."""

    media_type: ImageType
    data: bytes


class Thinking(Struct, frozen=True, tag="thinking"):
    """A model's thoughts, shown but never taken for an answer.

    Some providers want their thoughts back unchanged, and check it: what they need for that is kept unread.
    """

    text: str
    seal: str = ""
    """A signature over `text`, or the thoughts in a form only the provider can read."""
    id: str = ""
    """The provider's own name of this thought; empty where it gives none."""
    redacted: bool = False
    """Whether there is nothing to read: all there is, is the seal."""


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
    """The user's, or the orchestrator's, words and pictures, and the results of tools."""

    parts: tuple[Text | Image | ToolResult, ...]


class AssistantMessage(Struct, frozen=True, tag="assistant"):
    """A model's reply."""

    parts: tuple[Text | Thinking | ToolCall, ...]
    model: str = ""
    """The model string of who said it; thoughts go back to no other model. Empty for replies nobody will continue."""

    @property
    def text(self) -> str:
        """All plain words, joined; empty if there are none."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, in the order the model made them."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


Message = UserMessage | AssistantMessage

StopReason = Literal["end", "tool_calls", "max_tokens", "refused"]
Effort = Literal["low", "medium", "high"]


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
    """The base prompt: the same bytes in every request of a session, or providers cannot cache it."""
    context: str = ""
    """What may differ from request to request, kept apart from `system`."""
    messages: Sequence[Message]
    """Appended to, never rewritten, or what was encoded and cached is of no use."""
    tools: Sequence[Tool] = ()
    answer_schema: Mapping[str, Any] | None = None
    """A JSON schema, an object, that the reply's text must fit; None for free text."""
    effort: Effort | None = None
    """How much thinking is wanted; None leaves it to the provider."""
    max_output_tokens: int | None = None
    """None for as many as the model may give."""


class Reply(Struct, frozen=True, kw_only=True):
    """One whole answer; a reply that was cut off anywhere never becomes one."""

    message: AssistantMessage
    usage: Usage
    stop: StopReason


class TextDelta(Struct, frozen=True, tag="text"):
    """More plain words."""

    text: str


class ThinkingDelta(Struct, frozen=True, tag="thinking"):
    """More thoughts."""

    text: str


class CallDelta(Struct, frozen=True, tag="tool_call"):
    """More of a tool call that is being written; shown, never run."""

    index: int
    """Which call of the reply, from 0."""
    name: str
    arguments: str
    """The next piece of the arguments' JSON."""


class Superseded(Struct, frozen=True, tag="superseded"):
    """The stream broke: everything heard of this request is void, and the request is repeated whole."""

    reason: str


class Waiting(Struct, frozen=True, tag="waiting"):
    """Nothing will come for a while."""

    seconds: float
    reason: str


Delta = TextDelta | ThinkingDelta | CallDelta | Superseded | Waiting
Hear = Callable[[Delta], None]
"""Is told what comes while it comes; whoever hears must be quick and must not raise."""


def unheard(delta: Delta, /) -> None:
    """Ignore what comes: the whole reply is enough."""
