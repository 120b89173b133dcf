"""The approval gate in front of tools: decides each call, asks the user if needed, and reports the outcome."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal, assert_never
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.core.ports import Clock
from scaffold.core.tool import Tool, ToolCategory, ToolOutput
from scaffold.policy.permission.call_decision import (
    ACCEPT_EDITS,
    CallContext,
    LazyShellPolicy,
    ShellPolicy,
    context_for,
    decide_call,
)
from scaffold.policy.permission.call_hooks import NO_CALL_HOOKS, CallHooks, CheckedCall
from scaffold.policy.permission.call_request import invocation_of, permission_request
from scaffold.policy.rule.ruleset import Decision, DenialBackoff, PolicyDecision, RuleSet
from scaffold.policy.rule.tool_rules import EDITS, PermissionRequest, Rule, escape_words
from scaffold.policy.shell.workspace_paths import DecisionContext, WorkspacePaths


class DenyBecause(Struct, frozen=True):
    """A denial with the user's reason, which the model gets as the result of the call."""

    reason: str


ApprovalAnswer = Literal["allow", "deny", "always", "edits", "singly"] | DenyBecause
"""`edits` accepts changes of files from now on, `singly` asks about each call of the reply by itself."""
COUNTED_RULES = frozenset({"category", "human"})
"""Denials by these rules count towards the pause: refused by the user, or not approved by anyone."""
UNREPORTED_RULES = frozenset({"category", "--yolo", "read-only"})
"""Permissions by these rules are not reported."""

APPROVED = PolicyDecision("allow", "human", "the user approved it")
EVERY_EDIT = PermissionRequest(tool="", category="file_write", kind="text", subject="")
"""Stands for the changes of files that the user accepts, or no longer accepts, in a report."""
HOOK_RULE = "hook"
"""The rule of decisions made by a hook."""

_HOST = re.compile(r"[a-z0-9.-]+")


class ApprovalOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a tool call's approval."""

    tool: str
    category: ToolCategory
    decision: Decision
    """`ask` for the end of accepted edits."""
    reason: str
    rule: str
    """The deciding rule, as in `PolicyDecision`."""
    agent: str = ""
    """Name of the calling subagent; empty for the session's own agent."""
    args: str = "{}"
    """All arguments, as JSON."""


class ApprovalQuestion(Struct, frozen=True, kw_only=True):
    """A question to the user. The answer is valid only for the call with this digest."""

    tool: str
    category: ToolCategory
    subject: str
    """The command, the path, the URL, or the arguments as JSON."""
    args: str = "{}"
    """All arguments, as JSON."""
    digest: str = ""
    why: str = ""
    """Why the call needs approval."""
    always: str | None = ""
    """The rule that the answer "always" would add; empty if it would allow exactly this call.

    None if "always" is no answer.
    """
    agent: str = ""
    """Name of the calling subagent; empty for the session's own agent."""
    edits: bool = False
    """Whether "edits" is an answer: it would allow this change, or that of a call in `together`."""
    together: tuple["ApprovalQuestion", ...] = ()
    """The other calls of the same reply that need an answer: `allow` and `deny` are for all of them."""

    @property
    def always_allows(self) -> str:
        """The calls that "always" would allow."""
        if not self.always:
            return "exactly this call"
        tool, _, pattern = self.always.partition(":")
        if self.category == "shell":
            limits = "any further words, but no path outside this folder and no flag that changes what it runs"
            return f"{self.always} * ({limits})"
        return f"any change of {pattern}" if tool == EDITS else self.always


class ReplyCalls:
    """The calls of one reply, and what the user has said of those that have not begun."""

    def __init__(self, open_calls: Callable[[], Sequence[tuple[Tool, Mapping[str, Any]]]]) -> None:
        """`open_calls` returns the calls without a result, in order."""
        self.open_calls = open_calls
        self.answered: dict[str, PolicyDecision] = {}
        """By the digests of the calls."""
        self.singly = False
        """Whether the user wants to be asked about each call by itself."""
        self.asking = asyncio.Lock()
        """Held while the user is asked: calls that run in parallel are one question, too."""


REPLY_CALLS: ContextVar[ReplyCalls | None] = ContextVar("REPLY_CALLS", default=None)
"""The reply whose call is decided in this context; None outside of replies."""


def ignore_wait(_waits: bool, /) -> None:
    """Do nothing."""


CALL_WAITS: ContextVar[Callable[[bool], None]] = ContextVar("CALL_WAITS", default=ignore_wait)
"""Told True before the call of this context waits for a human, so it has done nothing, and False once it may run."""

ApprovalPrompt = Callable[[ApprovalQuestion], Coroutine[Any, Any, ApprovalAnswer]]
"""Asks the user; cancelled when the answer is no longer needed."""
ApprovalListener = Callable[[ApprovalOutcome], None]
ApprovalDelegate = Callable[[PermissionRequest, PolicyDecision], Awaitable[PolicyDecision]]
"""Decides a question in the user's place: the parent agent for its subagent, or the inbox."""


class Delegation(Struct, frozen=True):
    """All questions go to a delegate, whose decision is final."""

    to: ApprovalDelegate


def default_mode() -> str:
    """Return the mode of an agent without modes."""
    return "default"


class ApprovalGate:
    """Guards the tools of one session, and decides for its subagents."""

    def __init__(
        self,
        rules: RuleSet,
        *,
        workspace: WorkspacePaths,
        clock: Clock,
        tell: ApprovalListener,
        shell: Callable[[], ShellPolicy],
        approver: ApprovalPrompt | Delegation | None = None,
        mode: Callable[[], str] = default_mode,
    ) -> None:
        """Guard tools that work in `workspace`.

        `approver` decides the calls that need approval; None denies them, because no user is available. `shell` is
        called for the first command only: loading it is slow.
        """
        self._rules = rules
        self._workspace = workspace
        self._clock = clock
        self._tell = tell
        self._shell = LazyShellPolicy(shell)
        self._approver = approver
        self._mode = mode
        self.hooks: CallHooks = NO_CALL_HOOKS
        """Hooks that see each call before it is decided."""
        self.steers: Callable[[str], bool] = lambda _path: False
        """Returns whether a file decides what other programs run: accepting edits does not cover it."""
        self.accepts_edits = False
        """Whether the user accepts changes of the workspace's files, those of subagents too; never stored."""
        self._denials: dict[tuple[str, ToolCategory], DenialBackoff] = {}
        self._settled = asyncio.Event()

    @property
    def rules(self) -> RuleSet:
        """Return the current rules, including the "always" answers."""
        return self._rules

    def accept_edits(self, *, accepts: bool) -> None:
        """Accept changes of the workspace's files without a question from now on, or ask again; both are reported."""
        if accepts != self.accepts_edits:
            self.accepts_edits = accepts
            reason = "the user accepts edits in this folder" if accepts else "the user is asked about edits again"
            decision = PolicyDecision("allow" if accepts else "ask", ACCEPT_EDITS, reason)
            self._tell(_approval_outcome("", EVERY_EDIT, decision))
        self._settle()

    def _settle(self) -> None:
        # Waiting questions are decided again. A new event for each answer: one that stays set would wake later
        # questions at once.
        self._settled.set()
        self._settled = asyncio.Event()

    def guard(self, tool: Tool) -> Tool:
        """Return the tool guarded by the gate: a denied call does not run; its output gives the model the reason."""

        async def run(args: Mapping[str, Any]) -> ToolOutput:
            """Decide the call, run it if it is allowed, and return its output or the reason."""
            checked = await self.checked_call(tool, args)
            if isinstance(checked, ToolOutput):
                return checked
            output = await self.hooks.after(tool, checked.args, await tool.run(checked.args))
            return (
                msgspec.structs.replace(output, content=f"{output.content}\n\n{checked.note}")
                if checked.note
                else output
            )

        return msgspec.structs.replace(tool, run=run)

    async def checked_call(self, tool: Tool, args: Mapping[str, Any], title: str = "") -> CheckedCall | ToolOutput:
        """Return the call that may run, as hooks perhaps changed it, or why none may; a program may give it a title."""
        try:
            request = permission_request(invocation_of(tool, args), self._workspace)
            # Before the decision: what is decided, and shown to the user, is the call that runs.
            checked = await self.hooks.before(tool, args)
            if checked.args is not args:
                if (reply := REPLY_CALLS.get()) is not None:
                    # The question about the reply must not name the call as it was.
                    reply.answered[self._with_scripts(request).digest] = PolicyDecision("deny", HOOK_RULE, "changed")
                request = permission_request(invocation_of(tool, checked.args), self._workspace)
        except UsageError as error:
            return ToolOutput(f"Denied: {error.what}.", failed=True)
        if checked.denied is not None:
            self._tell(_approval_outcome("", request, PolicyDecision("deny", HOOK_RULE, checked.denied)))
            return ToolOutput(f"Denied by a hook: {checked.denied}", failed=True)
        asks = checked.asks
        # Our own tools stay in the workspace by themselves; a program of others could write anywhere.
        is_anywhere = request.category == "file_write" and request.kind != "path" and not request.confined
        if title and is_anywhere and not self._rules.yolo:
            asks = asks or "it does not say which file it changes"
        decision = await self.judge_for("", msgspec.structs.replace(request, hook=asks, title=title))
        if decision.decision == "deny":
            return ToolOutput(f"Denied: {decision.reason}.", failed=True)
        return checked

    async def judge_for(self, agent: str, request: PermissionRequest) -> PolicyDecision:
        """Decide the call of a subagent, or our own if `agent` is empty; return `allow` or `deny`, and report it."""
        request = self._with_scripts(request)
        decision = await self._decide_call(agent, request)
        asked, waits = decision.decision == "ask", ignore_wait if agent else CALL_WAITS.get()
        if asked:
            waits(True)
        # Another answer may settle the question without deciding this call for good, so it is decided again.
        while decision.decision == "ask":
            answered = await self._ask_for_decision(agent, request, decision)
            current = self._with_scripts(request)
            # The answer is about the scripts as they were when the question was asked.
            stands = answered is not None and (answered.decision == "deny" or current == request)
            decision = answered if answered and stands else await self._decide_call(agent, current)
            request = current
        # Permanent denials do not count: a model that meets one by mistake would lose a whole category.
        if asked and decision.decision == "allow":
            waits(False)
        # One answer to several calls counts once.
        if decision.decision == "deny" and (decision.rule == "category" or (decision.rule == "human" and asked)):
            denials = self._denials.get((agent, request.category), DenialBackoff())
            self._denials[agent, request.category] = denials.another(self._clock.monotonic())
        if decision.rule in COUNTED_RULES:
            self._settle()
        if decision.decision == "deny" or decision.rule not in UNREPORTED_RULES:
            self._tell(_approval_outcome(agent, request, decision))
        return decision

    def _with_scripts(self, request: PermissionRequest) -> PermissionRequest:
        if request.kind != "command":
            return request
        scripts = self._shell.scripts(request.subject, self._workspace)
        return msgspec.structs.replace(request, scripts=scripts)

    async def _decide_call(self, agent: str, request: PermissionRequest) -> PolicyDecision:
        denials = self._denials.get((agent, request.category), DenialBackoff())
        pause_s = denials.pause_s(self._clock.monotonic())
        decision = await self._decide_in(self._context(pause_s), request)
        reply = None if agent else REPLY_CALLS.get()
        # A hook asks each time.
        is_open = decision.decision == "ask" and not request.hook
        return (reply.answered.get(request.digest) if reply and is_open else None) or decision

    async def _decide_in(self, context: CallContext, request: PermissionRequest) -> PolicyDecision:
        decision = _deny_outside(request, await decide_call(request, self._rules, context, self._shell))
        if request.hook and decision.decision == "allow":
            return PolicyDecision("ask", HOOK_RULE, request.hook)
        return decision

    def _context(self, pause_s: float, *, accepts_edits: bool = False) -> CallContext:
        return CallContext(
            workspace=self._workspace,
            mode=self._mode(),
            pause_s=pause_s,
            accepts_edits=accepts_edits or self.accepts_edits,
            steers=self.steers,
        )

    async def _ask_for_decision(
        self, agent: str, request: PermissionRequest, decision: PolicyDecision
    ) -> PolicyDecision | None:
        """Return the decision of the user or the delegate; None if another answer settled the question."""
        approver, reply = self._approver, None if agent else REPLY_CALLS.get()
        if isinstance(approver, Delegation):
            named = " ".join((decision.reason, *await self._part_lines(request)))
            return await approver.to(request, msgspec.structs.replace(decision, reason=named))
        if approver is None:
            rule = await self._suggest_rule(request)
            needed = f"{request.tool}:PATTERN" if rule is None else str(rule)
            options = f'`--allow "{needed}"`, `--allow-category {request.category}` or `--yolo`'
            fix = f"It would be allowed by {options}. Continue without it, or report what you would have done"
            reason = f"{decision.reason}, and no user is available to approve it. {fix}"
            return PolicyDecision("deny", "category", reason)
        if reply is None:
            return await self._ask_user(agent, request, decision, approver)
        async with reply.asking:
            # The question of a call that runs in parallel may have been about this one as well.
            current = await self._decide_call(agent, request)
            return await self._ask_user(agent, request, current, approver) if current.decision == "ask" else None

    async def _ask_user(
        self, agent: str, request: PermissionRequest, decision: PolicyDecision, approver: ApprovalPrompt
    ) -> PolicyDecision | None:
        # The rule is made before the question, because the user must see what "always" would allow.
        rule = await self._suggest_rule(request)
        question = await self._question(agent, request, decision, rule)
        reply = None if agent else REPLY_CALLS.get()
        if reply is not None and not reply.singly and not request.hook:
            question = await self._with_others(question, reply)
        match await self._wait_for_answer(agent, request, approver(question)):
            case None:
                return None
            case "singly" if reply is not None:
                reply.singly = True
                return None
            case "edits":
                self.accept_edits(accepts=True)
                return None
            case "deny":
                answer = PolicyDecision("deny", "human", "the user denied it; do not try the same thing another way")
            case DenyBecause(reason=why):
                answer = PolicyDecision("deny", "human", f"the user denied it and says: {why}")
            case "always":
                self._allow_always(request, rule)
                answer = APPROVED
            case _:
                answer = APPROVED
        if reply is not None:
            reply.answered |= {each.digest: answer for each in question.together}
        return answer

    def _allow_always(self, request: PermissionRequest, rule: Rule | None) -> None:
        # Without a rule, "always" allows exactly this call.
        rules = self._rules
        if rule is None:
            self._rules = msgspec.structs.replace(rules, always=rules.always | {request.identity})
        else:
            self._rules = msgspec.structs.replace(rules, allow=(*rules.allow, rule))

    async def _suggest_rule(self, request: PermissionRequest) -> Rule | None:
        return await suggest_rule(request, context_for(self._rules, self._workspace, request.tool), self._shell)

    async def _question(
        self, agent: str, request: PermissionRequest, decision: PolicyDecision, rule: Rule | None
    ) -> ApprovalQuestion:
        accepting = await self._decide_in(self._context(0.0, accepts_edits=True), request)
        question = _approval_question(agent, request, decision, rule)
        why = "\n".join((question.why, *await self._part_lines(request)))
        edits = (accepting.decision, accepting.rule) == ("allow", ACCEPT_EDITS)
        return msgspec.structs.replace(question, why=why, edits=edits)

    async def _part_lines(self, request: PermissionRequest) -> Sequence[str]:
        if request.kind != "command":
            return ()
        return await self._shell.parts(request.subject, context_for(self._rules, self._workspace, request.tool))

    async def _with_others(self, question: ApprovalQuestion, reply: ReplyCalls) -> ApprovalQuestion:
        """Return the question about all calls of the reply that need an answer; `question` is about the first."""
        others: list[ApprovalQuestion] = []
        is_first = True
        for tool, args in reply.open_calls():
            try:
                request = self._with_scripts(permission_request(invocation_of(tool, args), self._workspace))
            except UsageError:
                continue  # it is denied
            decision = await self._decide_call("", request)
            if request.digest == question.digest and is_first:
                is_first = False
            elif decision.decision == "ask":
                other = await self._question("", request, decision, None)
                others.append(msgspec.structs.replace(other, always=None))
        edits = question.edits or any(each.edits for each in others)
        always = None if others else question.always
        return msgspec.structs.replace(question, edits=edits, together=tuple(others), always=always)

    async def _wait_for_answer(
        self, agent: str, request: PermissionRequest, asking: Coroutine[Any, Any, ApprovalAnswer]
    ) -> ApprovalAnswer | None:
        """Return the user's answer; None as soon as another answer settles the question."""
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(asking)
            settling = tasks.create_task(self._wait_until_settled(agent, request))
            await asyncio.wait((answering, settling), return_when=asyncio.FIRST_COMPLETED)
            # The loser is a question that stays on the screen, or a task that waits for ever.
            answering.cancel()
            settling.cancel()
        # An answer that came in the same moment counts: the user gave it.
        return None if answering.cancelled() else answering.result()

    async def _wait_until_settled(self, agent: str, request: PermissionRequest) -> None:
        """Return when the answer to another question decides this call too."""
        while True:
            # The event is taken before the decision, so that an answer in between wakes this task.
            settled = self._settled
            if (await self._decide_call(agent, request)).decision != "ask":
                return
            await settled.wait()


def _deny_outside(request: PermissionRequest, decision: PolicyDecision) -> PolicyDecision:
    # The tools themselves never write outside and limit their reads, so a question would decide nothing.
    if (decision.decision, decision.rule) != ("ask", "outside"):
        return decision
    # File tools open by descriptor inside the workspace and the folders shown to them, whatever was decided here.
    if request.category == "file_read":
        return PolicyDecision("allow", "category", "the tool itself limits what it reads")
    return PolicyDecision("deny", "outside", f"{decision.reason}, and tools never write there")


def _approval_question(
    agent: str, request: PermissionRequest, decision: PolicyDecision, rule: Rule | None
) -> ApprovalQuestion:
    # An answer is about the contents of the scripts too: an agent could change them afterwards.
    scripts = ", ".join(name for name, _ in request.scripts)
    return ApprovalQuestion(
        tool=request.tool,
        category=request.category,
        subject=request.subject,
        args=request.args,
        digest=request.digest,
        why=decision.reason + (f"; the answer holds for {scripts} as it is now" if scripts else ""),
        # A hook asks again each time.
        always=None if request.hook else "" if rule is None else str(rule),
        agent=agent,
    )


def _approval_outcome(agent: str, request: PermissionRequest, decision: PolicyDecision) -> ApprovalOutcome:
    return ApprovalOutcome(
        tool=request.tool,
        category=request.category,
        decision=decision.decision,
        reason=decision.reason,
        rule=decision.rule,
        agent=agent,
        args=request.args,
    )


async def suggest_rule(request: PermissionRequest, context: DecisionContext, shell: ShellPolicy) -> Rule | None:
    """Return a rule that would allow this and similar calls; None if only exactly this call can be allowed."""
    match request.kind:
        case "command":
            pattern = await shell.suggest_pattern(request.subject, context)
        case "path":
            [pattern] = escape_words(request.paths) if len(request.paths) == 1 else (None,)
            return Rule(EDITS if request.category == EDITS else request.tool, pattern) if pattern else None
        case "url":
            pattern = _ascii_host(request.subject)
        case "text":
            return None
        case _:
            assert_never(request.kind)
    return Rule(request.tool, pattern) if pattern else None


def _ascii_host(url: str) -> str | None:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return None
    # A pattern with characters that look alike, or with glob characters, would allow another host than the user sees.
    return host if _HOST.fullmatch(host) else None
