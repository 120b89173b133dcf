"""A worker's permissions: decided by rules, and where these ask, by a human in the run's inbox."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scaffold.agent.messages.poller import ChangeTick, StorePoller
from scaffold.core.errors import HumanDecisionRequired
from scaffold.core.model import InboxItem, InboxKind
from scaffold.core.printable_text import truncate_text, utf8_safe
from scaffold.core.run_settings import PermissionSettings
from scaffold.core.states import Active
from scaffold.core.tool import ToolCategory
from scaffold.host.random_ids import new_id
from scaffold.host.wake_fifo import wake_up
from scaffold.plan.question_budget import QuestionKind
from scaffold.policy.permission.approval_gate import ApprovalGate, ApprovalListener, Delegation
from scaffold.policy.rule.ruleset import Decision, PolicyDecision, RuleSet, tighten_categories
from scaffold.policy.rule.tool_rules import PermissionRequest, parse_rule
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.run.context import RunContext
from scaffold.run.notices import asked_items
from scaffold.worker.attempt_records import AttemptRecords

QUESTION_LIFETIME = timedelta(days=7)
"""How long a question stays open; an older one may no longer match the situation."""
TERMINAL_POLL_S = 1.0
"""How often a worker looks whether the item that it waits for is still asked at a terminal."""
SHUTDOWN_RESERVE_S = 0.5
"""Seconds of an attempt's time reserved to stop it, so that it does not time out while it waits for a human."""
WORKTREE_PLACEHOLDER = "<worktree>"
"""Replaces the path of an attempt's worktree."""
OPTIONS = "options"
"""Key in the detail of a question that an agent asks; the value are the answers that it suggests."""
SUBJECT_CHARS = 160
"""Characters of a command or path in an inbox item's text; its detail has all of it."""


def is_asked_by_agent(item: InboxItem) -> bool:
    """Return whether the item is a question of a worker's agent, not one of the run."""
    return item.kind == "question" and OPTIONS in item.detail


def worker_rules(permissions: PermissionSettings, *, confined: bool) -> RuleSet:
    """Return the rules for a worker: it may write files in its worktree and, if `confined`, run any command.

    A stricter setting of the user for a category wins.
    """
    # File tools stay inside the worktree by themselves; commands stay inside only if a sandbox holds them.
    free: tuple[ToolCategory, ...] = ("file_write", "shell", "python") if confined else ("file_write",)
    allowed: dict[ToolCategory, Decision] = dict.fromkeys(free, "allow")
    return RuleSet(
        categories=tighten_categories(allowed, permissions.approvals),
        allow=tuple(map(parse_rule, permissions.allow)),
        deny=tuple(parse_rule(rule, denies=True) for rule in permissions.deny),
        yolo=permissions.yolo,
    )


def worker_gate(
    context: RunContext,
    permissions: PermissionSettings,
    root: Path,
    human: "InboxApprover | None",
    *,
    confined: bool,
    tell: ApprovalListener,
) -> ApprovalGate:
    """Return the approval gate for a worker's tools in `root`; `human` decides what the rules leave open.

    None denies it.
    """
    return ApprovalGate(
        worker_rules(permissions, confined=confined),
        workspace=WorkspacePaths.on_disk(root, Path.home()),
        clock=context.clock,
        tell=tell,
        shell=partial(ShellCommandPolicy, context.environ),
        approver=Delegation(human.decide_call) if human is not None else None,
    )


class InboxApprover:
    """Asks the human for one attempt, by the run's inbox.

    A decision made before is reused. If no answer comes in time, HumanDecisionRequired stops the attempt; while the
    item is asked at a terminal, there is time.
    """

    def __init__(self, records: AttemptRecords) -> None:
        """Ask for the attempt of `records`: its activity stands still during a wait, which its time limit ends."""
        self._records = records
        # For this attempt only: the next one, after a crash or a wait, begins again with the same calls.
        self._used: set[str] = set()
        self._undecided: set[str] = set()
        """The requests of calls that wait now: several that only read run at the same time."""
        self._poller = StorePoller(records.store.data_version)

    async def decide_call(self, request: PermissionRequest, decision: PolicyDecision) -> PolicyDecision:
        """Return a human's decision about exactly this request, asked for exactly this reason.

        An approval gate delegates to it.
        """
        asked, reason = self._without_worktree(request, decision)
        detail = {
            "tool": asked.tool,
            "category": asked.category,
            "subject": utf8_safe(asked.subject),
            "args": utf8_safe(asked.args),
            # The decision is tied to this call, by its digest, and to the reason for asking.
            "digest": asked.digest,
            "reason": utf8_safe(reason.reason),
            "worktree": WORKTREE_PLACEHOLDER if (asked, reason) != (request, decision) else "",
        }
        clean = self._records.redactor.clean_all
        decided = await self._await_decision(self._new_item("approval", clean(_describe_call(asked)), clean(detail)))
        self._used.add(decided.id)
        why = f": {decided.answer}" if decided.answer else ""
        if decided.state == "approved":
            return PolicyDecision("allow", "human", f"a human approved it{why}")
        return PolicyDecision("deny", "human", f"a human rejected it{why}. Do not try the same thing another way")

    async def answer(self, question: str, options: Sequence[str], *, kind: QuestionKind = "clarifying") -> str:
        """Return the human's answer to the agent's question."""
        clean = self._records.redactor.clean
        asked, suggested = clean(utf8_safe(question)), [clean(utf8_safe(option)) for option in options]
        detail = {"question": asked, OPTIONS: suggested, "action": self._records.task.action.key, "kind": kind}
        return (await self._await_decision(self._new_item("question", asked, detail))).answer or ""

    async def request_approval(self, text: str, detail: Mapping[str, Any]) -> InboxItem:
        """Return the item a human approved or rejected; the decision holds for exactly this `detail`."""
        clean = self._records.redactor.clean_all
        return await self._await_decision(self._new_item("approval", clean(utf8_safe(text)), clean(detail)))

    @property
    def left_s(self) -> float:
        """The seconds left of the attempt's time."""
        return self._records.activity.limit.left_s - SHUTDOWN_RESERVE_S

    def deadline(self, *, spare_s: float) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """Return a block that ends when `spare_s` seconds are left of that time, which stands still in an outage."""
        return self._records.activity.limit.enforced(spare_s=SHUTDOWN_RESERVE_S + spare_s)

    def _without_worktree(
        self, request: PermissionRequest, decision: PolicyDecision
    ) -> tuple[PermissionRequest, PolicyDecision]:
        # A decision must also hold in the next attempt's worktree, which has another path.
        folder = self._records.run_context.worktree_of(self._records.task.attempt)
        # A call that contains the placeholder literally would otherwise be
        # approved as another call, one in the worktree.
        if any(WORKTREE_PLACEHOLDER in text for text in (request.subject, request.args, decision.reason)):
            return request, decision
        ported = {
            "subject": _replace_worktree_path(folder, request.subject),
            "args": _replace_worktree_path(folder, request.args),
        }
        reason = _replace_worktree_path(folder, decision.reason)
        return msgspec.structs.replace(request, **ported), msgspec.structs.replace(decision, reason=reason)

    async def _await_decision(self, item: InboxItem) -> InboxItem:
        self._undecided.add(item.id)
        try:
            decided = await self._poll_decision(item)
        finally:
            self._undecided.discard(item.id)
            self._poller.ring()
        # The agent goes on when all calls that wait at the same time are decided: until then it holds no slot.
        tick = self._poller.tick()
        while self._undecided or not self._takes_slot():
            tick = await self._next_change(tick, TERMINAL_POLL_S, is_parked=True)
        return decided

    async def _poll_decision(self, item: InboxItem) -> InboxItem:
        store, asked, may_wait, now = self._records.store, item, False, asyncio.get_running_loop().time
        tick = self._poller.tick()
        give_up_at = now() + self._records.task.run.settings.permissions.inbox_wait_s
        # The store is asked before the first wait: a human may have decided the same for an earlier attempt.
        while (decided := store.inbox.in_force(item, self._used)) is None:
            # True for an item that was never added, and for one that expired or was withdrawn while this worker waits.
            if not store.inbox.is_open(asked.id):
                asked, may_wait = self._add_item(item)
            stays = may_wait and self._is_needed() and asked.id in asked_items(store, self._records.task.run.id)
            left_s = min(give_up_at - now(), self.left_s)
            if not may_wait or (not stays and left_s <= 0):
                command = "answer {} TEXT" if asked.kind == "question" else "approve {}"
                how = f"Decide with `scaffold {command.format(asked.id)}`."
                raise HumanDecisionRequired(f"{asked.text} (no decision yet)", how, item=asked.id)
            # A terminal whose process ends does not change the store, so it is polled.
            wait_s = TERMINAL_POLL_S if stays else min(TERMINAL_POLL_S, left_s)
            # While a terminal asks, the attempt's time limit is suspended.
            tick = await self._next_change(tick, wait_s, is_parked=stays)
        return decided

    async def _next_change(self, tick: ChangeTick, wait_s: float, *, is_parked: bool) -> ChangeTick:
        with self._records.activity.parked() if is_parked else self._records.activity.waiting(), suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                return await self._poller.past(tick)
        return tick

    def _is_needed(self) -> bool:
        # A paused goal lets its work end, so nothing waits for it.
        goal = self._records.store.goals.get(self._records.task.goal.id)
        return goal is not None and isinstance(goal.state, Active) and bool(self._records.store.goals.unmet(goal.id))

    def _add_item(self, item: InboxItem) -> tuple[InboxItem, bool]:
        """Add the item to the inbox, and give the slot back; also used again if it was closed without a decision.

        Also return whether this worker may wait: as many as the run has agents do. The next attempt continues the
        turn of a further one, so that processes and worktrees do not add up.
        """
        store, attempt = self._records.store, self._records.task.attempt
        with self._records.transaction(durable=True):
            asked = store.inbox.ask(msgspec.structs.replace(item, id=new_id()))
            may_wait = store.attempts.wait_for(attempt.id, asked.id, fence=attempt.fence, most=self._agent_count())
        # Its slot is free: the owner would only notice at its next look.
        wake_up(self._records.run_context.wake_fifo(attempt.run_id))
        return asked, may_wait

    def _takes_slot(self) -> bool:
        store, attempt = self._records.store, self._records.task.attempt
        agents = self._agent_count()
        if not store.attempts.has_slot(attempt.id, agents=agents):
            return False
        if not store.attempts.waits(attempt.id):
            return True
        with store.transaction(durable=True):
            if not store.attempts.take_slot(attempt.id, fence=attempt.fence, agents=agents):
                return False
        self._poller.ring()
        return True

    def _agent_count(self) -> int:
        run = self._records.store.runs.get(self._records.task.run.id)
        return (run or self._records.task.run).agents

    def _new_item(self, kind: InboxKind, text: str, detail: Mapping[str, Any]) -> InboxItem:
        now = self._records.run_context.clock.now()
        return InboxItem(
            id=new_id(),
            run_id=self._records.task.run.id,
            goal_id=self._records.task.goal.id,
            action_id=self._records.task.action.id,
            attempt_id=self._records.task.attempt.id,
            kind=kind,
            text=text,
            detail=detail,
            created_at=now,
            expires_at=now + QUESTION_LIFETIME,
        )


def _replace_worktree_path(folder: Path, text: str) -> str:
    # The path may appear resolved, as commands print it, or escaped, as in the JSON of arguments.
    names = {name for path in (folder, folder.resolve()) for name in (str(path), json.dumps(str(path))[1:-1])}
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)
    # The lookahead keeps `/attempts/12` from matching the start of `/attempts/123`, another attempt's worktree.
    return re.sub(rf"(?:{'|'.join(longest_first)})(?![\w.-])", WORKTREE_PLACEHOLDER, text)


def _describe_call(request: PermissionRequest) -> str:
    # Without the action: several may request the same.
    subject = utf8_safe(" ".join(request.subject.split()))
    shown = subject if len(subject) <= SUBJECT_CHARS else f"{subject[: SUBJECT_CHARS - 1]}…"
    match request.kind:
        case "command":
            return f"{request.tool} wants to run `{shown}`"
        case "path":
            return f"{request.tool} wants {shown}"
        case "url":
            return f"{request.tool} wants to reach {shown}"
        case "text":
            title = utf8_safe(" ".join(request.title.split()))
            named = f": {truncate_text(title, SUBJECT_CHARS)}" if title else ""
            return f"{request.tool} wants to be called with {shown}{named}"
