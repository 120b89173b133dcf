"""Edits of a story that its agent has asked for by the tool, until its turn ends."""


class AskedEdits:
    """The edits of the agent's last call; each attempt has its own."""

    def __init__(self) -> None:
        self._text: str | None = None

    def ask(self, text: str) -> None:
        """Ask for these edits in place of earlier ones."""
        self._text = text

    def take(self) -> str | None:
        """Return the edits, and forget them; None without any since the last call."""
        text, self._text = self._text, None
        return text
