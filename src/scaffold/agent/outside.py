"""What an agent has to do with besides its conversation: what it is told of the world, and what reaches it."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from scaffold.core.conversation import Hear, Image, Text, unheard
from scaffold.policy.redaction import Redactor


class Context(Protocol):
    """What each request is told beside the base prompt.

    As long as the text stays the same, providers find what they cached of the conversation behind it.
    """

    def text(self) -> str:
        """Return the words; the same ones until something is worth the loss of what is cached."""
        ...

    def renew(self) -> None:
        """Take in whatever changed: the conversation was compacted, and nothing of it is cached any more."""
        ...


class FixedContext(Struct, frozen=True):
    """A context that never changes."""

    words: str = ""

    def text(self) -> str:
        """Return the words."""
        return self.words

    def renew(self) -> None:
        """Leave it as it is."""


class News(Protocol):
    """What reaches an agent while it works: messages, ended subagents, words of the user."""

    def look(self) -> Sequence[Text | Image]:
        """Return what has come since it was last taken, oldest first; looking takes nothing away."""
        ...

    def take(self) -> None:
        """Take away what the last look returned: it stands in the conversation now, safe from a crash."""
        ...


class NoNews:
    """Nothing ever comes."""

    def look(self) -> Sequence[Text | Image]:
        """Return nothing."""
        return ()

    def take(self) -> None:
        """Take nothing away."""


class Joined:
    """Several news as one, in the order they are given."""

    def __init__(self, *sources: News) -> None:
        self._sources = sources

    def look(self) -> Sequence[Text | Image]:
        """Return what has come to any of them."""
        return tuple(part for source in self._sources for part in source.look())

    def take(self) -> None:
        """Take away what the last look returned."""
        for source in self._sources:
            source.take()


class Outside(Struct, frozen=True, kw_only=True):
    """Whom an agent tells what its model says, while it says it, what reaches it meanwhile, and what must not."""

    hear: Hear = unheard
    news: News = NoNews()
    redactor: Redactor = Redactor()
    """Takes secrets out of what tools answer: what a model does not know, it cannot pass on."""


ALONE = Outside()
"""Nobody listens, and nothing comes."""
