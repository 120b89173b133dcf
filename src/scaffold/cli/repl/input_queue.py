"""What the user types while the agent works, handed on in the order in which it was typed."""

from collections import deque
from collections.abc import Sequence

from scaffold.cli.repl.user_input import PendingInput
from scaffold.session.slash.syntax import CommandSyntax, parse_slash
from scaffold.session.user_command import is_user_command


class InputQueue:
    """Messages for the agent's next request, and lines for the end of its turn."""

    def __init__(self, pending: PendingInput, later: deque[str], commands: Sequence[CommandSyntax]) -> None:
        """`later` receives the lines for the end of the turn: commands, and all that was typed after the first one."""
        self._pending = pending
        self._later = later
        self._commands = commands

    def add_message(self, words: str) -> None:
        """Add a message; it waits behind a command that waits, as it may be meant for what the command changes."""
        if self._later:
            self._later.append(words)
        else:
            self._pending.add(words)

    def is_message(self, words: str) -> bool:
        """Return whether a line is for the agent, not a command."""
        return not is_user_command(words) and parse_slash(words, self._commands) is None

    def next_line(self) -> str:
        """Remove and return the next line: a command, or all messages before the next one; empty if there is none."""
        if words := self._pending.take_back():
            return words
        words = self._later.popleft() if self._later else ""
        while self._later and self.is_message(words) and self.is_message(self._later[0]):
            words += f"\n{self._later.popleft()}"
        return words

    def take_back_messages(self) -> str:
        """Remove and return all messages as one text; commands stay."""
        lines = [self._pending.take_back(), *self._later]
        self._later.clear()
        self._later.extend(words for words in lines if not self.is_message(words))
        return "\n".join(words for words in lines if words and self.is_message(words))
