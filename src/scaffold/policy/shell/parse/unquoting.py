"""Unquote words by bash's rules, if their values are certain: quotes, variables, braces; unroll `for` loops."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

import msgspec

from scaffold.policy.shell.parsed_command import Connector, SimpleCommand, Word

Variables = Mapping[str, Word]
"""Variables with known values: name -> value. The value of a glob is one of the names that it matches."""
EXIT_STATUS = "?"
MAX_BRACED = 30
"""A word with braces that makes more words is not expanded."""
_ENDS_QUOTED = '\\"$`'
"""Characters that a backslash escapes within double quotes."""
_EXPANDS = frozenset("_{(@*#?$!-[0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_GLOB = frozenset("*?[")
_MEANS_MORE = frozenset("`;|&()<>{}\n")
"""Characters that are not part of a literal word outside quotes."""
_SPLIT_ALIKE = re.compile(r"[\w./@%+:,-]+", re.ASCII)
"""A value that is the same word with and without quotes."""
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*|\?)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_BRACES = re.compile(r"\{([^{}]*)\}")
_BRACED = re.compile(r"[\w./*?@%+,-]*", re.ASCII)
_STATUS = Word("[0-9]*", glob=True)
"""A number; as a glob, so that no check takes it for a certain one."""
MAX_UNROLLED = 50
"""A loop with more commands is not unrolled."""
_NAME = re.compile(r"(?!.*proxy)[a-z][a-z0-9_]*")
"""Lower-case names: programs read no settings from them, except for proxies."""


def unquote_word(source: str, variables: Variables | None = None) -> Word | None:
    """Return the word that bash makes of `source` in an argument; None if it expands or may expand to anything else."""
    return _WordUnquoter(source, variables or {}).word()


def value_of(name: str, variables: Variables, *, quoted: bool) -> Word | None:
    """Return the value that `$NAME` adds to a word; None if unknown."""
    value = _STATUS if name == EXIT_STATUS else variables.get(name)
    if value is None or quoted or value is _STATUS or (_SPLIT_ALIKE.fullmatch(value.text) and not value.glob):
        return value
    return Word(value.text, glob=value.glob, loose=True)


def expand_braces(source: str) -> tuple[str, ...] | None:
    """Return the words that bash makes of `a{b,c}d`, for lists without quotes and inner braces; None for others."""
    parts = _BRACES.split(source)
    fixed, lists = parts[::2], [choices.split(",") for choices in parts[1::2]]
    plain = all(map(_BRACED.fullmatch, parts)) and not any("," in each for each in fixed)
    if not lists or not plain or any(len(choices) < 2 or "" in choices for choices in lists):
        return None
    words = tuple(
        fixed[0] + "".join(map("".join, zip(chosen, fixed[1:], strict=True)))
        for _, chosen in zip(range(MAX_BRACED + 1), product(*lists), strict=False)
    )
    return words if len(words) <= MAX_BRACED else None


class _WordUnquoter:
    """Reads one word from left to right."""

    def __init__(self, source: str, variables: Variables) -> None:
        self._source = source
        self._variables = variables
        self._at = 0
        self._text: list[str] = []
        self._glob = False
        self._loose = False

    def word(self) -> Word | None:
        source = self._source
        tilde = source.startswith("~")
        if (tilde and source[1:2] not in {"", "/"}) or not source:
            return None
        while self._at < len(source):
            if not self._consume_piece():
                return None
        text = "".join(self._text)
        return Word(text, tilde=tilde, glob=self._glob and text != "[", loose=self._loose)

    def _consume_piece(self) -> bool:
        """Consume the next piece; return False if it is not literal."""
        char = self._source[self._at]
        match char:
            case "'":
                end = self._source.find("'", self._at + 1)
                if end < 0:
                    return False
                self._text.append(self._source[self._at + 1 : end])
                self._at = end + 1
                return True
            case '"':
                return self._consume_double_quoted()
            case "\\":
                after = self._source[self._at + 1 : self._at + 2]
                if not after or not after.isascii():
                    return False
                if after != "\n":
                    self._text.append(after)
                self._at += 2
                return True
            case _:
                return self._consume_bare(char)

    def _consume_double_quoted(self) -> bool:
        source, at = self._source, self._at + 1
        while at < len(source):
            char, after = source[at], source[at + 1 : at + 2]
            if char == '"':
                self._at = at + 1
                return True
            if char == "$" and (end := self._consume_variable(at, quoted=True)):
                at = end
                continue
            if char == "`" or (char == "$" and after in _EXPANDS):
                return False
            if char == "\\" and after == "\n":
                at += 2
                continue
            if char == "\\" and after and after in _ENDS_QUOTED:
                char, at = after, at + 1
            self._text.append(char)
            at += 1
        return False

    def _consume_bare(self, char: str) -> bool:
        source, at = self._source, self._at
        if not char.isascii() or char.isspace():
            return False
        if char == "$" and (end := self._consume_variable(at, quoted=False)):
            self._at = end
            return True
        if char in _MEANS_MORE and not _is_reflog(source, at) and not _is_empty_pair(source):
            return False
        if char == "$" and (source[at + 1 : at + 2] in _EXPANDS or source[at + 1 : at + 2] in {"'", '"'}):
            return False
        # Bash expands a tilde after `=` and `:` in arguments that look like assignments: `make DIR=~/x`.
        if char == "~" and at and source[at - 1] in "=:":
            return False
        self._glob = self._glob or char in _GLOB
        self._text.append(char)
        self._at += 1
        return True

    def _consume_variable(self, at: int, *, quoted: bool) -> int:
        """Add the value of the variable at `at`; return its end, or 0 if the value is unknown."""
        found = _VARIABLE.match(self._source, at)
        value = value_of(found[1] or found[2], self._variables, quoted=quoted) if found else None
        if found is None or value is None:
            return 0
        self._text.append(value.text)
        self._glob, self._loose = self._glob or value.glob, self._loose or value.loose
        return found.end()


def _is_empty_pair(source: str) -> bool:
    # No shell expands a lone `{}`.
    return source.count("{}") == 1 and not _MEANS_MORE.intersection(source.replace("{}", "", 1))


def _is_reflog(source: str, at: int) -> bool:
    # No shell expands the braces of `@{1}`.
    opening = source.rfind("{", 0, at + 1)
    closing = source.find("}", at)
    inside = source[opening + 1 : closing]
    return source[at] in "{}" and 0 < opening < closing and source[opening - 1] == "@" and inside.isalnum()


def unroll(
    name: str,
    items: Iterable[Word],
    body: Callable[[Variables], Iterable[SimpleCommand]],
    outer: Variables,
    link: Connector,
) -> Iterator[SimpleCommand] | None:
    """Return the commands of all passes; None if a loop of this kind is not unrolled. The first gets `link`."""
    values = tuple(items)
    if not values or not _NAME.fullmatch(name) or any(item.tilde or item.loose or not item.sure for item in values):
        return None
    commands: list[SimpleCommand] = []
    for value in values:
        commands += body({**outer, name: value})
        if len(commands) > MAX_UNROLLED or any(each.words and each.words[0].loose for each in commands):
            return None
    links: list[Connector] = [link, *(each.link or ";" for each in commands[1:])]
    return (
        msgspec.structs.replace(each, link=after, in_loop=True) for each, after in zip(commands, links, strict=True)
    )
