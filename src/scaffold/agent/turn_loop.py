"""One agent: a conversation between a model and its tools, turn by turn."""

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec

from scaffold.agent.agent_spec import AgentRecords, AgentSpec, TurnResult
from scaffold.agent.context.compaction import COMPACT_ABOVE, COMPACT_TO, dropped_text, written_words
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.text_size import plain_text, text_size, without_surrogates
from scaffold.agent.context.window_use import (
    TokenEstimate,
    WindowPart,
    WindowUse,
    conversation_parts,
    initial_estimate,
    tools_size,
)
from scaffold.agent.io_port import NO_IO, AgentIO
from scaffold.agent.prompts import summary_writer_prompt
from scaffold.agent.repeated_calls import LoopDetected, RepeatedExchanges
from scaffold.agent.reply_problems import CALL_IN_TEXT, EMPTY, call_in_text, cutoff_error, no_answer_error
from scaffold.agent.toolbox import REFUSED, ToolBatch, Toolbox, not_run_results
from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Delta,
    DeltaHandler,
    Image,
    KeptTurn,
    Message,
    Reply,
    Request,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    UserMessage,
)
from scaffold.core.errors import BudgetExceeded, ContextOverflow, ModelError, TurnLimitExceeded
from scaffold.core.model import Usage
from scaffold.core.ports import NO_USAGE, Model
from scaffold.core.printable_text import truncate_text, utf8_safe
from scaffold.core.tool import Tool
from scaffold.llm.deltas import DeltaListener
from scaffold.llm.wire.text_tools import MALFORMED_CALL

CUT_OFF = "Your reply was cut off at its length limit, and none of its tool calls ran. Continue in smaller steps."
GO_ON = "Go on."
IN_A_LOOP = (
    "with nothing new in between. Do something else: finish, or say what is in the way. To wait for something, wait in "
    "one call."
)
MAX_SMALL_CONTEXT = 1_200  # characters of the context that a small model gets
COMPACTION = "compaction"
"""The event of requests for a summary."""
WAIT_S = 2.0
"""Calls that take longer are no loop: agents poll what they wait for."""
MAX_CUTOFFS = 3  # replies cut off in a row after which a turn fails: another try would be cut off as well


class Agent:
    """One conversation; each turn continues it."""

    def __init__(
        self,
        *,
        model: Model,
        tools: Sequence[Tool],
        brief: AgentSpec,
        records: AgentRecords,
        conversation: Conversation | None = None,
        io: AgentIO = NO_IO,
    ) -> None:
        self._model = model
        self.toolbox = Toolbox(tools, io.redactor, io.watch)
        self._brief = brief
        self._records = records
        self._io = io
        self.effort = brief.effort
        """How much the model thinks from the next request on."""
        self._requests = 0
        self._answered = 0
        self._usage = Usage()
        # Usage of summaries and failed requests since the last reply; the history stores it with the next one.
        self._unstored = Usage()
        self.conversation = conversation or Conversation()
        self._fit_tools()
        self._gauge = self._first_gauge()
        self._batch: ToolBatch | None = None  # the calls that run now
        self._stop: StopReason | None = None  # of the last reply, until something is said to the model
        self._news = ""
        self._exchanges = RepeatedExchanges(self.toolbox.read_only)
        self._is_warned = False  # of a loop, in this turn

    def _fit_tools(self) -> None:
        # The window that makes a model a small one may be known only after a request.
        small = self._model.is_small
        self.toolbox.fit(small=small)
        self._tools = self.toolbox.offered(self.conversation)
        self._system = (small and self._brief.short_system) or self._brief.system

    def _first_gauge(self) -> TokenEstimate:
        gauge = initial_estimate(self._system, self._context_text(), self._tools)
        return gauge.scaled(self.conversation.token_scale)

    def _context_text(self) -> str:
        text = self._brief.context.text()
        return truncate_text(text, MAX_SMALL_CONTEXT) if self._model.is_small else text

    def _keep(self) -> None:
        batch = self._batch
        self._records.keep(
            KeptTurn(
                messages=tuple(self.conversation.kept),
                summary=self.conversation.summary,
                results=batch.ended if batch else (),
                begun=batch.begun if batch else {},
                stop=self._stop,
                requests=self._requests,
                answered=self._answered,
                news=self._news,
            )
        )

    @property
    def usage(self) -> Usage:
        """The usage of all turns so far, failed ones included."""
        return self._usage

    @property
    def tokens(self) -> int:
        """The estimated input tokens of the next request."""
        return self._gauge.tokens(self.conversation.size)

    @property
    def window_tokens(self) -> int | None:
        """The tokens of the model's window; None if unknown."""
        return self._model.window_tokens

    def window_use(self) -> WindowUse:
        """Return what fills the window in the next request, in estimated tokens."""
        brief, tokens = self._brief, msgspec.structs.replace(self._gauge, fixed=0).tokens
        fixed = (
            WindowPart("system prompt", text_size(self._system)),
            WindowPart("tool definitions", tools_size(self._tools)),
            WindowPart("environment", text_size(self._context_text())),
            WindowPart("todos and memories", text_size(brief.context.reminder())),
        )
        parts = (*fixed, *conversation_parts(self.conversation))
        return WindowUse([WindowPart(part.name, tokens(part.size)) for part in parts if part.size], self.window_tokens)

    def switch(self, model: Model) -> None:
        """Use another model from the next request on."""
        self._model = model
        # The correction belongs to the tokenizer of the previous model.
        self._gauge = msgspec.structs.replace(self._gauge, scale=1.0)

    async def turn(self, prompt: str | Sequence[Text | Image] | KeptTurn) -> TurnResult:
        """Send `prompt`, then alternate model and tools until a reply that ends the turn.

        An empty prompt starts a turn about incoming messages alone; a turn of another process continues where that
        kept it last. Raises TurnLimitExceeded if the requests are used
        up, BudgetExceeded if no further request may start, LoopDetected if calls keep getting the same answers, another
        ModelError if there is no complete reply. The conversation up to that point is kept.
        """
        self._exchanges.clear()
        self._is_warned = False
        worked, kept = self._begin_turn(prompt), prompt if isinstance(prompt, KeptTurn) else None
        before, usage, cuts = self._requests, Usage(), 0
        nudges = set[str]()
        while True:
            last = self.conversation.kept[-1] if kept else None
            if kept and kept.stop and isinstance(last, AssistantMessage):
                reply = Reply(message=last, usage=Usage(), stop=kept.stop)
            else:
                self._read_incoming()
                self._keep()
                reply = await self._next_reply()
            usage += reply.usage
            calls = reply.message.tool_calls
            cuts = cuts + 1 if reply.stop == "max_tokens" else 0
            if reply.stop == "refused":
                self._add_user_parts(not_run_results(calls, REFUSED))
                return TurnResult(reply.message.text, usage, self._requests - before, "refused")
            if reply.stop == "max_tokens":
                self._add_user_parts(not_run_results(calls, CUT_OFF) or (Text(CUT_OFF, "note"),))
                if cuts == MAX_CUTOFFS:
                    raise cutoff_error(MAX_CUTOFFS)
            elif calls:
                await self._run_calls(calls, kept)
                worked = True
            elif reply.stop == "paused":
                self._add_user_parts((Text(GO_ON, "note"),))
            elif (nudge := self._find_nudge(reply, worked=worked)) and nudge not in nudges:
                self._add_user_parts((Text(nudge, "note"),))
                nudges.add(nudge)
            elif nudge == EMPTY:
                raise no_answer_error()
            else:
                return TurnResult(reply.message.text, usage, self._requests - before)
            kept = None

    def _read_incoming(self) -> None:
        incoming = tuple(map(without_surrogates, self._io.incoming.peek()))
        if not self._news and not incoming:
            return
        told = (Text(self._news, "note"), *incoming) if self._news else incoming
        self._records.journal.note("news", text=plain_text(told))
        self._hand_in(told)
        self._news = ""
        self._exchanges.clear()
        # Only now are they in the history; a crash before this line delivers them again, but loses none.
        self._io.incoming.take()

    def _find_nudge(self, reply: Reply, *, worked: bool) -> str:
        # Small models end with an empty reply, or write a call as text: both rarely mean that the turn is over.
        text = reply.message.text
        if reply.stop == "malformed":
            return MALFORMED_CALL
        if worked and self._brief.must_answer and not text.strip():
            return EMPTY
        return CALL_IN_TEXT if call_in_text(text, {tool.name for tool in self.toolbox.tools}) else ""

    def add_note(self, *texts: Text) -> None:
        """Add texts to the conversation without a request; the model reads them with the next prompt."""
        open_calls = map(self.toolbox.cut_off_result, self.conversation.unanswered)
        self._hand_in((*open_calls, *map(without_surrogates, texts)))

    def _begin_turn(self, prompt: str | Sequence[Text | Image] | KeptTurn) -> bool:
        # True if tools have run in the turn: then its last reply must be an answer.
        if not isinstance(prompt, KeptTurn):
            parts = (Text(prompt),) if isinstance(prompt, str) else tuple(prompt)
            parts = tuple(without_surrogates(part) for part in parts)
            if parts:
                # The limit counts requests since the user last said something.
                self._answered = self._requests
                self._records.journal.note("prompt", text=plain_text(parts))
            # Results come first, for the calls that an interruption left open.
            self._hand_in((*map(self.toolbox.cut_off_result, self.conversation.unanswered), *parts))
            # A subagent's message counts as the result of a call.
            return not prompt
        self.conversation = Conversation(prompt.messages, prompt.summary)
        self._gauge = self._first_gauge()
        self._requests, self._answered = prompt.requests, prompt.answered
        self._stop, self._news = prompt.stop, prompt.news
        return True

    async def _run_calls(self, calls: Sequence[ToolCall], kept: KeptTurn | None) -> None:
        # Results that exist before an interruption are kept.
        def draft() -> None:
            self._records.history.draft(UserMessage(batch.results))

        self._batch = batch = self.toolbox.batch(calls, kept, changed=self._keep, draft=draft)
        begun = asyncio.get_running_loop().time()
        try:
            await batch.run()
        finally:
            self._batch = None
            # Providers refuse a conversation with an unanswered call, so every call gets a result even now.
            self._add_user_parts(batch.results)
        waited = asyncio.get_running_loop().time() - begun > WAIT_S
        if waited or not (how := self._exchanges.add(calls, batch.results)):
            return
        if self._is_warned and not self._brief.may_repeat:
            raise LoopDetected(f"the agent was stopped in a loop: {how}", "Its journal shows what it tried to do.")
        self._is_warned = True
        self._exchanges.clear()
        end = "" if self._brief.may_repeat else " Another round like this ends your turn."
        self._add_user_parts((Text(f"{how}, {IN_A_LOOP}{end}", "note"),))

    async def _next_reply(self) -> Reply:
        try:
            while True:
                try:
                    return await self._request_reply()
                except ContextOverflow:
                    # Each time it loses half of its size, so this ends.
                    if self._is_whole_prompt() or not await self._compact_full():
                        raise
        finally:
            self._store_unstored()

    async def _request_reply(self) -> Reply:
        most = self._brief.max_requests
        if self._requests - self._answered >= most:
            what = f"turn limit reached: {most} requests without a final answer"
            raise TurnLimitExceeded(what, "Make the task smaller, or raise the limit.")
        # The model may have loaded a group of tools since the last request.
        offered = self._tools
        self._fit_tools()
        if offered is not self._tools:
            self._gauge = msgspec.structs.replace(self._gauge, fixed=self._first_gauge().fixed)
        window = None if self._is_whole_prompt() else self._model.window_tokens
        full = window is not None and self._gauge.tokens(self.conversation.size) > window * COMPACT_ABOVE
        if window is not None and full and await self._io.may_compact("auto"):
            await self._compact_to(window * COMPACT_TO)
        # Remembered before the request, because the reported tokens count what was sent, without the reply.
        size = self.conversation.size
        reply, used = await self._pay_for_reply(self._next_request(), self._io.on_delta)
        self._requests += 1
        self._gauge = self._gauge.corrected(size, reply.usage.input_tokens)
        total, self._unstored = self._unstored, Usage()
        # Before the message is stored: results are matched to calls by their ids.
        reply = msgspec.structs.replace(reply, message=self.conversation.distinct(reply.message), usage=total)
        self._add_message(reply.message, total)
        self._stop = reply.stop
        self._keep()
        self._write_down(reply.message, used)
        return reply

    async def _pay_for_reply(self, request: Request, on_delta: DeltaHandler) -> tuple[Reply, Usage]:
        # The usage includes broken tries: the provider may bill them.
        paid = self._records.paid
        if paid is not None and (known := paid.find(request)) is not None:
            return known, Usage()
        budget, estimate = self._records.budget, self._model.estimate(request)
        reservation, used = await budget.reserve(estimate), Usage()
        listener = DeltaListener(on_delta, partial(budget.set_tries, reservation), estimate)
        try:
            limited = msgspec.structs.replace(request, left=budget.left_for(reservation))
            reply = await self._model.reply(limited, listener)
            listener.understood()
            used = reply.usage
            # Before it is booked: a process that is killed in between is booked the estimate.
            if paid is not None:
                paid.keep(request, reply)
        finally:
            # A failed try may have been billed without saying so: book it as estimated.
            used += listener.void_usage
            budget.settle(reservation, used)
            self._usage += used
            self._unstored += used
        return reply, used

    def _next_request(self) -> Request:
        brief = self._brief
        return Request(
            caller=self._next_caller(),
            system=self._system,
            context=self._context_text(),
            reminder=brief.context.reminder(),
            messages=self.conversation.shown(),
            tools=self._tools,
            effort=self.effort,
        )

    def _next_caller(self) -> Caller:
        caller = self._brief.caller
        return msgspec.structs.replace(caller, turn=caller.turn + self._requests)

    def _is_whole_prompt(self) -> bool:
        # A worker that reads half of its prompt does the wrong work.
        talk = self.conversation
        begun = bool(talk.summary) or any(isinstance(message, AssistantMessage) for message in talk.kept)
        return self._brief.whole_prompt and not begun

    async def compact(self, focus: str = "") -> bool:
        """Shorten the conversation now, as a full window would; return whether it became shorter.

        With a `focus`, what the summary must keep, the model writes it.
        """
        try:
            return await self._io.may_compact("manual") and await self._compact_full(focus)
        finally:
            self._store_unstored()

    def _store_unstored(self) -> None:
        # No reply may follow that would carry this usage into the history.
        paid, self._unstored = self._unstored, Usage()
        if paid != Usage():
            self._records.history.spend(paid)

    async def _compact_full(self, focus: str = "") -> bool:
        # After an overflow the window may be one that only the server's refusal named.
        full = min(self.tokens, self.window_tokens or self.tokens)
        return await self._compact_to(full * COMPACT_TO, focus)

    async def _compact_to(self, tokens: float, focus: str = "") -> bool:
        # Shorten the conversation until a request takes `tokens`; return whether it became shorter.
        limit, effects = self._gauge.room(tokens), self.toolbox.effects
        by_model = focus or self._brief.compaction == "model"
        dropped = self.conversation.dropped_by(limit, effects) if by_model else ()
        written = await self._written_summary(dropped, limit, focus) if dropped else ""
        after = self.conversation.compact(limit, effects, written)
        if after is None:
            return False
        # The provider's cache of the conversation is lost anyway, so the context may change at no cost.
        self._brief.context.renew()
        self._io.on_compaction()
        how = "its longest texts were cut"
        if after.dropped:
            self._records.history.compact(len(after.kept), after.summary)
            messages = "1 earlier message is" if after.dropped == 1 else f"{after.dropped} earlier messages are"
            how = f"{messages} replaced by a summary that {'the model' if written else 'code'} wrote"
        self._records.journal.note("notice", text=f"the conversation was shortened: {how}")
        return True

    async def _written_summary(self, dropped: Sequence[Message], limit: int, focus: str) -> str:
        # Whatever goes wrong here, code writes the summary instead.
        request = Request(
            caller=msgspec.structs.replace(self._next_caller(), event=COMPACTION),
            system=summary_writer_prompt(written_words(limit), utf8_safe(focus)),
            messages=(UserMessage((Text(dropped_text(self.conversation.summary, dropped, limit)),)),),
            effort=self.effort,
        )
        why = "it gave none"
        try:
            reply, used = await self._pay_for_reply(request, self._show_summary)
            self._records.journal.note("usage", **msgspec.structs.asdict(used))
            text = utf8_safe(reply.message.text).strip()
            if text and reply.stop != "refused":
                return text
        except (ModelError, BudgetExceeded) as error:
            why = error.what
        self._records.journal.note("notice", text=f"code writes the summary, as the model could not: {why}")
        return ""

    def _show_summary(self, delta: Delta) -> None:
        # The user sees that a summary is being written, but not its words: they are not a reply.
        if isinstance(delta, TextDelta | ThinkingDelta | ToolCallDelta):
            delta = ToolCallDelta(0, "summary", delta.text if isinstance(delta, TextDelta) else "")
        self._io.on_delta(delta)

    def _add_message(self, message: Message, usage: Usage = NO_USAGE) -> None:
        # The store first: after an error here the conversation contains nothing that a resumed one would not.
        self._records.history.add(message, usage)
        self.conversation.add(message)

    def _add_user_parts(self, parts: Sequence[Text | ToolResult]) -> None:
        for part in parts:
            if isinstance(part, ToolResult):
                self._records.journal.note(
                    "tool_result", id=part.call_id, name=part.name, content=part.content, failed=part.failed
                )
        self._hand_in(parts)

    def _hand_in(self, parts: Sequence[Text | Image | ToolResult]) -> None:
        if parts:
            self._stop = None
            self._add_message(UserMessage(tuple(parts)))

    def _write_down(self, message: AssistantMessage, usage: Usage) -> None:
        journal = self._records.journal
        for part in message.parts:
            match part:
                case Thinking(text=text):
                    journal.note("thinking", text=text)
                case Text(text=text):
                    journal.note("text", text=text)
                case ToolCall(id=call_id, name=name, args=args):
                    journal.note("tool_call", id=call_id, name=name, args=args)
        journal.note("usage", **msgspec.structs.asdict(usage))
