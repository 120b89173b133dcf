"""Patterns for shell commands: words they begin with, each a glob, or `/REGEX/` for a whole command."""

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

_OPERATOR = re.compile(r"[;|&<>()]+")
_ESCAPED = re.compile(r"\[([*?\[])\]")


class Words(Struct, frozen=True):
    """The first words of a command; whatever follows is for whoever judges the command."""

    globs: tuple[str, ...]

    @property
    def plain(self) -> tuple[str, ...] | None:
        """The words themselves; None if one of them may stand for several."""
        plain = tuple(_ESCAPED.sub(r"\1", glob) for glob in self.globs)
        return plain if escaped(plain) == self.globs else None

    def begin(self, words: Sequence[str]) -> bool:
        """Tell whether a command of these words begins so."""
        return len(self.globs) <= len(words) and all(map(fnmatchcase, words, self.globs))


class Expression(Struct, frozen=True):
    """A regular expression for all words of a command, parted by single blanks, quoted where a shell needs it."""

    source: str

    def fits(self, words: Sequence[str]) -> bool:
        """Tell whether a command of exactly these words is meant."""
        return re.fullmatch(self.source, shlex.join(words)) is not None


Pattern = Words | Expression


@lru_cache(maxsize=1024)
def read_pattern(text: str) -> Pattern | None:
    """Return what a pattern means; None if it could never fit a simple command.

    A `*` at the end is whatever follows, which may be nothing.
    """
    if "\n" in text:
        return None
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        return _expression(text[1:-1])
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&<>()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = tuple(lexer)
    except ValueError:
        return None
    if not words or any(_OPERATOR.fullmatch(word) for word in words):
        return None
    return Words(words[:-1] if words[-1] == "*" else words)


def escaped(words: Sequence[str]) -> tuple[str, ...]:
    """Return globs that fit exactly these words."""
    return tuple(re.sub(r"([*?\[])", r"[\1]", word) for word in words)


def written(words: Sequence[str]) -> str:
    """Return the pattern for commands that begin with exactly these words."""
    pattern = " ".join(map(_quoted, escaped(words)))
    return f"''{pattern}" if pattern.startswith("/") and pattern.endswith("/") else pattern


def _quoted(glob: str) -> str:
    """Return a word as `read_pattern` reads it back; globs need no quotes."""
    return glob if re.fullmatch(r"[\w@%+=:,./*?\[\]-]+", glob, re.ASCII) else shlex.quote(glob)


def _expression(source: str) -> Expression | None:
    try:
        re.compile(source)
    except (re.error, RecursionError, OverflowError):
        return None
    return Expression(source)
