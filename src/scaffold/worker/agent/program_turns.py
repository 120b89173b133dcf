"""Turns of a program: written down, asked about, paid, and waited for where its provider is used up.

It has our tools as an MCP server. Their calls run here, as those of our own agents do.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, nullcontext, suppress

import msgspec
from msgspec import Struct, structs

from scaffold.agent.agent_spec import AgentRecords
from scaffold.agent.context.text_size import text_size
from scaffold.agent.io_port import AgentIO
from scaffold.agent.journal import Journal, approval_logger
from scaffold.agent.model_access import open_user_store
from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import Delta, RetryWait, TextDelta, ThinkingDelta, ToolCall, ToolCallDelta, ToolResult
from scaffold.core.errors import (
    BudgetExceeded,
    ModelAccessDenied,
    ModelError,
    ModelUnavailable,
    ScaffoldError,
    TurnLimitExceeded,
    UsageError,
)
from scaffold.core.executor_settings import ProgramSpec
from scaffold.core.ids import ReservationId
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, Clock, RequestOutcome
from scaffold.core.run_settings import program_model
from scaffold.core.spending import SUBSCRIPTION, Amount
from scaffold.core.tool import Tool, ToolCategory, ToolOutput
from scaffold.executors.catalog import protocol_of
from scaffold.executors.port import (
    EndedTool,
    Noticed,
    PermissionAnswer,
    PermissionQuestion,
    ProgramEnd,
    ProgramEvent,
    ProgramTurn,
    ReportedUsage,
    SaidText,
    StartedSession,
    StartedTool,
    ToolServer,
    TurnFailure,
    Waits,
)
from scaffold.executors.program_zone import ProgramPlace, payer, program_command
from scaffold.executors.tool_server import offer_tools
from scaffold.executors.turn import take_program_turn
from scaffold.host.clock import SystemClock
from scaffold.host.process.piped_process import PipedCommand
from scaffold.host.process_identity import own_identity
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.llm.transport.live_context import Patience
from scaffold.llm.wire.codec import BYTES_PER_TOKEN
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.store.shared_throttle import SharedThrottle
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.inbox_approval import InboxApprover, worker_gate

GO_ON = "Your provider accepts requests again. Go on where you stopped."
OUR_NAMES: Mapping[ToolCategory, str] = {"shell": "shell", "file_write": "write_file", "file_read": "read_file"}
"""What we call its tools of these kinds: rules and hooks of the user are about what is done, whoever does it."""
NO_CHANGES = "this agent only reads: answer with text, or by the tools of the server `scaffold`"
_OUTCOMES: Mapping[TurnFailure | None, RequestOutcome] = {None: "ok", "quota": "limited", "overloaded": "unavailable"}


class ProgramPart(Struct, frozen=True, kw_only=True):
    """What an agent is that is a program: its part in the work."""

    turn: ProgramTurn
    """Its folder, mode and system prompt; each turn has its own prompt and session."""
    place: ProgramPlace
    """With the sandbox, unless each turn opens one."""
    gate: ApprovalGate | None
    """Answers its questions; None: its zone does, in which nothing can be written."""
    tools: Toolbox
    """Ours, which ask for their calls themselves."""
    opened: Callable[[ProgramPlace], AbstractAsyncContextManager[ProgramPlace]] = nullcontext
    """Opens the place for one turn."""


def program_gate(
    place: ProgramPlace, records: AttemptRecords, journal: Journal, human: InboxApprover | None
) -> ApprovalGate:
    """Return the gate of a worker for a program's own tools; without `human`, what needs one is denied."""
    return worker_gate(
        records.run_context,
        records.task.run.settings.permissions,
        place.root,
        human,
        confined=place.sandbox is not None,
        tell=approval_logger(journal),
    )


def spender_name(spec: ProgramSpec, environ: Mapping[str, str]) -> str:
    """Return the name under which what a program uses is booked.

    What a subscription pays is marked: it costs what the same use would cost by a key, or as the program says.
    """
    return spec.name if payer(spec, environ) or not spec.keys else f"{spec.name}{SUBSCRIPTION}"


class ProgramTurns:
    """One conversation with a program."""

    def __init__(
        self,
        spec: ProgramSpec,
        part: ProgramPart,
        io: AgentIO,
        records: AgentRecords,
        *,
        patience: Patience,
        clock: Clock,
    ) -> None:
        self.session = ""
        """The id of the conversation; empty before it begins."""
        self._spec = spec
        self._part = part
        self._io = io
        self._journal = records.journal
        self._budget = records.budget
        self._patience = patience
        self._clock = clock

    async def take(self, prompt: str, began: Callable[[], object]) -> ProgramEnd:
        """Take a turn to its end; `began` is called when the conversation has its id.

        While the provider is used up or away, it waits as long as a request to a model does; then ModelUnavailable.
        Raises BudgetExceeded if the turn was interrupted because the budget is used up, another ModelError if it
        failed. A failure `session` is returned.
        """
        clock, give_up_at = self._clock, self._clock.monotonic() + self._patience.wait_s
        endpoint = program_model(self._spec.name).name
        with closing(open_user_store()) as user:
            throttle = SharedThrottle(user, clock=SystemClock(), me=own_identity())
            while True:
                with self._patience.waiting():
                    left_s = max(0.0, give_up_at - clock.monotonic())
                    try:
                        ticket = await throttle.enter(endpoint, timeout_s=left_s, on_cooldown=self._note_wait)
                    except ModelUnavailable:
                        # The next attempt would begin, and end, at once.
                        await clock.sleep(left_s)
                        raise
                outcome: RequestOutcome = "failed"
                retry_s: float | None = None
                try:
                    end = await self._pay_for_turn(prompt, began)
                    outcome = _OUTCOMES.get(end.failure, "failed")
                    if end.resets_at is not None:
                        retry_s = max(0.0, end.resets_at - clock.now().timestamp())
                finally:
                    throttle.leave(ticket, outcome, retry_after_s=retry_s)
                if outcome not in {"limited", "unavailable"} or clock.monotonic() >= give_up_at:
                    return self._checked_end(end)
                self._journal.note("notice", text=f"{self._spec.name} has to wait: {end.why}")
                prompt = GO_ON if self.session else prompt

    def _note_wait(self, seconds: float) -> None:
        if seconds:
            self._io.on_delta(RetryWait(seconds, "its provider is used up or away"))

    async def _pay_for_turn(self, prompt: str, began: Callable[[], object]) -> ProgramEnd:
        budget = self._budget
        sent = text_size(prompt) + text_size(self._part.turn.system)
        estimate = Usage(input_tokens=sent // BYTES_PER_TOKEN, cost_usd=None, requests=1)
        reservation = await budget.reserve(estimate)
        left = budget.left_for(reservation)
        listener = _WorkerListener(self._part, self._io, self._journal, _Meter(budget, reservation))
        used, model = Usage(), ""
        self._journal.note("prompt", text=prompt)

        def remember(session: str) -> None:
            self.session = session
            began()

        listener.on_session = remember
        try:
            turn = structs.replace(
                self._part.turn,
                prompt=prompt,
                session=self.session,
                budget_usd=left.usd if math.isfinite(left.usd) else None,
            )
            end = await self._follow_turn(turn, listener)
            self.session, model = end.session or self.session, end.model
            used = end.usage or used
            return end
        finally:
            listener.flush()
            # Whatever ended it: what was reported was used, and a conversation that began was paid at least once.
            used = used if used != Usage() else listener.usage or (estimate.as_estimate if listener.has_begun else used)
            used = self._with_price(structs.replace(used, requests=max(used.requests, int(used != Usage()))), model)
            self._journal.note("usage", **structs.asdict(used))
            budget.settle(reservation, used)

    async def _follow_turn(self, turn: ProgramTurn, listener: "_WorkerListener") -> ProgramEnd:
        async with self._opened_zone() as (command, server):
            turn, listener.is_confined = structs.replace(turn, server=server), command.sandbox is not None
            working = asyncio.create_task(take_program_turn(protocol_of(self._spec), command, turn, listener))
            watching = asyncio.create_task(self._watch_failures(listener))
            stopping = asyncio.create_task(listener.stopped.wait())
            tasks = (working, watching, stopping)
            try:
                await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        if listener.error is not None:
            raise listener.error
        return working.result()

    @asynccontextmanager
    async def _opened_zone(self) -> AsyncIterator[tuple[PipedCommand, ToolServer | None]]:
        tools = self._part.tools.tools
        async with self._part.opened(self._part.place) as place, program_command(self._spec, place) as command:
            if not tools:
                yield command, None
                return
            async with offer_tools(tools, self._answer_call, command.sandbox) as (server, sandbox):
                yield structs.replace(command, sandbox=sandbox), server

    async def _answer_call(self, call: ToolCall) -> ToolResult:
        batch = self._part.tools.batch((call,))
        await batch.run()
        return batch.results[0]

    async def _watch_failures(self, listener: "_WorkerListener") -> None:
        while True:
            call, ended = await listener.failed.get()
            self._io.incoming.peek()
            await self._io.watch(call, None, ToolOutput(ended.content, failed=True))

    def _with_price(self, usage: Usage, model: str) -> Usage:
        if usage.cost_usd is not None:
            return usage
        with suppress(UsageError):
            if (prices := model_card(parse_model(model)).prices) is not None:
                cost_usd = prices.cost_usd(usage, self._clock.now().date())
                return structs.replace(usage, cost_usd=cost_usd)
        return usage

    def _checked_end(self, end: ProgramEnd) -> ProgramEnd:
        name, why = self._spec.name, end.why or "it does not say why"
        fix = "Its journal shows what it did."
        match end.failure:
            case None | "session":
                return end
            case "login":
                raise ModelAccessDenied(f"{name} is not logged in: {why}", f"Log in with `{self._spec.login or name}`.")
            case "quota":
                raise ModelUnavailable(f"{name} is used up: {why}", "It goes on once its provider accepts requests.")
            case "overloaded":
                raise ModelUnavailable(f"{name} does not reach its provider: {why}", "It is tried again later.")
            case "context":
                # Not for good, as for our own agents: it makes its conversation shorter itself, and a new one is short.
                raise ModelError(f"the conversation of {name} is too long: {why}", "Make the task smaller.")
            case "limit":
                raise TurnLimitExceeded(f"{name} reached its own limit: {why}", "Make the task smaller.")
            case "model" | "program":
                raise ModelError(f"{name} failed: {why}", fix, transient=end.failure == "program")


class _Meter(Struct, frozen=True):
    budget: Budget
    reservation: ReservationId

    def left_after(self, usage: Usage) -> Amount:
        """Return what is left once this is paid; it is booked even if this process is killed."""
        self.budget.set_tries(self.reservation, 1, usage)
        left = self.budget.left_for(self.reservation)
        return Amount(left.usd - (usage.cost_usd or 0.0), left.tokens - usage.counted_tokens)


class _WorkerListener:
    """Hears one turn. Implements `port.TurnListener`."""

    def __init__(self, part: ProgramPart, io: AgentIO, journal: Journal, meter: _Meter) -> None:
        self._part = part
        self._io = io
        self._journal = journal
        self._meter = meter
        self._said: list[SaidText] = []
        self._calls: dict[str, StartedTool] = {}
        self.on_session: Callable[[str], object] = str
        self.has_begun = False
        self.is_confined = False
        self.usage: Usage | None = None
        self.failed = asyncio.Queue[tuple[ToolCall, EndedTool]]()
        """Failed calls of the program's tools."""
        self.stopped = asyncio.Event()
        """Set once the turn must not go on."""
        self.error: ScaffoldError | OSError | None = None
        """Why."""

    def hear(self, event: ProgramEvent, /) -> None:
        """Write the event down, and stop the turn if that is impossible or the budget is used up."""
        self._io.on_delta(_delta_of(event))
        try:
            self._take_event(event)
        except (ScaffoldError, OSError) as error:
            self._stop_turn(error)

    async def permit(self, question: PermissionQuestion, /) -> PermissionAnswer:
        """Answer by the gate of workers: rules, hooks, then a human."""
        if self._part.gate is None:
            return PermissionAnswer(self.is_confined or question.category == "file_read", NO_CHANGES)
        args = dict(question.args)
        if question.category == "shell" and "command" in args:
            # Words of the model about the command, other ones each time: a decision is about what runs.
            args.pop("description", None)
        tool = Tool(
            name=OUR_NAMES.get(question.category, question.tool),
            description=question.title,
            schema={},
            category=question.category,
            run=_run_nothing,
            sandboxed=self.is_confined,
        )
        checked = await self._part.gate.checked_call(tool, args, question.title)
        if isinstance(checked, ToolOutput):
            return PermissionAnswer(allowed=False, reason=checked.content)
        if checked.args != args:
            wanted = msgspec.json.encode(checked.args).decode()
            return PermissionAnswer(allowed=False, reason=f"A hook of the user wants it with the arguments {wanted}")
        return PermissionAnswer(allowed=True)

    def flush(self) -> None:
        """Write down what was said and is not yet in the journal."""
        said, self._said = self._said, []
        if text := "".join(each.text for each in said).strip():
            self._journal.note("thinking" if said[0].is_thinking else "text", text=text)

    def _take_event(self, event: ProgramEvent) -> None:
        if not isinstance(event, SaidText) or (self._said and self._said[0].is_thinking != event.is_thinking):
            self.flush()
        match event:
            case StartedSession(session=session):
                self.has_begun = True
                self.on_session(session)
            case SaidText():
                self._said.append(event)
            case StartedTool(id=call_id, name=name, args=args):
                self._calls[call_id] = event
                self._journal.note("tool_call", id=call_id, name=name, args=args)
            case EndedTool():
                self._take_result(event)
            case ReportedUsage(usage=usage):
                self._take_usage(usage)
            case Waits(seconds=seconds, reason=reason):
                self._journal.note("notice", text=f"it waits {seconds:.0f} s for its provider: {reason}")
            case Noticed(text=text):
                self._journal.note("notice", text=text)

    def _take_result(self, ended: EndedTool) -> None:
        call = self._calls.get(ended.id)
        name = call.name if call else ""
        self._journal.note("tool_result", id=ended.id, name=name, content=ended.content, failed=ended.failed)
        if ended.failed and call is not None:
            self.failed.put_nowait((ToolCall(call.id, call.name, call.args), ended))

    def _take_usage(self, usage: Usage) -> None:
        self.usage = usage
        left = self._meter.left_after(usage)
        if left.usd <= 0 or left.tokens <= 0:
            what = "the turn was interrupted: it has used what was left of the budget"
            self._stop_turn(BudgetExceeded(what, "Raise the limit with `scaffold resume`."))

    def _stop_turn(self, error: ScaffoldError | OSError) -> None:
        self.error = self.error or error
        self.stopped.set()


def _delta_of(event: ProgramEvent) -> Delta:
    """Return a sign of life for those who watch the agent."""
    match event:
        case SaidText(text=text, is_thinking=is_thinking):
            return ThinkingDelta(text) if is_thinking else TextDelta(text)
        case StartedTool(name=name):
            return ToolCallDelta(0, name, "")
        case Waits(seconds=seconds, reason=reason):
            return RetryWait(seconds, reason)
        case _:
            return TextDelta("")


async def _run_nothing(_: Mapping[str, object]) -> ToolOutput:
    raise AssertionError
