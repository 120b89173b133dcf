"""An ear: passes on what comes, and knows which tries of a request began to say something."""

from scaffold.core.conversation import Delta, Hear, Superseded, Waiting


class Ear:
    """Hears one request on somebody's behalf.

    A try that said something and broke off is void, and is billed all the same, though nobody tells how much.
    """

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self._broken = 0
        self.begun = False
        """Whether the try that goes on has said something."""

    def __call__(self, delta: Delta) -> None:
        """Take what comes next."""
        if isinstance(delta, Superseded):
            self._broken += 1
            self.begun = False
        elif not isinstance(delta, Waiting):
            self.begun = True
        self._hear(delta)

    def understood(self) -> None:
        """Take the try that went on for whole."""
        self.begun = False

    @property
    def void(self) -> int:
        """How many tries were begun in vain, the one that goes on included."""
        return self._broken + self.begun
