"""One turn of the planner or of a supervisor's agent, on a fresh context.

The turn's row is open while the agent works. Its proposals are collected, checked when the agent says that it is done,
and written in one transaction with the end of the turn. An interrupted turn leaves only the open row, which the next
turn closes as lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

from msgspec import Struct, structs

from scaffold.agent.agent_spec import AgentRecords, AgentSpec, TurnResult
from scaffold.agent.io_port import AgentIO, do_nothing
from scaffold.agent.journal import JournalFile
from scaffold.agent.prompts import system_prompt
from scaffold.agent.repeated_calls import LoopDetected
from scaffold.core.conversation import Caller, KeptTurn, Text, ToolCall, UserMessage
from scaffold.core.errors import (
    BudgetExceeded,
    ModelAccessDenied,
    ModelError,
    ModelUnavailable,
    ScaffoldError,
    TurnLimitExceeded,
)
from scaffold.core.ids import GoalId, TurnId
from scaffold.core.model import Action, Goal, PlanningEvent, PlanningTurn, PlanningTurnOutcome, Run, Usage
from scaffold.core.plan import Finding
from scaffold.core.printable_text import utf8_safe
from scaffold.core.spending import Spender
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process_identity import own_identity
from scaffold.host.random_ids import new_id
from scaffold.orchestrator.planning.apply_plan import apply_changes, read_draft
from scaffold.orchestrator.planning.proposals import DraftProposals
from scaffold.plan.edit.draft import ChangeRejected, DraftChange, PlanDraft
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.attempts.time_limit import TimeLimit
from scaffold.run.context import RunContext
from scaffold.run.paid_replies import PaidReplies
from scaffold.store.database import Store
from scaffold.store.spending.run_budget import RunBudget
from scaffold.tools.read_cache import is_read_only
from scaffold.worker.agent.agent_source import AgentProgram, AgentSource, booked_as
from scaffold.worker.agent.role_agents import new_agent
from scaffold.worker.agent.watchdog import TurnTaker

MAX_ROUNDS = 3
"""How often an agent may hand in before its proposal is rejected for good."""
MAX_REQUESTS = 20
"""The limit of model requests per round."""
MAX_FINDINGS = 12
"""How many findings one prompt names."""


class TurnRequest(Struct, frozen=True, kw_only=True):
    """The reason for a turn, and its prompt."""

    event: PlanningEvent
    prompt: str
    goal: Goal | None = None
    """None for the planner."""
    action: Action | None = None
    """The compound that the turn is about; None if it is about the goal."""
    limit: TimeLimit | None = None
    """The turn's time limit, paused while its model's endpoint is away; None: that of an attempt, from now on."""
    news: str = ""
    """What an agent that goes on after an interruption does not know yet; empty if nothing has happened."""

    @property
    def role(self) -> str:
        """Return the role of the agent: `planner` or `supervisor`."""
        return "planner" if self.event == "plan" else "supervisor"


class PlanWritten(Struct, frozen=True, tag="written"):
    """The agent is done and its proposal is in the store; `text` is its final reply."""

    changes: tuple[DraftChange, ...]
    text: str


class PlanRejected(Struct, frozen=True, tag="rejected"):
    """The proposal still had errors, or the agent was in a loop or had no effect; nothing is written."""

    findings: tuple[Finding, ...]
    why: str


class ModelFailed(Struct, frozen=True, tag="model_failed"):
    """The model gave no usable reply; `retryable` is True if another turn may succeed."""

    error: str
    retryable: bool


class TurnOverBudget(Struct, frozen=True, tag="over_budget"):
    """The budget did not allow another request."""

    error: str
    fix: str


class TurnUnavailable(Struct, frozen=True, tag="unavailable"):
    """The model's endpoint accepted no requests."""

    error: str
    is_denied: bool
    """Whether it refuses this user, so that waiting does not help."""


PlanningResult = PlanWritten | PlanRejected | ModelFailed | TurnOverBudget | TurnUnavailable


def no_extra_changes(store: Store, /) -> None:
    """Change nothing else."""


class TurnRules(Struct, frozen=True, kw_only=True):
    """The tools of a proposal turn, and the checks that a proposal must pass."""

    tools: Callable[[DraftProposals], Sequence[Tool]]
    faults: Callable[[PlanDraft], Sequence[Finding]]
    """Returns the errors of a proposal; without any, it is written."""
    extra_changes: Callable[[Store], None] = no_extra_changes
    """Further changes in the transaction that writes the proposal."""


async def run_proposal_turn(
    context: RunContext, run: Run, source: AgentSource, request: TurnRequest, rules: TurnRules
) -> PlanningResult:
    """Run a turn of the agent, write its proposal, and return the result.

    Raises StaleFence, and writes nothing, if another process took over the run or started a turn of the same goal.
    """
    open_turn = _OpenTurn(context, run, request)
    proposals = DraftProposals(context.store, run)
    tools = rules.tools(proposals)
    if isinstance(source, AgentProgram):
        await open_turn.repeat_calls(tools)
        agent = open_turn.agent(source, [*map(open_turn.with_kept_calls, tools)], keep=open_turn.keep)
    else:
        # The replies of a model are stored one by one, and replayed.
        open_turn.kept, agent = None, open_turn.agent(source, tools)
    return await open_turn.run_to_end(lambda: _propose_until_sound(open_turn, agent, proposals, rules))


class StepTools(Struct, frozen=True, kw_only=True):
    """The tools of an agent that takes every step itself, and the check that the turn had an effect."""

    tools: Sequence[Tool]
    """Each call writes to the store in its own transaction, and may be repeated."""
    idle: Callable[[], str | None]
    """Returns why the turn had no effect; None if it had one."""


async def run_step_turn(
    context: RunContext, run: Run, source: AgentSource, request: TurnRequest, step_tools: StepTools
) -> PlanningResult:
    """Run a turn in which the agent takes every step itself, or continue one; otherwise like `run_proposal_turn`."""
    open_turn = _OpenTurn(context, run, request)
    agent = open_turn.agent(source, step_tools.tools, keep=open_turn.keep)
    return await open_turn.run_to_end(lambda: _take_steps(open_turn, agent, step_tools))


def close_lost_turns(store: Store, run: Run, goal_id: GoalId | None) -> None:
    """End the goal's open turns (None: the planner's) as lost, after their process has exited."""
    with owner_transaction(store, run, durable=True):
        _close_open(store, run, goal_id)


def only_errors(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings of severity `error`, which forbid a plan."""
    return tuple(finding for finding in findings if finding.severity == "error")


class _OpenTurn:
    """A running turn; its row is the only open one of its goal."""

    def __init__(self, context: RunContext, run: Run, request: TurnRequest) -> None:
        self.context = context
        self.run = run
        self.request = request
        self._redactor = context.redactor
        goal, action = request.goal, request.action
        self._log = context.journal("planner" if goal is None else goal.name, request.role)
        self.turn = PlanningTurn(
            id=TurnId(new_id()),
            run_id=run.id,
            goal_id=None if goal is None else goal.id,
            action_id=None if action is None else action.id,
            event=request.event,
            model=run.settings.agent_model(request.role).name,
            usage=Usage(),
            log_file=str(self._log),
            started_at=context.clock.now(),
        )
        self._latest: KeptTurn | None = None
        self._calls: tuple[ToolCall, ...] = ()
        self._scope = f"{run.id} {request.role} {self.turn.goal_id or ''} {self.turn.model}"
        with owner_transaction(context.store, run, durable=True):
            # A replaced supervisor that still lives finds its turn ended, and can store nothing: see `finish`.
            _close_open(context.store, run, self.turn.goal_id)
            context.store.turns.begin(self.turn)
            self.kept = context.store.paid_replies.find_turn(self._scope)
            if self.kept is not None and request.news and self.kept.stop in {"end", "refused"}:
                self.kept = None  # it would end without reading them
            # At once: the next turn after another interruption knows only what happened since this one began.
            if self.kept is not None and request.news:
                news = "\n".join(filter(None, (self.kept.news, request.news)))
                self.kept = structs.replace(self.kept, news=self._redactor.clean(news))
                context.store.paid_replies.keep_turn(self._scope, self.kept)

    def keep(self, turn: KeptTurn) -> None:
        """Store how far the turn has come; StaleFence if another process has ended it."""
        store, self._latest = self.context.store, turn
        with owner_transaction(store, self.run):
            store.turns.check(self.turn.id)
            store.paid_replies.keep_turn(self._scope, structs.replace(turn, calls=self._calls))

    async def repeat_calls(self, tools: Sequence[Tool]) -> None:
        """Propose again what was proposed before the turn was cut off, unless it was another turn of the same goal."""
        prompt = UserMessage((Text(self._redactor.clean(self.request.prompt)),))
        if self.kept is None or self.kept.messages[:1] != (prompt,):
            self.kept = None
            return
        self._latest, self._calls = self.kept, self.kept.calls
        for call, tool in product(self._calls, tools):
            if call.name == tool.name:
                await tool.run(call.args)

    def with_kept_calls(self, tool: Tool) -> Tool:
        """Return a tool whose calls are stored, as what they propose is lost with this process."""

        async def run(args: Mapping[str, Any]) -> ToolOutput:
            output = await tool.run(args)
            if not output.failed and self._latest is not None:
                self._calls += (ToolCall("", tool.name, args),)
                self.keep(self._latest)
            return output

        return tool if is_read_only(tool) else structs.replace(tool, run=run)

    def agent(
        self, source: AgentSource, tools: Sequence[Tool], *, keep: Callable[[KeptTurn], None] = do_nothing
    ) -> TurnTaker:
        """Return the turn's agent, with a fresh context and the run's budget; `keep` stores how far it has come."""
        settings, journal = self.run.settings, self._open_journal()
        own = settings.agent_model(self.request.role)
        action, planner = self.request.action, self.request.role == "planner"
        return new_agent(
            source,
            tools=tools,
            brief=AgentSpec(
                caller=Caller(
                    role=self.request.role,
                    action=None if action is None else action.key,
                    event=None if planner else self.request.event,
                ),
                system=system_prompt(
                    self.request.role,
                    folders=settings.planning.prompts,
                    notice=lambda text: journal.note("notice", text=text),
                ),
                max_requests=MAX_REQUESTS,
                effort=own.effort_of(self.request.role),
                compaction=own.compaction,
                whole_prompt=True,
            ),
            io=AgentIO(redactor=self._redactor),
            records=AgentRecords(
                journal=journal,
                budget=RunBudget(
                    self.context.store,
                    self.turn,
                    Spender(self.request.role, booked_as(source, own)),
                    limits=settings.limits,
                    clock=self.context.clock,
                    owner=own_identity(),
                ),
                paid=PaidReplies(self.context.store, self._scope, own.name),
                keep=keep,
            ),
        )

    def _open_journal(self) -> JournalFile:
        goal, action = self.request.goal, self.request.action
        fields = {"run": self.run.id, "role": self.request.role}
        fields |= {} if goal is None else {"goal": goal.name}
        fields |= {} if action is None else {"action": action.key}
        return JournalFile(self._log, clock=self.context.clock, fields=fields, redactor=self._redactor)

    async def run_to_end(self, conversation: Callable[[], Awaitable[PlanningResult]]) -> PlanningResult:
        """Run the conversation, store its result and return it; a cancelled turn ends as lost."""
        try:
            ending = await self._with_timeout(conversation)
        except asyncio.CancelledError:
            with suppress(ScaffoldError):  # otherwise another process closes the turn
                self._end_turn("lost", "the turn was cancelled")
            raise
        match ending:
            case PlanRejected(why=why):
                self._end_turn("refused", why)
            case ModelFailed(error=error):
                self._end_turn("failed", error)
            case TurnOverBudget(error=error):
                self._end_turn("budget", error)
            case TurnUnavailable(error=error):
                self._end_turn("unavailable", error)
        return ending

    async def _with_timeout(self, conversation: Callable[[], Awaitable[PlanningResult]]) -> PlanningResult:
        limit = self.request.limit or TimeLimit(self.context.clock, self.run.settings.tier.timeout_s)
        try:
            async with limit.enforced():
                return await conversation()
        except TimeoutError:
            # Another TimeoutError, raised inside of the conversation.
            if limit.left_s > 0:
                raise
            return ModelFailed(f"The {self.request.role} timed out after {limit.limit_s:.0f} s.", retryable=True)
        except BudgetExceeded as exceeded:
            return TurnOverBudget(self._clean_text(exceeded.what), exceeded.fix)
        except ModelUnavailable as unavailable:
            return TurnUnavailable(self._clean_text(unavailable.in_full), isinstance(unavailable, ModelAccessDenied))
        except ModelError as model_error:
            return ModelFailed(
                self._clean_text(model_error.in_full),
                retryable=model_error.transient or isinstance(model_error, TurnLimitExceeded),
            )

    def finish(self, extra_changes: Callable[[Store], None]) -> None:
        """End the turn as done and apply `extra_changes` in one transaction; an exception rolls both back."""
        store = self.context.store
        with owner_transaction(store, self.run, durable=True):
            # The fence is not enough: two supervisors of one goal share that of their owner.
            store.turns.check(self.turn.id)
            # A ChangeRejected rolls back, so the turn is still open for another round.
            extra_changes(store)
            store.turns.end(self.turn.id, "done")
            store.paid_replies.forget(self._scope)

    def _end_turn(self, outcome: PlanningTurnOutcome, error: str) -> None:
        with owner_transaction(self.context.store, self.run, durable=True):
            self.context.store.turns.end(self.turn.id, outcome, error=self._clean_text(error))
            if outcome in {"refused", "failed"}:  # the same replies would end in the same way
                self.context.store.paid_replies.forget(self._scope)

    def _clean_text(self, text: str) -> str:
        return self._redactor.clean(utf8_safe(text))


async def _propose_until_sound(
    open_turn: _OpenTurn, agent: TurnTaker, proposals: DraftProposals, rules: TurnRules
) -> PlanningResult:
    message: str | KeptTurn = open_turn.kept or open_turn.request.prompt
    findings: tuple[Finding, ...] = ()
    for _ in range(MAX_ROUNDS):
        try:
            finish = await agent.turn(message)
        except LoopDetected as loop:
            findings = tuple(rules.faults(proposals.draft))
            # A sound proposal is written even if its agent cannot stop.
            if findings or not proposals.draft.changes:
                return PlanRejected(findings, loop.what)
            findings = _write_proposals(open_turn, proposals, rules)
            return PlanRejected(findings, loop.what) if findings else PlanWritten(proposals.draft.changes, loop.what)
        if finish.stop == "refused":
            return _model_refused(finish)
        # If the plan has changed since the agent read it, rejected changes come back as findings, too.
        findings = tuple(rules.faults(proposals.draft)) or _write_proposals(open_turn, proposals, rules)
        if not findings:
            return PlanWritten(proposals.draft.changes, finish.text)
        message = findings_prompt(findings)
    shown = "; ".join(fault.message for fault in findings[:MAX_FINDINGS])
    more = f"; and {len(findings) - MAX_FINDINGS} more" if len(findings) > MAX_FINDINGS else ""
    return PlanRejected(findings, f"the proposal still has errors after {MAX_ROUNDS} replies: {shown}{more}")


async def _take_steps(open_turn: _OpenTurn, agent: TurnTaker, step_tools: StepTools) -> PlanningResult:
    try:
        finish = await agent.turn(open_turn.kept or open_turn.request.prompt)
    except LoopDetected as loop:
        return PlanRejected((), loop.what)
    if finish.stop == "refused":
        return _model_refused(finish)
    why = step_tools.idle()
    if why is not None:
        return PlanRejected((), why)
    open_turn.finish(no_extra_changes)
    return PlanWritten((), finish.text)


def _write_proposals(open_turn: _OpenTurn, proposals: DraftProposals, rules: TurnRules) -> tuple[Finding, ...]:
    """Write the proposals and end the turn, or return why they no longer fit the stored plan.

    Then the proposals that still fit are moved to a draft of the stored plan, and the others are dropped.
    """
    run, now = open_turn.run, open_turn.context.clock.now()

    def write(store: Store) -> None:
        apply_changes(store, run, proposals.draft.changes, now=now)
        rules.extra_changes(store)

    try:
        open_turn.finish(write)
    except ChangeRejected as rejected:
        draft, findings = read_draft(open_turn.context.store, run), list[Finding]()
        for change in proposals.draft.changes:
            try:
                draft.apply(change)
            except ChangeRejected as outdated:
                findings.append(_outdated_finding(outdated))
        # The agent's next tool calls must see the stored plan, not the rejected one.
        proposals.draft = draft
        return tuple(findings) or (_outdated_finding(rejected),)
    return ()


def _outdated_finding(rejected: ChangeRejected) -> Finding:
    return Finding(
        code="outrun",
        severity="error",
        message=f"the plan changed during your turn: {rejected.what}",
        fix=f"{rejected.fix} Read the current plan and propose again what is still needed.",
    )


def findings_prompt(findings: Sequence[Finding]) -> str:
    """Return the prompt that reports the errors of a proposal to its agent."""
    lines = [f"- [{fault.code}] {fault.message}. {fault.fix}" for fault in findings[:MAX_FINDINGS]]
    if len(findings) > MAX_FINDINGS:
        lines.append(f"- and {len(findings) - MAX_FINDINGS} more errors")
    lead = "Nothing has been written yet, because the plan has errors:"
    return "\n".join((lead, *lines, "Fix them with the tools, then reply without tool calls."))


def _model_refused(finish: TurnResult) -> ModelFailed:
    return ModelFailed(f"The model refused to answer. {finish.text}".rstrip(), retryable=True)


def _close_open(store: Store, run: Run, goal_id: GoalId | None) -> None:
    for turn in store.turns.open_of_run(run.id):
        if turn.goal_id == goal_id:
            store.turns.mark_lost(turn.id)
