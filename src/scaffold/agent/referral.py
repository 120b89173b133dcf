"""Consent for subagents: asked by messages, given by the gate of the parent, which may ask its user."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from scaffold.agent.mailbox import CONSENT
from scaffold.agent.poller import Poller
from scaffold.core.ids import ConversationId
from scaffold.core.model import Envelope
from scaffold.core.ports import Clock
from scaffold.policy.gate import Judgement
from scaffold.policy.rules import Wish
from scaffold.store.user import SESSIONS, UserStore

PATIENCE_S = 900.0
"""How long a subagent waits for an answer; then silence is a no."""
SILENCE = "nobody answered whether you may; go on without it, or say what you would have done"

Judge = Callable[[str, Wish], Awaitable[Judgement]]
"""Decides what the subagent of this name wishes; `policy.consent.Gate.judge_for`."""


class Referral:
    """A subagent's side: hands each wish to its parent and waits for what comes back. A `policy.consent.Refer`."""

    def __init__(
        self,
        store: UserStore,
        clock: Clock,
        *,
        me: ConversationId,
        parent: ConversationId,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._store = store
        self._clock = clock
        self._me = me
        self._parent = parent
        self._patience_s = patience_s

    async def __call__(self, wish: Wish, judged: Judgement) -> Judgement:  # noqa: ARG002 - the parent judges anew
        """Return what the parent decided, `deny` if it stays silent."""
        poller = Poller(self._store.data_version)
        expires_at = self._clock.now() + timedelta(seconds=self._patience_s)
        tick = poller.tick()
        with self._store.transaction():
            asked = self._store.messages.send(
                SESSIONS,
                sender=self._me,
                recipient=self._parent,
                channel=CONSENT,
                body={"wish": json.dumps(msgspec.to_builtins(wish))},
                expires_at=expires_at,
            )
        try:
            async with asyncio.timeout(self._patience_s):
                while (answer := self._answer_to(asked)) is None:
                    tick = await poller.past(tick)
        except TimeoutError:
            return Judgement("deny", "category", SILENCE)
        with self._store.transaction():
            self._store.messages.consume(SESSIONS, answer.seq)
        return msgspec.convert(answer.body["judgement"], Judgement)

    def _answer_to(self, asked: int) -> Envelope | None:
        waiting = self._store.messages.peek(SESSIONS, self._me, channel=CONSENT)
        mine = (envelope for envelope in waiting if envelope.sender == self._parent)
        return next((envelope for envelope in mine if envelope.body.get("to") == asked), None)


async def next_wish(store: UserStore, poller: Poller, *, me: ConversationId, subagent: ConversationId) -> Envelope:
    """Return what the subagent asks next, as soon as it asks; it is not taken away."""
    tick = poller.tick()
    while True:
        for envelope in store.messages.peek(SESSIONS, me, channel=CONSENT):
            if envelope.sender == subagent:
                return envelope
        tick = await poller.past(tick)


def answer(store: UserStore, asked: Envelope, judgement: Judgement) -> None:
    """Send the subagent the decision, and take its question away, in one transaction."""
    with store.transaction():
        store.messages.consume(SESSIONS, asked.seq)
        store.messages.send(
            SESSIONS,
            sender=asked.recipient,
            recipient=asked.sender,
            channel=CONSENT,
            body={"to": asked.seq, "judgement": msgspec.to_builtins(judgement)},
            expires_at=asked.expires_at,
        )


def wish_of(asked: Envelope) -> Wish:
    """Return what a subagent asks for, to the letter: names of files need not be text."""
    return msgspec.convert(json.loads(asked.body["wish"]), Wish)
