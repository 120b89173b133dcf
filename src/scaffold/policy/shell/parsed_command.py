"""A parsed shell command as a value: the simple commands it runs, in order, or why they are unknown."""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

Connector = Literal["", ";", "&&", "||", "|"]
"""The operator before a simple command; empty for the first."""
Operator = Literal["<", "<>", ">", ">>", ">|", "&>", "&>>", ">&", "<&", "<<"]
OPERATORS: Mapping[str, Operator] = {operator: operator for operator in get_args(Operator)}


class Word(Struct, frozen=True):
    """One word of a command, its quotes removed."""

    text: str
    tilde: bool = False
    """Whether it starts with a `~` that the shell expands to the home directory."""
    glob: bool = False
    """Whether it contains an unquoted `*`, `?` or `[`: the shell may expand it to file names."""
    sure: bool = True
    """False for the raw text of a word with an unknown expansion; always True in a `ParsedCommand`."""

    loose: bool = False
    """Whether it is the unquoted value of a variable, of which the shell may make any number of words."""

    @property
    def literal(self) -> bool:
        """Whether the program receives exactly `text`."""
        return self.sure and not (self.tilde or self.glob or self.loose)


class Redirect(Struct, frozen=True):
    """A redirection of input or output."""

    operator: Operator
    target: Word
    descriptor: int | None = None
    """The number before the operator; None if there is none."""

    @property
    def duplicates(self) -> bool:
        """Whether it only duplicates or closes open streams, e.g. `2>&1`."""
        return self.operator in {">&", "<&"} and self.target.literal and self.target.text.rstrip("-").isdecimal()

    @property
    def writes(self) -> bool:
        """Whether it opens its target for writing."""
        return self.operator not in {"<", "<&", "<<"} and not self.duplicates

    @property
    def is_text(self) -> bool:
        """Whether the target is the input itself, a here-document with a quoted delimiter."""
        return self.operator == "<<"


class SimpleCommand(Struct, frozen=True):
    """A simple command: a program or builtin and its arguments."""

    words: tuple[Word, ...]
    """The program and its arguments; empty if the command only assigns or redirects."""
    assignments: tuple[tuple[str, str], ...] = ()
    """(name, value) of the variables set before it."""
    redirects: tuple[Redirect, ...] = ()
    link: Connector = ""
    in_loop: bool = False
    """Whether it is a pass of a loop: what follows after a pipe reads the output of all passes."""


class ParsedCommand(Struct, frozen=True, tag="parsed"):
    """A command that runs exactly these simple commands, in this order."""

    commands: tuple[SimpleCommand, ...]


class UnparsedCommand(Struct, frozen=True, tag="unparsed"):
    """A command whose effects are unknown."""

    reason: str
    """Why, as a phrase after "the command"."""
    seen: tuple[SimpleCommand, ...] = ()
    """The simple commands found at any depth; there may be more."""


ParseResult = ParsedCommand | UnparsedCommand
