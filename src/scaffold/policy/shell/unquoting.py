"""Unquote one word by bash's rules, if its value is certain."""

from scaffold.policy.shell.script import Word

_ENDS_QUOTED = '\\"$`'
"""Characters that a backslash escapes within double quotes."""
_EXPANDS = frozenset("_{(@*#?$!-[0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_GLOB = frozenset("*?[")
_MEANS_MORE = frozenset("`;|&()<>{}\n")
"""Characters that are not part of a literal word outside quotes."""


def unquote_word(source: str) -> Word | None:
    """Return the word that bash makes of `source` in an argument; None if it expands or may expand."""
    return _WordUnquoter(source).word()


class _WordUnquoter:
    """Reads one word from left to right."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._text: list[str] = []
        self._glob = False

    def word(self) -> Word | None:
        source = self._source
        tilde = source.startswith("~")
        if (tilde and source[1:2] not in {"", "/"}) or not source:
            return None
        while self._at < len(source):
            if not self._step():
                return None
        text = "".join(self._text)
        return Word(text, tilde=tilde, glob=self._glob and text != "[")

    def _step(self) -> bool:
        """Consume the next piece; return False if it is not literal."""
        char = self._source[self._at]
        match char:
            case "'":
                return self._single()
            case '"':
                return self._double()
            case "\\":
                return self._escaped()
            case _:
                return self._bare(char)

    def _single(self) -> bool:
        end = self._source.find("'", self._at + 1)
        if end < 0:
            return False
        self._text.append(self._source[self._at + 1 : end])
        self._at = end + 1
        return True

    def _double(self) -> bool:
        source, at = self._source, self._at + 1
        while at < len(source):
            char, after = source[at], source[at + 1 : at + 2]
            if char == '"':
                self._at = at + 1
                return True
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

    def _escaped(self) -> bool:
        after = self._source[self._at + 1 : self._at + 2]
        if not after or not after.isascii():
            return False
        if after != "\n":
            self._text.append(after)
        self._at += 2
        return True

    def _bare(self, char: str) -> bool:
        source, at = self._source, self._at
        if not char.isascii() or char.isspace():
            return False
        if char in _MEANS_MORE and not _is_reflog(source, at):
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


def _is_reflog(source: str, at: int) -> bool:
    """Return whether the brace at `at` is part of `@{1}`, which no shell expands."""
    opening = source.rfind("{", 0, at + 1)
    closing = source.find("}", at)
    inside = source[opening + 1 : closing]
    return source[at] in "{}" and 0 < opening < closing and source[opening - 1] == "@" and inside.isalnum()
