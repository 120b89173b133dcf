"""Commands in which every sign has one meaning only: bare words, quoted text, `|`, `&&`, `||`, `;`, and silence.

No shell has a second way to read these, so this reading stands for the second parser's, and saves a process.
"""

import re

from scaffold.policy.shell.script import Link, Redirect, Simple, Understood, Word

_TOKEN = re.compile(
    r"(?P<blank>[ \t]+)"
    r"|(?P<null>[12]?)> ?/dev/null(?=[ \t]|$)"
    r"|(?P<merge>2)>&1(?=[ \t]|$)"
    r"|(?P<join>&&|\|\||\||;)"
    r"|(?P<word>(?:[A-Za-z0-9_./:,@%+=-]|(?<=[A-Za-z0-9])[~^]|'[^'\n]*'|\"[^\"\\$`!\n]*\")+)"
)
_PART = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^'\"]+)")
_NAME = re.compile(r"[A-Za-z0-9_./-]+")
_RESERVED = frozenset({
    *("case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then"),
    *("time", "until", "while", "declare", "typeset", "export", "readonly", "local", "unset", "alias", "let", "eval"),
})  # fmt: skip
_LINKS: dict[str, Link] = {"&&": "&&", "||": "||", "|": "|", ";": ";"}


def read_plainly(command: str) -> Understood | None:
    """Return what `command` runs if it is made of nothing else; None for any other text."""
    return _Plain().read(command)


class _Plain:
    def __init__(self) -> None:
        self._done: list[Simple] = []
        self._link: Link = ""
        self._words: list[Word] = []
        self._redirects: list[Redirect] = []

    def read(self, command: str) -> Understood | None:
        at, apart = 0, True
        while at < len(command):
            token = _TOKEN.match(command, at)
            if token is None or not self._take(token, apart=apart):
                return None
            at, apart = token.end(), token.lastgroup in {"blank", "join"}
        return Understood(tuple(self._done)) if self._end() else None

    def _take(self, token: re.Match[str], *, apart: bool) -> bool:
        """Take the next token in, which is `apart` from the word before it; return whether it is plain there."""
        match token.lastgroup:
            case "word":
                return self._word(token[0], apart=apart)
            case "null":
                descriptor = int(token["null"]) if token["null"] else None
                self._redirects.append(Redirect(">", Word("/dev/null"), descriptor))
                return apart
            case "merge":
                self._redirects.append(Redirect(">&", Word("1"), 2))
                return apart
            case "join":
                ended = self._end()
                self._link = _LINKS[token[0]]
                return ended
            case _:
                return True

    def _word(self, source: str, *, apart: bool) -> bool:
        if not self._words and (self._redirects or not _NAME.fullmatch(source) or source in _RESERVED):
            return False
        self._words.append(Word("".join("".join(part.groups("")) for part in _PART.finditer(source))))
        return apart

    def _end(self) -> bool:
        """End the command that was being read; return whether there was one."""
        if not self._words:
            return False
        self._done.append(Simple(tuple(self._words), (), tuple(self._redirects), self._link))
        self._words, self._redirects = [], []
        return True
