"""What a user interface gives to a session: a reporter of its progress, and an observer of its calls."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from scaffold.agent.io_port import Incoming, NoIncoming
from scaffold.agent.journal import EntryKind
from scaffold.core.conversation import Delta
from scaffold.core.tool import Tool
from scaffold.llm.transport.live_context import IMPATIENT, Patience


class Reporter(Protocol):
    """Receives and shows the events of a session; also the agent's journal."""

    for_people: bool
    """Whether errors are shown as text on standard error instead of in the result."""

    def session(self, **fields: str) -> None:
        """Report the start of the session: the conversation, the model, the directory."""
        ...

    def on_delta(self, delta: Delta) -> None:
        """Report a piece of a reply while it is streamed."""
        ...

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Report an entry of the journal."""
        ...

    def result(self, shape: Mapping[str, object]) -> None:
        """Report the end of the session; `shape` is the object that `--output-format json` prints."""
        ...


WrapTool = Callable[[Tool], Tool]  # returns a tool that does the same and shows its calls to an observer


def unwrapped(tool: Tool) -> Tool:
    """Return the tool unchanged."""
    return tool


def keep_every_tool(_: Tool) -> bool:
    """Return True."""
    return True


class SessionObserver(Struct, frozen=True):
    """What a user interface adds to a session: it watches tool calls, selects and adds tools, and sends messages."""

    wrap_tool: WrapTool = unwrapped
    incoming: Incoming = NoIncoming()
    keeps_tool: Callable[[Tool], bool] = keep_every_tool
    """Whether the agent gets one of the session's own tools."""
    extra_tools: tuple[Tool, ...] = ()
    """Tools that need no gate, because they ask for approval themselves."""
    patience: Patience = IMPATIENT
    """How long requests wait for their endpoint, and whether the user can end that."""


NO_OBSERVER = SessionObserver()
