"""What the human tells an agent while it works, and what the human told its action before."""

from collections.abc import Sequence

from scaffold.agent.notices import in_words, quoted
from scaffold.core.conversation import Text
from scaffold.core.model import Attempt, Envelope
from scaffold.worker.site import Site

HUMAN = "human"
"""Who sends letters; no agent is called so."""
MOST = 1_000
LONGEST = 32_000
"""Characters of a letter."""


class Letters:
    """The letters to one attempt. Implements `agent.outside.News`.

    One to the action is told to each of its attempts, once; one to the attempt is taken away when it was told.
    """

    def __init__(self, site: Site, attempt: Attempt) -> None:
        self._site = site
        self._attempt = attempt
        self._looked: tuple[Envelope, ...] = ()
        self._told: set[int] = set()

    def look(self) -> Sequence[Text]:
        """Return what the human wrote since it was last taken, oldest first."""
        attempt = self._attempt
        found = (*self._waiting(attempt.action_id), *self._waiting(attempt.id))
        self._looked = tuple(sorted(found, key=lambda envelope: envelope.seq))
        return tuple(Text(self._in_words(envelope)) for envelope in self._looked)

    def take(self) -> None:
        """Take note that the last look's letters stand in the conversation."""
        looked, self._looked = self._looked, ()
        self._told.update(envelope.seq for envelope in looked)
        own = [envelope for envelope in looked if envelope.recipient == self._attempt.id]
        if own:
            with self._site.store.transaction():
                for envelope in own:
                    self._site.store.messages.consume(envelope.scope, envelope.seq)

    def _waiting(self, recipient: str) -> list[Envelope]:
        found = self._site.store.messages.peek(self._attempt.run_id, recipient, limit=MOST)
        return [envelope for envelope in found if envelope.sender == HUMAN and envelope.seq not in self._told]

    def _in_words(self, envelope: Envelope) -> str:
        age = in_words(self._site.clock.now() - envelope.created_at)
        head = f"The human you work for wrote this {age} ago. Follow it, within your task and your permissions."
        return f"{head}\n{quoted(self._site.redactor.clean(str(envelope.body.get('text', ''))))}"
