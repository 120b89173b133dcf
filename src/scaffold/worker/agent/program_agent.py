"""A program of others as the agent of an attempt: the same prompts, gate, journal and budget as our own."""

from collections.abc import Sequence

from msgspec import structs

from scaffold.agent.agent_spec import AgentRecords, TurnResult
from scaffold.agent.context.text_size import plain_text
from scaffold.agent.io_port import AgentIO, MergedIncoming
from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import AssistantMessage, KeptTurn, Message, StopReason, Text, UserMessage
from scaffold.core.model import Usage
from scaffold.executors.catalog import find_program
from scaffold.executors.port import ProgramMode, ProgramTurn
from scaffold.executors.program_zone import ProgramPlace
from scaffold.llm.transport.live_context import Patience
from scaffold.run.resources.sandbox import folders_without_sandbox
from scaffold.verify.contract.review_verdict import is_review
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.continued_turn import KeptWork
from scaffold.worker.agent.incoming_messages import IncomingMessages
from scaffold.worker.agent.program_turns import ProgramPart, ProgramTurns, program_gate, spender_name
from scaffold.worker.agent.system_prompts import system_prompts
from scaffold.worker.agent.watchdog import RepeatGuard
from scaffold.worker.agent.worker_tools import run_tools
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.workspace.workplace import Workplace

CONTINUED = "Go on with your task where you stopped. What you had asked about may be decided by now: ask for it again."
LOST = "Your earlier conversation cannot be continued; what it has done so far is kept. This is what you were told:"


def program_agent(
    place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords, repeats: RepeatGuard, kept: KeptWork
) -> "ProgramAgent":
    """Return the program that the attempt's executor names, as its agent without the watchdog."""
    run_context, task, journal = records.run_context, records.task, records.open_journal()
    folders = folders_without_sandbox(run_context, task.run, place.sandbox, name=task.attempt.id)
    where = ProgramPlace(
        root=place.workspace.path,
        environ=place.environ | folders,
        user_environ=run_context.environ,
        sandbox=place.sandbox,
    )
    gate = program_gate(where, records, journal, capabilities.human)
    gate.hooks = capabilities.extensions.calls
    system, _ = system_prompts(place, records, journal)
    mode: ProgramMode = "read" if is_review(task.action) else "edit"
    turn = ProgramTurn(prompt="", folder=place.workspace.path, mode=mode, system=system)
    spec = find_program(task.attempt.executor, task.run.settings.executors.programs)
    io = AgentIO(
        on_delta=records.activity.on_delta,
        incoming=MergedIncoming(repeats, IncomingMessages(run_context, task.attempt)),
        watch=repeats.watch,
        redactor=journal.redactor,
    )
    tools = tuple(map(capabilities.extensions.watch, run_tools(place, capabilities, records, journal)))
    part = ProgramPart(turn=turn, place=where, gate=gate, tools=Toolbox(tools, io.redactor, io.watch))
    budget = records.open_budget(task.action.role, spender_name(spec, run_context.environ))
    paid = AgentRecords(journal=journal, budget=budget, keep=kept.keep)
    patience = Patience(task.run.settings.limits.model_wait_s, records.activity.parked)
    return ProgramAgent(ProgramTurns(spec, part, io, paid, patience=patience, clock=run_context.clock), io, paid)


class ProgramAgent:
    """Takes turns, each by a process of its own, in one conversation. Implements `TurnTaker`."""

    def __init__(self, turns: ProgramTurns, io: AgentIO, records: AgentRecords) -> None:
        self._turns = turns
        self._io = io
        self._records = records
        self._messages: tuple[Message, ...] = ()
        """The prompts and answers of the conversation: what another one would have to be told."""
        self._count = 0

    async def turn(self, prompt: str | KeptTurn, /) -> TurnResult:
        """Take a turn, or continue one that another process began, by its conversation if the program still has it."""
        if isinstance(prompt, KeptTurn):
            self._messages, self._count, self._turns.session = prompt.messages, prompt.requests, prompt.session
            last = prompt.messages[-1]
            if isinstance(last, AssistantMessage):
                return TurnResult(last.text, Usage(), 0)
            told = f"{prompt.news}\n\n{CONTINUED}" if prompt.session else f"{prompt.news}\n\n{_text_of(self._messages)}"
        else:
            told = self._io.redactor.clean(prompt)
            self._messages = (*self._messages, UserMessage((Text(told),)))
            if len(self._messages) > 1 and not self._turns.session:  # it cannot continue conversations
                told = f"{LOST}\n\n{_text_of(self._messages)}"
        self._keep_turn()
        told = "\n\n".join(filter(None, (plain_text(self._io.incoming.peek()), told.strip())))
        self._count += 1
        end = await self._turns.take(told, self._has_begun)
        if end.failure == "session":
            self._records.journal.note("notice", text=f"it begins a new conversation: {end.why}")
            self._turns.session = ""
            end = await self._turns.take(f"{LOST}\n\n{_text_of(self._messages)}", self._has_begun)
        self._messages = (*self._messages, AssistantMessage((Text(end.text),)))
        self._keep_turn()
        return TurnResult(end.text, end.usage or Usage(), 1)

    def _has_begun(self) -> None:
        # From here on the program has the messages, and another process finds the conversation.
        self._keep_turn()
        self._io.incoming.take()

    def _keep_turn(self) -> None:
        stop: StopReason | None = "end" if isinstance(self._messages[-1], AssistantMessage) else None
        turn = KeptTurn(messages=self._messages, stop=stop, requests=self._count, answered=self._count)
        self._records.keep(structs.replace(turn, session=self._turns.session))


def _text_of(messages: Sequence[Message]) -> str:
    parts = (
        f"You answered:\n{each.text}"
        if isinstance(each, AssistantMessage)
        else "\n".join(part.text for part in each.parts if isinstance(part, Text))
        for each in messages
    )
    return "\n\n".join(parts)
