"""Fakes that an agent needs, all in memory: scripted models, a budget, a history, tools; a clock that runs out."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from scaffold.agent.agent_spec import AgentRecords, AgentSpec
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.io_port import AgentIO, FixedContext
from scaffold.agent.journal import EntryKind
from scaffold.agent.turn_loop import Agent
from scaffold.core.conversation import AssistantMessage, Caller, Reply, Request, Text, UserMessage, ignore_delta
from scaffold.core.errors import BudgetExceeded
from scaffold.core.model import Usage
from scaffold.core.ports import NO_USAGE
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.clock import SystemClock
from scaffold.llm.cassette_model import (
    Cassette,
    CassetteEntry,
    CassetteFault,
    CassetteModel,
    CassettePrices,
    CassetteToolCall,
    CassetteUsage,
    RequestMatcher,
)
from scaffold.tools.arguments import object_schema

CALLER = Caller(role="implementation", action="store", attempt=2)


class FakeBudget:
    """A budget of a number of requests; records reservations and settlements."""

    def __init__(self, requests=1_000):
        self.left = requests
        self.reserved = []
        self.tries = []
        self.settled = []

    async def reserve(self, estimate):
        if self.left == 0:
            raise BudgetExceeded("The budget is used up.", "Raise it.")
        self.left -= 1
        self.reserved.append(estimate)
        return f"reservation {len(self.reserved)}"

    def left_for(self, reservation):
        return None

    def set_tries(self, reservation, tries, estimate=None):
        self.tries.append((reservation, tries) if estimate is None else (reservation, tries, estimate))

    def settle(self, reservation, usage):
        self.settled.append((reservation, usage))


class JournalList:
    """A journal in memory; `entries` as in a file, without `ts`."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Append an entry."""
        self.entries.append({"type": kind, **fields})


class MemoryHistory:
    """A history in memory, as a store would keep it."""

    def __init__(self):
        self.messages = []
        self.usage = Usage()
        self.compactions = []
        self.drafts = []

    def add(self, message, usage=NO_USAGE):
        self.messages.append(message)
        self.usage += usage

    def draft(self, message):
        self.drafts.append(message)

    def spend(self, usage):
        self.usage += usage

    def compact(self, kept, summary):
        self.compactions.append((kept, summary, len(self.messages) - kept))

    def loaded(self):
        """Return the conversation as another process would load it."""
        if not self.compactions:
            return Conversation(self.messages)
        _, summary, begin = self.compactions[-1]
        return Conversation(self.messages[begin:], summary)


class RecordingModel:
    """A model that records its requests and forwards them."""

    def __init__(self, inner, window_tokens=None, *, is_small=False):
        self._inner = inner
        self.window_tokens = window_tokens
        self.is_small = is_small
        self.requests = []

    def estimate(self, request):
        return self._inner.estimate(request)

    async def reply(self, request, on_delta=ignore_delta):
        self.requests.append(request)
        return await self._inner.reply(request, on_delta)


class ScriptedModel:
    """A model that gives these replies, or raises these errors, in order."""

    window_tokens = None
    is_small = False

    def __init__(self, *replies):
        self._replies = list(replies)

    def estimate(self, request):
        return Usage(input_tokens=10, requests=1)

    async def reply(self, request, on_delta=ignore_delta):
        said = self._replies.pop(0)
        if isinstance(said, Exception):
            raise said
        return said


def text_reply(*parts, stop="end", input_tokens=0):
    return Reply(message=AssistantMessage(parts), usage=Usage(input_tokens=input_tokens, requests=1), stop=stop)


def cassette_model(*entries):
    return CassetteModel(
        Cassette(path=Path("tape"), digest="", entries=entries, prices=CassettePrices(output_per_mtok=1.0))
    )


def call_entry(turn, *calls, text="", output_tokens=0):
    written = tuple(CassetteToolCall(name, args) for name, args in calls)
    usage = CassetteUsage(output_tokens=output_tokens)
    return CassetteEntry(when=RequestMatcher(turn=turn), text=text, tool_calls=written, usage=usage)


def tool(name, work, *, category="file_write", **required):
    async def run(args):
        return await work(**args)

    schema = object_schema({key: {"type": kind} for key, kind in required.items()})
    return Tool(name=name, description=name, schema=schema, category=category, run=run)


async def echo(text):
    return ToolOutput(f"<{text}>")


ECHO = tool("echo", echo, text="string")


def agent(model, *tools, conversation=None, context="", **options):
    records = {name: options.pop(name) for name in ("journal", "budget", "history") if name in options}
    io = {name: options.pop(name) for name in ("on_delta", "incoming", "watch") if name in options}
    return Agent(
        model=model,
        tools=tools,
        brief=AgentSpec(
            **{
                "system": "Be good.",
                "caller": CALLER,
                "context": FixedContext(context) if isinstance(context, str) else context,
                **options,
            }
        ),
        records=AgentRecords(**{"journal": JournalList(), "budget": FakeBudget(), **records}),
        conversation=conversation,
        io=AgentIO(**io),
    )


Call = tuple[str, Mapping[str, Any]]
ScriptedReply = str | CassetteFault | Call | Sequence[Call]
"""Last words, what goes wrong, or tool calls."""


def create_actions(goal: str, *actions: Mapping[str, Any], parent: str | None = None) -> Call:
    """Return the call that creates actions, below `parent` if there is one."""
    under = {} if parent is None else {"parent": parent}
    return ("goap_create_actions", {"goal": goal, "actions": list(actions), **under})


def proposed_action(key: str, *, gives: Sequence[str], needs: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
    """Return an action in the format of an agent's tool call."""
    return {
        "key": key,
        "description": f"Do {key}.",
        "kind": "primitive",
        "preconditions": list(needs),
        "effects": list(gives),
    } | fields


class ScriptedAgentModel:
    """A model that gives these replies in order, by the number of the request; `asked` are the requests it got."""

    window_tokens = None
    is_small = False

    def __init__(self, *said: ScriptedReply, usd: float = 0.0, meanwhile: Callable[[int], None] | None = None) -> None:
        """`meanwhile` is called while a request waits for its reply, with the request's number."""
        self.asked: list[Request] = []
        self._meanwhile = meanwhile
        self._tape = CassetteModel(
            Cassette(
                path=Path("minds"),
                digest="",
                entries=tuple(_entry(at, each) for at, each in enumerate(said, 1)),
                prices=CassettePrices(input_per_mtok=usd),
            )
        )

    def estimate(self, request):
        return self._tape.estimate(request)

    async def reply(self, request, on_delta=ignore_delta):
        self.asked.append(request)
        if self._meanwhile is not None:
            self._meanwhile(len(self.asked))
        return await self._tape.reply(request, on_delta)

    def input_text(self, at: int) -> str:
        """Return the text, or tool results, of the last message of the request of that number, from 1."""
        last = self.asked[at - 1].messages[-1]
        assert isinstance(last, UserMessage)
        return "\n".join(part.text if isinstance(part, Text) else part.content for part in last.parts)

    @asynccontextmanager
    async def opened(self, *, patience=None):
        """Yield the model, as faces do."""
        yield self


def _entry(turn: int, said: ScriptedReply) -> CassetteEntry:
    when, usage = RequestMatcher(role="supervisor", turn=turn), CassetteUsage(input_tokens=1_000_000)
    match said:
        case str():
            return CassetteEntry(when=when, usage=usage, text=said)
        case CassetteFault():
            return CassetteEntry(when=when, usage=usage, fault=said)
        case (str(), Mapping()):
            return CassetteEntry(when=when, usage=usage, tool_calls=(CassetteToolCall(*said),))
        case _:
            return CassetteEntry(when=when, usage=usage, tool_calls=tuple(CassetteToolCall(*call) for call in said))


class Cut(BaseException):
    """Raised in place of the end of the process."""


class CutClock(SystemClock):
    """A clock that can be read a given number of times; at the next reading the process ends."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self.cut = False

    def now(self) -> datetime:
        self._looks -= 1
        if self._looks < 0:
            self.cut = True
            raise Cut
        return super().now()
