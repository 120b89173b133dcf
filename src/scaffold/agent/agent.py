"""One agent: a conversation between a model and its tools, turn by turn."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.agent.compaction import AFTERWARDS, FULL
from scaffold.agent.conversation import Conversation
from scaffold.agent.gauge import gauge_for
from scaffold.agent.journal import Journal
from scaffold.agent.outside import ALONE, Context, FixedContext, Outside
from scaffold.agent.toolbox import UNKNOWN, Toolbox
from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Effort,
    Image,
    Message,
    Reply,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.errors import ContextOverflow, ModelTrouble, TurnLimit
from scaffold.core.legible import legible
from scaffold.core.model import Usage
from scaffold.core.ports import NOTHING, Budget, History, Model
from scaffold.core.tool import Tool
from scaffold.llm.ear import Ear

CUT_OFF = "Your reply was cut off at its length limit, and no tool call of it was run. Go on in smaller steps."
REFUSED = "Not run: the reply that asked for it was a refusal."
MOST_CUTS = 3
"""So many replies in a row that are cut off end a turn: whoever cannot come to an end will not the next time."""


class Unkept:
    """A history that keeps nothing: for conversations nobody will go on with."""

    def add(self, message: Message, usage: Usage = NOTHING) -> None:
        """Forget the message."""

    def compact(self, kept: int, summary: str) -> None:
        """Forget that, too."""


class Brief(Struct, frozen=True, kw_only=True):
    """What an agent is there for."""

    caller: Caller
    """Its `turn` is the number of the first request."""
    system: str
    context: Context = FixedContext()
    max_requests: int = 100
    """Between one thing said and the next; what comes in does not begin to count anew."""
    effort: Effort | None = None


class Books(Struct, frozen=True, kw_only=True):
    """Where it is written down what an agent does, says and spends."""

    journal: Journal
    budget: Budget
    history: History = Unkept()


class Finish(Struct, frozen=True):
    """How a turn ended: the last reply's plain words, and what the turn used."""

    text: str
    usage: Usage
    requests: int
    stop: Literal["end", "refused"] = "end"


class Agent:
    """One conversation; what is said in a turn is remembered in the next."""

    def __init__(
        self,
        *,
        model: Model,
        tools: Sequence[Tool],
        brief: Brief,
        books: Books,
        conversation: Conversation | None = None,
        outside: Outside = ALONE,
    ) -> None:
        self._model = model
        self._toolbox = Toolbox(tools, outside.redactor)
        self._brief = brief
        self._books = books
        self._outside = outside
        self._requests = 0
        self._answered = 0
        self._usage = Usage()
        self._gauge = gauge_for(brief.system, brief.context.text(), tools)
        self.conversation = conversation or Conversation()

    @property
    def usage(self) -> Usage:
        """Return what all turns so far used, a turn that failed included."""
        return self._usage

    @property
    def tokens(self) -> int:
        """Return about how many tokens the next request takes in."""
        return self._gauge.tokens(self.conversation.size)

    @property
    def window_tokens(self) -> int | None:
        """Return how many tokens the model's window holds, None where nobody knows."""
        return self._model.window_tokens

    def switch(self, model: Model) -> None:
        """Go on with another model from the next request."""
        self._model = model
        self._gauge = msgspec.structs.replace(self._gauge, scale=1.0)

    async def turn(self, said: str | Sequence[Text | Image]) -> Finish:
        """Say `said`, then let model and tools go on until a reply without tool calls; with nothing said, about news.

        Raises TurnLimit when the requests are used up, BudgetSpent when no further request may start, another
        ModelTrouble when no reply is to be had, or none that is whole. Whatever was said until then is remembered.
        """
        self._say(said)
        before, usage, cuts = self._requests, Usage(), 0
        while True:
            self._take_news()
            reply = await self._ask()
            usage += reply.usage
            calls = reply.message.tool_calls
            cuts = cuts + 1 if reply.stop == "max_tokens" else 0
            if reply.stop == "refused":
                self._answer(_unrun(calls, REFUSED))
                return Finish(reply.message.text, usage, self._requests - before, "refused")
            if reply.stop == "max_tokens":
                self._answer(_unrun(calls, CUT_OFF) or (Text(CUT_OFF),))
                if cuts == MOST_CUTS:
                    raise _cut_again()
            elif calls:
                await self._work(calls)
            else:
                return Finish(reply.message.text, usage, self._requests - before)

    async def _work(self, calls: Sequence[ToolCall]) -> None:
        """Run the calls; what has ended by then is not lost with an interruption."""
        batch = self._toolbox.batch(calls)
        try:
            await batch.run()
        finally:
            self._answer(batch.results)

    def _say(self, said: str | Sequence[Text | Image]) -> None:
        """Add the user's words; calls that an interruption left open are closed before them."""
        parts = (Text(said),) if isinstance(said, str) else tuple(said)
        parts = tuple(_sayable(part) for part in parts)
        if parts:
            self._answered = self._requests
            self._books.journal.note("prompt", text=_words(parts))
        self._hand_in((*_unrun(self.conversation.unanswered, UNKNOWN), *parts))

    def _take_news(self) -> None:
        news = tuple(map(_sayable, self._outside.news.look()))
        if news:
            self._books.journal.note("news", text=_words(news))
            self._hand_in(news)
            self._outside.news.take()

    async def _ask(self) -> Reply:
        """Return the next reply; a conversation that is too long is shortened once."""
        try:
            return await self._request()
        except ContextOverflow:
            if not self.compact():
                raise
        return await self._request()

    async def _request(self) -> Reply:
        self._keep_room()
        size, books = self.conversation.size, self._books
        request = self._next()
        estimate = self._model.estimate(request)
        reservation, ear, used = await books.budget.reserve(estimate), Ear(self._outside.hear), Usage()
        try:
            reply = await self._model.reply(request, ear)
            ear.understood()
            used = reply.usage
        finally:
            used = sum((msgspec.structs.replace(estimate, requests=0),) * ear.void, used)
            books.budget.settle(reservation, used)
            self._usage += used
        self._requests += 1
        self._gauge = self._gauge.corrected(size, reply.usage.input_tokens)
        reply = msgspec.structs.replace(reply, message=self.conversation.distinct(reply.message), usage=used)
        self._add(reply.message, used)
        self._write_down(reply.message, used)
        return reply

    def _next(self) -> Request:
        brief = self._brief
        if self._requests - self._answered >= brief.max_requests:
            raise TurnLimit(
                f"The turn limit is reached: {brief.max_requests} requests without an end.",
                "Make the task smaller, or raise the limit.",
            )
        return Request(
            caller=msgspec.structs.replace(brief.caller, turn=brief.caller.turn + self._requests),
            system=brief.system,
            context=brief.context.text(),
            messages=self.conversation.shown(),
            tools=self._toolbox.tools,
            effort=brief.effort,
        )

    def _keep_room(self) -> None:
        window = self._model.window_tokens
        if window is not None and self._gauge.tokens(self.conversation.size) > window * FULL:
            self._compact(window * AFTERWARDS)

    def compact(self) -> bool:
        """Shorten the conversation now, as a full window would; tell whether it became any shorter."""
        return self._compact(self._gauge.tokens(self.conversation.size) * AFTERWARDS)

    def _compact(self, tokens: float) -> bool:
        """Shorten the conversation until a request takes `tokens`; tell whether it became any shorter."""
        size = self.conversation.size
        after = self.conversation.compact(self._gauge.room(tokens))
        if self.conversation.size >= size:
            return False
        self._brief.context.renew()
        how = "its longest texts have lost their middles"
        if after.dropped:
            self._books.history.compact(len(after.kept), after.summary)
            how = f"{after.dropped} earlier messages are told in a summary"
        self._books.journal.note("notice", text=f"the conversation was shortened: {how}")
        return True

    def _add(self, message: Message, usage: Usage = NOTHING) -> None:
        self._books.history.add(message, usage)
        self.conversation.add(message)

    def _answer(self, parts: Sequence[Text | ToolResult]) -> None:
        for part in parts:
            if isinstance(part, ToolResult):
                self._books.journal.note(
                    "tool_result", id=part.call_id, name=part.name, content=part.content, failed=part.failed
                )
        self._hand_in(parts)

    def _hand_in(self, parts: Sequence[Text | Image | ToolResult]) -> None:
        if parts:
            self._add(UserMessage(tuple(parts)))

    def _write_down(self, message: AssistantMessage, usage: Usage) -> None:
        journal = self._books.journal
        for part in message.parts:
            match part:
                case Thinking(text=text):
                    journal.note("thinking", text=text)
                case Text(text=text):
                    journal.note("text", text=text)
                case ToolCall(id=call_id, name=name, args=args):
                    journal.note("tool_call", id=call_id, name=name, args=args)
        journal.note("usage", **msgspec.structs.asdict(usage))


def _unrun(calls: Sequence[ToolCall], why: str) -> tuple[ToolResult, ...]:
    """Return results for calls that are not run: each call gets one, or wires refuse the conversation."""
    return tuple(ToolResult(call.id, call.name, why, failed=True) for call in calls)


def _words(parts: Sequence[Text | Image]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _cut_again() -> ModelTrouble:
    return ModelTrouble(
        f"{MOST_CUTS} replies in a row were cut off at the model's length limit.",
        "Ask for less at a time, or choose a model that gives longer replies with `--model`.",
    )


def _sayable(part: Text | Image) -> Text | Image:
    """Return the part without half surrogate pairs, which no journal, store or wire can carry."""
    return part if isinstance(part, Image) else Text(legible(part.text))
