"""A stream in place of a terminal's own, for code that prints."""

import io
from abc import abstractmethod
from typing import TextIO


class TerminalStream(io.TextIOBase):
    """Takes what is printed to a terminal; all else that is asked of the stream, the terminal answers."""

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal

    @abstractmethod
    def take(self, text: str) -> None:
        """Handle text that is printed."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the terminal's encoding."""
        return self.terminal.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        """Return what the terminal does with characters that it cannot show."""
        return self.terminal.errors

    def isatty(self) -> bool:
        """Return whether the terminal is one."""
        return self.terminal.isatty()

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self.terminal.fileno()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Take the text; raises TypeError for bytes, by which click finds out what a stream takes."""
        if not isinstance(text, str):
            raise TypeError(type(text).__name__)
        self.take(text)
        return len(text)
