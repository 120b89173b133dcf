"""Approval for subagents: requested by messages, decided by the parent's approval gate, which may ask its user."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from scaffold.agent.messages.mailbox import APPROVAL_CHANNEL
from scaffold.agent.messages.poller import StorePoller
from scaffold.core.ids import ConversationId
from scaffold.core.model import Envelope
from scaffold.core.ports import Clock
from scaffold.policy.rule.ruleset import PolicyDecision
from scaffold.policy.rule.tool_rules import PermissionRequest
from scaffold.store.user_store import SESSIONS, UserStore

ANSWER_TIMEOUT_S = 900.0  # how long a subagent waits for an answer; without one the call is denied
NO_ANSWER_REASON = "the approval request was not answered; continue without it, or say what you would have done"

CallDecider = Callable[[str, PermissionRequest], Awaitable[PolicyDecision]]
"""Decides a request of the subagent with this name; the approval gate's `judge_for`."""


class ApprovalRelay:
    """The subagent's side, to which its approval gate delegates: asks the parent and waits for the decision."""

    def __init__(
        self,
        store: UserStore,
        clock: Clock,
        *,
        me: ConversationId,
        parent: ConversationId,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._store = store
        self._clock = clock
        self._me = me
        self._parent = parent
        self._timeout_s = timeout_s

    async def __call__(self, request: PermissionRequest, decision: PolicyDecision) -> PolicyDecision:  # noqa: ARG002 - the parent decides again
        """Return the parent's decision; `deny` if it does not answer in time."""
        poller = StorePoller(self._store.data_version)
        expires_at = self._clock.now() + timedelta(seconds=self._timeout_s)
        tick = poller.tick()
        with self._store.transaction():
            asked = self._store.messages.send(
                SESSIONS,
                sender=self._me,
                recipient=self._parent,
                channel=APPROVAL_CHANNEL,
                body={"request": json.dumps(msgspec.to_builtins(request))},
                expires_at=expires_at,
            )
        try:
            async with asyncio.timeout(self._timeout_s):
                answer: Envelope | None = None
                while answer is None:
                    for envelope in self._store.messages.peek(SESSIONS, self._me, channel=APPROVAL_CHANNEL):
                        # Any session may send on this channel, but only the parent may decide.
                        if envelope.sender == self._parent and envelope.body.get("to") == asked:
                            answer = envelope
                            break
                    else:
                        tick = await poller.past(tick)
        except TimeoutError:
            return PolicyDecision("deny", "category", NO_ANSWER_REASON)
        with self._store.transaction():
            self._store.messages.consume(SESSIONS, answer.seq)
        return msgspec.convert(answer.body["judgement"], PolicyDecision)


async def next_approval_request(
    store: UserStore, poller: StorePoller, *, me: ConversationId, subagent: ConversationId
) -> Envelope:
    """Wait for the subagent's next request and return it without consuming it."""
    tick = poller.tick()
    while True:
        for envelope in store.messages.peek(SESSIONS, me, channel=APPROVAL_CHANNEL):
            if envelope.sender == subagent:
                return envelope
        tick = await poller.past(tick)


def send_decision(store: UserStore, asked: Envelope, judgement: PolicyDecision) -> None:
    """Send the subagent the decision and consume its request, in one transaction."""
    with store.transaction():
        store.messages.consume(SESSIONS, asked.seq)
        store.messages.send(
            SESSIONS,
            sender=asked.recipient,
            recipient=asked.sender,
            channel=APPROVAL_CHANNEL,
            body={"to": asked.seq, "judgement": msgspec.to_builtins(judgement)},
            expires_at=asked.expires_at,
        )


def requested_call(asked: Envelope) -> PermissionRequest:
    """Return the request exactly as sent; it is JSON, since file names need not be valid UTF-8."""
    return msgspec.convert(json.loads(asked.body["request"]), PermissionRequest)
