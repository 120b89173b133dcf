"""What an agent is told, where it records what it does, and what one of its turns gives."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from scaffold.agent.io_port import FixedContext, NullHistory, PromptContext, do_nothing
from scaffold.agent.journal import Journal
from scaffold.core.conversation import Caller, KeptTurn
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, History, ReplyMemory
from scaffold.core.run_settings import CompactionWriter, Effort


class AgentSpec(Struct, frozen=True, kw_only=True):
    """An agent's role, prompt and limits."""

    caller: Caller
    """Its `turn` is the number of the first request."""
    system: str
    short_system: str = ""
    """In its place for a small model; empty if there is none."""
    context: PromptContext = FixedContext()
    max_requests: int = 100
    """Requests between two prompts of the user; incoming messages do not reset the count."""
    effort: Effort = "auto"
    compaction: CompactionWriter = "code"
    """Who writes the summary of messages that are dropped; code if the model cannot."""
    must_answer: bool = False
    """Whether its last reply is what was asked for: an empty one after tools is nudged once, then an error."""
    may_repeat: bool = False
    """Whether it may get the same answers again and again, and is only told so: a session may wait for something."""
    whole_prompt: bool = False
    """Whether the prompt of its first turn is never cut: if that does not fit into the model's window, it fails."""


class AgentRecords(Struct, frozen=True, kw_only=True):
    """Where an agent records its actions, messages and costs."""

    journal: Journal
    budget: Budget
    history: History = NullHistory()
    paid: ReplyMemory | None = None
    """Replies that are not paid again; None without any."""
    keep: Callable[[KeptTurn], None] = do_nothing
    """Called with the turn whenever it has come further; another process can continue it from there."""


class TurnResult(Struct, frozen=True):
    """The last reply's text, and the usage of the whole turn."""

    text: str
    usage: Usage
    requests: int
    stop: Literal["end", "refused"] = "end"
