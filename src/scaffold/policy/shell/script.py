"""A shell command as a value: the simple commands it runs, in order, or why that cannot be told."""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

Link = Literal["", ";", "&&", "||", "|"]
"""What stands between a simple command and the one before it; empty for the first."""
Operator = Literal["<", "<>", ">", ">>", ">|", "&>", "&>>", ">&", "<&"]
OPERATORS: Mapping[str, Operator] = {operator: operator for operator in get_args(Operator)}


class Word(Struct, frozen=True):
    """One word of a command, its quotes removed."""

    text: str
    tilde: bool = False
    """It begins with a `~` that the shell replaces by the home directory; the rest of it is literal."""
    glob: bool = False
    """It holds `*`, `?` or `[` outside quotes: the shell may put names of files in its place."""
    sure: bool = True
    """False for the raw text of a word that expands to something unknown; never so in what is understood."""

    @property
    def literal(self) -> bool:
        """Whether the program gets exactly `text`."""
        return self.sure and not (self.tilde or self.glob)


class Redirect(Struct, frozen=True):
    """Where input comes from or output goes to."""

    operator: Operator
    target: Word
    descriptor: int | None = None
    """The number before the operator; None if there is none."""

    @property
    def duplicates(self) -> bool:
        """Whether it only joins or closes streams that are open already, as `2>&1` does."""
        return self.operator in {">&", "<&"} and self.target.literal and self.target.text.rstrip("-").isdecimal()

    @property
    def writes(self) -> bool:
        """Whether it opens its target for writing."""
        return self.operator not in {"<", "<&"} and not self.duplicates


class Simple(Struct, frozen=True):
    """A simple command: a program or builtin and its arguments."""

    words: tuple[Word, ...]
    """What it runs with its arguments; empty if it only assigns or redirects."""
    assignments: tuple[tuple[str, str], ...] = ()
    """Variables that are set before it, name and value."""
    redirects: tuple[Redirect, ...] = ()
    link: Link = ""


class Understood(Struct, frozen=True, tag="understood"):
    """Exactly these commands may run, in this order, and no others."""

    commands: tuple[Simple, ...]


class NotUnderstood(Struct, frozen=True, tag="not_understood"):
    """What runs cannot be told for sure."""

    reason: str
    """In plain words, to follow "the command"."""
    seen: tuple[Simple, ...] = ()
    """The simple commands that are there at any depth, as far as they can be seen; there may be more."""


Reading = Understood | NotUnderstood
