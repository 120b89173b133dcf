"""An agent's inputs and outputs other than its conversation: prompt context, incoming messages, streamed replies."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from scaffold.core.conversation import DeltaHandler, Image, Message, Text, ToolCall, ignore_delta
from scaffold.core.model import Usage
from scaffold.core.ports import NO_USAGE
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.secret.redaction import Redactor


class PromptContext(Protocol):
    """The texts of a request besides its messages: one after the base prompt, for the cache, one at the end."""

    def text(self) -> str:
        """Return the first; it changes only when that is worth losing the provider's cache."""
        ...

    def reminder(self) -> str:
        """Return the last; it is as it is at this moment, and costs its tokens each time."""
        ...

    def renew(self) -> None:
        """Update the first: the conversation was compacted, so the provider's cache is lost anyway."""
        ...


class FixedContext(Struct, frozen=True):
    """A context that never changes."""

    words: str = ""

    def text(self) -> str:
        """Return the text."""
        return self.words

    def reminder(self) -> str:
        """Return nothing."""
        return ""

    def renew(self) -> None:
        """Do nothing."""


class NullHistory:
    """A history that keeps nothing, for conversations that are never resumed."""

    def add(self, message: Message, usage: Usage = NO_USAGE) -> None:
        """Do nothing."""

    def draft(self, message: Message) -> None:
        """Do nothing."""

    def spend(self, usage: Usage) -> None:
        """Do nothing."""

    def compact(self, kept: int, summary: str) -> None:
        """Do nothing."""


class Incoming(Protocol):
    """Messages that reach an agent while it works: from agents, from ended subagents, from the user."""

    def peek(self) -> Sequence[Text | Image]:
        """Return the messages not yet taken, oldest first, without removing them."""
        ...

    def take(self) -> None:
        """Remove the messages of the last `peek`: they are in the conversation now, safe from a crash."""
        ...


class NoIncoming:
    """An `Incoming` without messages."""

    def peek(self) -> Sequence[Text | Image]:
        """Return nothing."""
        return ()

    def take(self) -> None:
        """Do nothing."""


class MergedIncoming:
    """Several sources as one, in the given order."""

    def __init__(self, *sources: Incoming) -> None:
        self._sources = sources

    def peek(self) -> Sequence[Text | Image]:
        """Return the messages of all sources."""
        return tuple(part for source in self._sources for part in source.peek())

    def take(self) -> None:
        """Remove the messages of the last `peek`."""
        for source in self._sources:
            source.take()


class HeldIncoming:
    """A source whose messages wait as long as something holds them."""

    def __init__(self, source: Incoming, held: Callable[[], bool]) -> None:
        self._source = source
        self._held = held
        self._shown = False

    def peek(self) -> Sequence[Text | Image]:
        """Return the messages that are not held."""
        self._shown = not self._held()
        return self._source.peek() if self._shown else ()

    def take(self) -> None:
        """Remove the messages of the last `peek`."""
        if self._shown:
            self._source.take()


class AnswerWatch(Protocol):
    """Sees the answer to each tool call before the model does."""

    async def __call__(self, call: ToolCall, tool: Tool | None, answer: ToolOutput, /) -> ToolOutput:
        """Return the answer that the model gets; `tool` is None if no tool has the name that was called."""
        ...


async def unchanged_answer(_call: ToolCall, _tool: Tool | None, answer: ToolOutput, /) -> ToolOutput:
    """Return the answer."""
    return answer


def do_nothing(*_args: object) -> None:
    """Do nothing."""


async def always_compacts(_trigger: str, /) -> bool:
    """Return True."""
    return True


class AgentIO(Struct, frozen=True, kw_only=True):
    """An agent's connections: streamed replies, incoming messages, redaction."""

    on_delta: DeltaHandler = ignore_delta
    """Called with each piece of a reply as it arrives."""
    incoming: Incoming = NoIncoming()
    watch: AnswerWatch = unchanged_answer
    on_compaction: Callable[[], object] = do_nothing
    """Called when the conversation was shortened: results of earlier calls may no longer be shown."""
    may_compact: Callable[[str], Awaitable[bool]] = always_compacts
    """Asked before the conversation is shortened, `manual` or `auto`, except when the window is full."""
    redactor: Redactor = Redactor()
    """Removes secrets from tool results: a model cannot leak what it does not know."""


NO_IO = AgentIO()
"""No listener and no incoming messages."""
