"""Messages between an agent and a model, independent of any provider; codecs translate them to wire formats."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from scaffold.core.model import Usage
from scaffold.core.run_settings import Effort
from scaffold.core.spending import Amount
from scaffold.core.tool import Tool

TodoStatus = Literal["pending", "in_progress", "completed"]
TodoPriority = Literal["high", "medium", "low"]


class Todo(Struct, frozen=True, kw_only=True):
    """One todo item."""

    id: int
    content: str
    """A single line."""
    status: TodoStatus = "pending"
    priority: TodoPriority = "medium"


class TodoList(Struct, frozen=True):
    """All todo items, in order."""

    entries: tuple[Todo, ...] = ()
    last_id: int = 0
    """The highest id ever used; ids are not reused."""


TextOrigin = Literal["", "file", "command", "output", "agent", "note"]
"""Who says a text: the user or the model | a file that the user attached | a command of the user's own | its output |
another agent, to this one | the program, to the model alone."""


class Text(Struct, frozen=True, tag="text", omit_defaults=True):
    """Plain text."""

    text: str
    origin: TextOrigin = ""


NO_IMAGE = "[an image was here]"
ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


class Image(Struct, frozen=True, tag="image"):
    """An attached image; in JSON its bytes are base64."""

    media_type: ImageType
    data: bytes


class Thinking(Struct, frozen=True, tag="thinking"):
    """A model's reasoning, shown to the user but never used as an answer.

    Some providers require it back unchanged and verify it; `signature`, `id` and `redacted` carry what they need.
    """

    text: str
    signature: str = ""
    """A signature over `text`, or encrypted reasoning that only the provider can read."""
    id: str = ""
    """The provider's id of this block; empty if it gives none."""
    redacted: bool = False
    """True if the text is withheld and only the encrypted `signature` exists."""
    field: str = ""
    """The field of a Chat Completions reply it came in, in which the server may want it back; empty on other wires."""


class ToolCall(Struct, frozen=True, tag="tool_call"):
    """A model's request to run a tool; ids are unique within a conversation."""

    id: str
    name: str
    args: Mapping[str, Any]


class ToolResult(Struct, frozen=True, tag="tool_result"):
    """The result of a tool call."""

    call_id: str
    name: str
    content: str
    failed: bool = False


class UserMessage(Struct, frozen=True, tag="user"):
    """Text and images from the user or the orchestrator, and tool results."""

    parts: tuple[Text | Image | ToolResult, ...]


class AssistantMessage(Struct, frozen=True, tag="assistant"):
    """A model's reply."""

    parts: tuple[Text | Thinking | ToolCall, ...]
    model: str = ""
    """Model string of the model that replied; thinking is sent back to no other. Empty if never continued."""
    token_scale: float | None = None
    """The server's count of its request's tokens for each one that was estimated; None if it gave none."""
    opaque: Mapping[str, Mapping[str, Any]] = {}
    """What only the server of that model understands and wants back, by the id of a call; the reply's own by ""."""

    @property
    def text(self) -> str:
        """All text parts, joined by newlines; empty if there are none."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the model's order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


Message = UserMessage | AssistantMessage


def without_images(message: Message) -> Message:
    """Return the message with a note in the place of each image; the message itself if it has none."""
    if isinstance(message, AssistantMessage) or not any(isinstance(part, Image) for part in message.parts):
        return message
    return UserMessage(tuple(Text(NO_IMAGE) if isinstance(part, Image) else part for part in message.parts))


class KeptTurn(Struct, frozen=True, kw_only=True):
    """A turn as far as it has come: what another process needs to continue it."""

    messages: tuple[Message, ...]
    summary: str = ""
    """The summary of the messages before these; empty if there are none."""
    results: tuple[ToolResult, ...] = ()
    """Those of the last reply's calls that have ended."""
    begun: Mapping[str, str] = {}
    """Those that have begun, by id, with a fingerprint of the files before; a call that did nothing may run again."""
    stop: "StopReason | None" = "tool_calls"
    """Why the last message, a reply, ended; None if the model was to be asked next."""
    requests: int
    """How many requests the agent has made."""
    answered: int
    """How many of them were made before the user last said something."""
    todos: TodoList = TodoList()
    seen: Mapping[str, str] = {}
    """The versions of files that its agent knows, by absolute path."""
    news: str = ""
    """The changes since then, for the agent; empty if nothing changed."""
    session: str = ""
    """The id by which a program, which keeps its conversation itself, continues it; empty if it has told none."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of our tools by such a program that propose changes of a plan: repeated, they propose the same again."""
    worktree: tuple[int, ...] = ()
    """Which folder its calls worked in: another one at that path has nothing of what they did."""

    @property
    def running(self) -> tuple[ToolCall, ...]:
        """The calls that have begun and not ended."""
        last, ended = self.messages[-1] if self.messages else None, {each.call_id for each in self.results}
        calls = last.tool_calls if isinstance(last, AssistantMessage) else ()
        return tuple(call for call in calls if call.id in self.begun and call.id not in ended)

    @property
    def place(self) -> tuple[int, frozenset[str], frozenset[str]]:
        """How far it has come: its requests, and the calls of the last reply that have ended and begun."""
        return self.requests, frozenset(each.call_id for each in self.results), frozenset(self.begun)


StopReason = Literal["end", "tool_calls", "max_tokens", "refused", "paused", "malformed"]
"""Why a reply ended; `paused`: the provider wants to be asked again to go on; `malformed`: with a call in its text that
cannot be read, where tools are offered as text."""


class Caller(Struct, frozen=True, kw_only=True):
    """The origin of a request: identifies the reply on a cassette and the account for its cost."""

    role: str
    action: str | None = None
    attempt: int = 1
    turn: int = 1
    """Number of the request, from 1 in each attempt or planning turn."""
    event: str | None = None


class Request(Struct, frozen=True, kw_only=True):
    """One request to a model."""

    caller: Caller
    system: str
    """The base prompt. Keep it byte-identical within a session, or the provider cannot cache it."""
    context: str = ""
    """The part of the prompt that may change from request to request, separate from `system`."""
    messages: Sequence[Message]
    """Append only; changing an earlier message invalidates the provider's cache and ours."""
    reminder: str = ""
    """Text after the last message, for this request alone: it is sent behind everything that is cached."""
    tools: Sequence[Tool] = ()
    answer_schema: Mapping[str, Any] | None = None
    """JSON schema (an object) that the reply's text must match; None for free text."""
    effort: Effort | None = None
    """How much the model should think; None to say nothing about it."""
    max_output_tokens: int | None = None
    """None for the model's maximum."""
    left: Amount | None = None
    """What the budget has left for the request; None without one."""


class Reply(Struct, frozen=True, kw_only=True):
    """One complete reply; a stream that broke off never becomes a Reply."""

    message: AssistantMessage
    usage: Usage
    stop: StopReason


class TextDelta(Struct, frozen=True, tag="text"):
    """The next piece of the text."""

    text: str


class ThinkingDelta(Struct, frozen=True, tag="thinking"):
    """The next piece of the reasoning."""

    text: str


class ToolCallDelta(Struct, frozen=True, tag="tool_call"):
    """The next piece of a tool call; for display only, the call runs when complete."""

    index: int
    """Index of the call in the reply, from 0."""
    name: str
    arguments: str
    """The next piece of the arguments' JSON."""


class StreamReset(Struct, frozen=True, tag="superseded"):
    """The stream broke: discard all deltas of this request; it is being sent again."""

    reason: str


class RetryWait(Struct, frozen=True, tag="waiting"):
    """The client waits `seconds` before the next try; 0 if the user is only told something about the request."""

    seconds: float
    reason: str


Delta = TextDelta | ThinkingDelta | ToolCallDelta | StreamReset | RetryWait
DeltaHandler = Callable[[Delta], None]
"""Called with each delta as it arrives. Must be fast and must not raise."""


def ignore_delta(delta: Delta, /) -> None:
    """Ignore `delta`; for callers that need only the complete reply."""
