"""An agent's mailbox: what reaches it is taken away only once it stands in the conversation's history."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from scaffold.agent.notices import told
from scaffold.core.conversation import Message, Text, ToolResult, UserMessage
from scaffold.core.ids import ConversationId
from scaffold.core.model import Envelope, Usage
from scaffold.core.ports import NOTHING, Clock, History
from scaffold.store.user import SESSIONS, UserStore

CONSENT = "#consent"
"""The channel on which subagents ask for consent and are answered; no agent can name it."""
MOST_AT_ONCE = 20
"""Messages that a model is told of before one request; the others come before the next."""
SCANNED = 1_000
ROOM = 36_000
"""Characters of messages told at once, about: less than a tool's answer may have."""


class Mailbox:
    """The messages for one session. Implements `outside.News`."""

    def __init__(self, store: UserStore, me: ConversationId, clock: Clock, *, ring: Callable[[], None]) -> None:
        """`ring` is told when this process sent something."""
        self._store = store
        self._me = me
        self._clock = clock
        self._ring = ring
        self._looked: tuple[int, ...] = ()
        self._handed: dict[str, tuple[int, ...]] = {}

    @property
    def waiting(self) -> bool:
        """Return whether the next look finds something."""
        return bool(self._store.messages.waiting(SESSIONS, self._me, but=CONSENT, limit=1))

    def look(self) -> Sequence[Text]:
        """Return what waits, oldest first, as much as a request has room for; nothing is taken away."""
        found = self._store.messages.waiting(SESSIONS, self._me, but=CONSENT, limit=MOST_AT_ONCE)
        words, self._looked = self._told(found)
        return tuple(map(Text, words))

    def take(self) -> None:
        """Take away what the last look returned."""
        looked, self._looked = self._looked, ()
        self._consume(looked)

    def read(self, *, direct: bool, channel: str | None = None, limit: int) -> str:
        """Return what waits, as a tool's answer; empty if there is nothing.

        `direct` is for what was sent to this agent alone; else it is what came by `channel`, or by any with None. It is
        taken away as soon as the answer stands in the history that `kept` wraps.
        """
        words, taken = self._told(self._of(direct=direct, channel=channel)[:limit])
        answer = "\n\n".join(words)
        self.hand_out(answer, taken)
        return answer

    def endings_of(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of the messages that wait and tell how these subagents ended."""
        wanted = set(names)
        direct = self._of(direct=True)
        return tuple(envelope.seq for envelope in direct if envelope.body.get("subagent_id") in wanted)

    def hand_out(self, answer: str, seqs: Iterable[int]) -> None:
        """Note which messages a tool's answer tells of: they are taken away once it stands in the history."""
        numbers = tuple(seqs)
        if numbers:
            self._handed[answer] = numbers

    def received(self, answer: str) -> None:
        """Take away what a tool's answer, which stands in the history now, told of."""
        self._consume(self._handed.pop(answer, ()))

    def send(self, recipient: str, body: Mapping[str, Any], ttl_s: float) -> int:
        """Send a message to one agent and return its number; it can be read for `ttl_s` seconds."""
        expires_at = self._clock.now() + timedelta(seconds=ttl_s)
        with self._store.transaction(durable=True):
            self._store.messages.expire(SESSIONS)
            seq = self._store.messages.send(
                SESSIONS, sender=self._me, recipient=recipient, body=body, expires_at=expires_at
            )
        self._ring()
        return seq

    def publish(self, channel: str, body: Mapping[str, Any], ttl_s: float) -> int:
        """Send a message to each other subscriber of a channel, and return to how many."""
        expires_at = self._clock.now() + timedelta(seconds=ttl_s)
        with self._store.transaction(durable=True):
            self._store.messages.expire(SESSIONS)
            return self._store.messages.publish(
                SESSIONS, sender=self._me, channel=channel, body=body, expires_at=expires_at
            )

    def subscribe(self, channel: str) -> None:
        """Have what others publish on the channel sent here from now on."""
        with self._store.transaction(durable=True):
            self._store.messages.subscribe(SESSIONS, channel, self._me)

    def kept(self, inner: History) -> History:
        """Return `inner` as a history that takes messages away as the answers that told of them are kept."""
        return Receipts(inner, self)

    def _told(self, found: Sequence[Envelope]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return messages in words, as many as there is room for and at least one, and their numbers."""
        words: list[str] = []
        now = self._clock.now()
        for envelope in found:
            words.append(told(envelope, now))
            if len(words) > 1 and sum(map(len, words)) > ROOM:
                words.pop()
                break
        return tuple(words), tuple(envelope.seq for envelope in found[: len(words)])

    def _of(self, *, direct: bool, channel: str | None = None) -> list[Envelope]:
        found = self._store.messages.waiting(SESSIONS, self._me, but=CONSENT, limit=SCANNED)
        if direct:
            return [envelope for envelope in found if envelope.channel is None]
        return [envelope for envelope in found if envelope.channel and channel in {None, envelope.channel}]

    def _consume(self, seqs: Sequence[int]) -> None:
        if not seqs:
            return
        with self._store.transaction():
            for seq in seqs:
                self._store.messages.consume(SESSIONS, seq)


class Receipts:
    """A history that tells a mailbox which answers of tools are safe. Implements `core.ports.History`."""

    def __init__(self, inner: History, mailbox: Mailbox) -> None:
        self._inner = inner
        self._mailbox = mailbox

    def add(self, message: Message, usage: Usage = NOTHING) -> None:
        """Keep the message first: who dies after that has it twice, and never not at all."""
        self._inner.add(message, usage)
        if isinstance(message, UserMessage):
            for part in message.parts:
                if isinstance(part, ToolResult):
                    self._mailbox.received(part.content)

    def compact(self, kept: int, summary: str) -> None:
        """Pass it on."""
        self._inner.compact(kept, summary)
