"""Patterns for shell commands: the first words, each a glob, or `/REGEX/` for a whole command."""

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

_OPERATOR = re.compile(r"[;|&<>()]+")
_ESCAPED = re.compile(r"\[([*?\[])\]")


class PrefixPattern(Struct, frozen=True):
    """The first words of a command; the pattern does not constrain the rest."""

    globs: tuple[str, ...]

    @property
    def plain(self) -> tuple[str, ...] | None:
        """The literal words; None if one of them is a wildcard."""
        plain = tuple(_ESCAPED.sub(r"\1", glob) for glob in self.globs)
        return plain if escape_words(plain) == self.globs else None

    def matches(self, words: Sequence[str]) -> bool:
        """Return whether a command with these words starts with the pattern."""
        return len(self.globs) <= len(words) and all(map(fnmatchcase, words, self.globs))


class RegexPattern(Struct, frozen=True):
    """A regular expression for a whole command: its words joined by single spaces, quoted where needed."""

    source: str

    def matches(self, words: Sequence[str]) -> bool:
        """Return whether the expression matches the whole command with these words."""
        return re.fullmatch(self.source, shlex.join(words)) is not None


CommandPattern = PrefixPattern | RegexPattern


@lru_cache(maxsize=1024)
def parse_pattern(text: str) -> CommandPattern | None:
    """Return the parsed pattern; None if it could never match a simple command.

    A final `*` matches any further words, or none.
    """
    if "\n" in text:
        return None
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        return _parse_regex(text[1:-1])
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&<>()")
    lexer.whitespace_split = True
    # A `#` in a pattern is a character like any other.
    lexer.commenters = ""
    try:
        words = tuple(lexer)
    except ValueError:
        return None
    # A rule is for one simple command; words of operators never occur in one.
    if not words or any(_OPERATOR.fullmatch(word) for word in words):
        return None
    return PrefixPattern(words[:-1] if words[-1] == "*" else words)


def escape_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return globs that match exactly these words."""
    return tuple(re.sub(r"([*?\[])", r"[\1]", word) for word in words)


def format_pattern(words: Sequence[str]) -> str:
    """Return the pattern for commands that start with exactly these words."""
    pattern = " ".join(map(_quote_glob, escape_words(words)))
    # An empty quotation keeps a path between slashes from being read back as a regular expression.
    return f"''{pattern}" if pattern.startswith("/") and pattern.endswith("/") else pattern


def _quote_glob(glob: str) -> str:
    """Return the word quoted so that `parse_pattern` reads it back; glob characters stay unquoted."""
    return glob if re.fullmatch(r"[\w@%+=:,./*?\[\]-]+", glob, re.ASCII) else shlex.quote(glob)


def _parse_regex(source: str) -> RegexPattern | None:
    try:
        re.compile(source)
    except (re.error, RecursionError, OverflowError):
        return None
    return RegexPattern(source)
