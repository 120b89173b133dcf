"""An agent's mailbox: a message is consumed only once it is stored in the conversation's history."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from scaffold.agent.messages.envelope_text import describe_message
from scaffold.agent.toolbox import shown_result
from scaffold.core.conversation import Message, Text, ToolResult, UserMessage
from scaffold.core.ids import ConversationId
from scaffold.core.model import Envelope, Usage
from scaffold.core.ports import NO_USAGE, Clock, History
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.user_store import SESSIONS, UserStore

APPROVAL_CHANNEL = "#consent"
"""The channel of approval requests and answers; `#` keeps agents from using the name."""
MAX_AT_ONCE = 20  # messages delivered before one request; the others follow before the next
MAX_SCANNED = 1_000
MESSAGES_CHARS = 36_000  # approximate limit of messages delivered together; below the limit of a tool result


class ClaimedSession(Struct, frozen=True):
    """A session that this process has claimed in the store."""

    store: UserStore
    id: ConversationId
    cwd: str
    """The working directory of the session and its subagents."""
    clock: Clock


class Mailbox:
    """The messages of one session. Implements `io_port.Incoming`."""

    def __init__(self, session: ClaimedSession, *, ring: Callable[[], None], redactor: Redactor) -> None:
        """`ring` is called after this process sent something; `redactor` removes secrets from incoming messages."""
        self._store = session.store
        self._me = session.id
        self._clock = session.clock
        self._ring = ring
        self._redactor = redactor
        self._looked: tuple[int, ...] = ()
        self._handed: dict[str, tuple[int, ...]] = {}

    @property
    def waiting(self) -> bool:
        """Whether the next `peek` returns something."""
        return bool(self._store.messages.waiting(SESSIONS, self._me, but=APPROVAL_CHANNEL, limit=1))

    def peek(self) -> Sequence[Text]:
        """Return waiting messages, oldest first, as many as fit into a request; they stay in the mailbox."""
        found = self._store.messages.waiting(SESSIONS, self._me, but=APPROVAL_CHANNEL, limit=MAX_AT_ONCE)
        texts, self._looked = self._describe_fitting(found)
        return tuple(Text(text, "agent") for text in texts)

    def take(self) -> None:
        """Consume the messages of the last `peek`."""
        looked, self._looked = self._looked, ()
        self._consume_delivered(looked)

    def read(self, *, direct: bool, channel: str | None = None, limit: int) -> str:
        """Return waiting messages as a tool's answer; empty if there are none.

        `direct` selects messages to this agent; otherwise those on `channel`, None for any channel. They are consumed
        once the answer is in the history that `kept` wraps.
        """
        texts, numbers = self._describe_fitting(self._waiting_messages(direct=direct, channel=channel)[:limit])
        answer = "\n\n".join(texts)
        self.hand_out(answer, numbers)
        return answer

    def endings_of(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of waiting messages about the end of these subagents."""
        ended = set(names)
        direct = self._waiting_messages(direct=True)
        return tuple(envelope.seq for envelope in direct if envelope.body.get("subagent_id") in ended)

    def hand_out(self, answer: str, seqs: Iterable[int]) -> None:
        """Remember the messages a tool's answer contains: they are consumed once it is in the history."""
        numbers = tuple(seqs)
        if numbers:
            # By its text as the model sees it, because that is all that the history shows of a tool's answer.
            self._handed[shown_result(answer, self._redactor)] = numbers

    def received(self, answer: str) -> None:
        """Consume the messages in a tool's answer, which is in the history now."""
        self._consume_delivered(self._handed.pop(answer, ()))

    def send(self, recipient: str, body: Mapping[str, Any], ttl_s: float) -> int:
        """Send a message to one agent and return its number; it expires after `ttl_s` seconds."""
        expires_at = self._clock.now() + timedelta(seconds=ttl_s)
        with self._store.transaction(durable=True):
            self._store.messages.expire(SESSIONS)
            seq = self._store.messages.send(
                SESSIONS, sender=self._me, recipient=recipient, body=body, expires_at=expires_at
            )
        self._ring()
        return seq

    def publish(self, channel: str, body: Mapping[str, Any], ttl_s: float) -> int:
        """Send a message to each other subscriber of a channel and return their number."""
        expires_at = self._clock.now() + timedelta(seconds=ttl_s)
        with self._store.transaction(durable=True):
            self._store.messages.expire(SESSIONS)
            return self._store.messages.publish(
                SESSIONS, sender=self._me, channel=channel, body=body, expires_at=expires_at
            )

    def subscribe(self, channel: str) -> None:
        """Receive what others publish on the channel from now on."""
        with self._store.transaction(durable=True):
            self._store.messages.subscribe(SESSIONS, channel, self._me)

    def kept(self, inner: History) -> History:
        """Return `inner` as a history that consumes messages when the answers that contain them are stored."""
        return DeliveryHistory(inner, self)

    def _describe_fitting(self, found: Sequence[Envelope]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        texts: list[str] = []
        now = self._clock.now()
        for envelope in found:
            texts.append(self._redactor.clean(describe_message(envelope, now)))
            # At least one message is delivered however long it is, or it would block all later ones.
            if len(texts) > 1 and sum(map(len, texts)) > MESSAGES_CHARS:
                texts.pop()
                break
        return tuple(texts), tuple(envelope.seq for envelope in found[: len(texts)])

    def _waiting_messages(self, *, direct: bool, channel: str | None = None) -> list[Envelope]:
        found = self._store.messages.waiting(SESSIONS, self._me, but=APPROVAL_CHANNEL, limit=MAX_SCANNED)
        if direct:
            return [envelope for envelope in found if envelope.channel is None]
        return [envelope for envelope in found if envelope.channel and channel in {None, envelope.channel}]

    def _consume_delivered(self, seqs: Sequence[int]) -> None:
        if not seqs:
            return
        with self._store.transaction():
            for seq in seqs:
                self._store.messages.consume(SESSIONS, seq)


class DeliveryHistory:
    """A history that reports stored tool answers to a mailbox. Implements `core.ports.History`."""

    def __init__(self, inner: History, mailbox: Mailbox) -> None:
        self._inner = inner
        self._mailbox = mailbox

    def add(self, message: Message, usage: Usage = NO_USAGE) -> None:
        """Store the message, then consume: after a crash in between it is delivered twice, but never lost."""
        self._inner.add(message, usage)
        if isinstance(message, UserMessage):
            for part in message.parts:
                if isinstance(part, ToolResult):
                    self._mailbox.received(part.content)

    def spend(self, usage: Usage) -> None:
        """Delegate to the inner history."""
        self._inner.spend(usage)

    def draft(self, message: Message) -> None:
        """Store what is the next message if the process dies now; messages in it are not consumed yet."""
        self._inner.draft(message)

    def compact(self, kept: int, summary: str) -> None:
        """Delegate to the inner history."""
        self._inner.compact(kept, summary)
