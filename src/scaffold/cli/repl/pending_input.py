"""What the user says while the agent works: it waits for the next request, and reaches the model with it."""

from collections.abc import Callable, Sequence

from scaffold.core.conversation import Image, Text


class PendingInput:
    """Words that wait, as an agent's news."""

    def __init__(self, said: Callable[[str], Sequence[Text | Image]]) -> None:
        """Take what turns words into what a model gets of them."""
        self._said = said
        self.waiting: list[str] = []
        """What was typed and has not reached the agent, oldest first."""
        self.given: tuple[str, ...] = ()
        """The words of the last look."""
        self.text = ""
        """What the last look gave the model, attachments included."""

    def add(self, words: str) -> None:
        """Let words wait."""
        self.waiting.append(words)

    def look(self) -> Sequence[Text | Image]:
        """Return what waits."""
        self.given = tuple(self.waiting)
        parts = tuple(part for words in self.given for part in self._said(words))
        self.text = "\n".join(part.text for part in parts if isinstance(part, Text))
        return parts

    def take(self) -> None:
        """Forget what the last look returned."""
        del self.waiting[: len(self.given)]
        self.given = ()

    def take_back(self) -> str:
        """Return all that waits as one text, and let it wait no longer."""
        words = "\n".join(self.waiting)
        self.waiting.clear()
        return words
