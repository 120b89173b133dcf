"""Messages from the user and the merge queue to a running agent, or to its action before it started."""

from collections.abc import Sequence

from scaffold.agent.messages.envelope_text import format_age, quote
from scaffold.core.conversation import Text
from scaffold.core.model import Attempt, Envelope
from scaffold.run.context import RunContext
from scaffold.run.notices import HUMAN, MERGE_QUEUE

HEADS = {
    HUMAN: "The human you work for wrote this {age} ago. Follow it, within your task and your permissions.",
    MERGE_QUEUE: "Work by others landed {age} ago that touches what you are editing:",
}
"""The first words of a message, by sender; other senders do not write to agents."""
MAX_MESSAGES = 1_000
MAX_MESSAGE_CHARS = 32_000


class IncomingMessages:
    """The messages to one attempt. Implements `agent.ports.Incoming`.

    Each attempt gets a message to its action once; a message to the attempt itself is consumed on delivery.
    """

    def __init__(self, context: RunContext, attempt: Attempt) -> None:
        self._context = context
        self._attempt = attempt
        self._looked: tuple[Envelope, ...] = ()
        self._delivered: set[int] = set()

    def peek(self) -> Sequence[Text]:
        """Return the messages not yet taken, oldest first."""
        attempt = self._attempt
        found = (*self._waiting_messages(attempt.action_id), *self._waiting_messages(attempt.id))
        self._looked = tuple(sorted(found, key=lambda envelope: envelope.seq))
        prompts = []
        for envelope in self._looked:
            age = format_age(self._context.clock.now() - envelope.created_at)
            text = self._context.redactor.clean(str(envelope.body.get("text", "")))
            prompts.append(Text(f"{HEADS[envelope.sender].format(age=age)}\n{quote(text)}"))
        return tuple(prompts)

    def take(self) -> None:
        """Mark the messages of the last `peek` as delivered: they are in the conversation now."""
        looked, self._looked = self._looked, ()
        # A message to the action stays for later attempts, so this process remembers that its own agent has it.
        self._delivered.update(envelope.seq for envelope in looked)
        own = [envelope for envelope in looked if envelope.recipient == self._attempt.id]
        if own:
            with self._context.store.transaction():
                for envelope in own:
                    self._context.store.messages.consume(envelope.scope, envelope.seq)

    def _waiting_messages(self, recipient: str) -> list[Envelope]:
        found = self._context.store.messages.peek(self._attempt.run_id, recipient, limit=MAX_MESSAGES)
        new = (envelope for envelope in found if envelope.seq not in self._delivered)
        return [envelope for envelope in new if envelope.sender in HEADS]
