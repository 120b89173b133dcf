"""Parse plain commands: bare words, quoted text, `|`, `&&`, `||`, `;`, and redirects to /dev/null.

Every shell reads these the same way, so this parser replaces the second parser and saves a process.
"""

import re

from scaffold.policy.shell.parsed_command import Connector, ParsedCommand, Redirect, SimpleCommand, Word

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
_LINKS: dict[str, Connector] = {"&&": "&&", "||": "||", "|": "|", ";": ";"}


def parse_plain(command: str) -> ParsedCommand | None:
    """Return what `command` runs if it is plain; None otherwise."""
    return _PlainParser().read(command)


class _PlainParser:
    def __init__(self) -> None:
        self._done: list[SimpleCommand] = []
        self._link: Connector = ""
        self._words: list[Word] = []
        self._redirects: list[Redirect] = []

    def read(self, command: str) -> ParsedCommand | None:
        at, apart = 0, True
        while at < len(command):
            token = _TOKEN.match(command, at)
            if token is None or not self._take_token(token, apart=apart):
                return None
            at, apart = token.end(), token.lastgroup in {"blank", "join"}
        return ParsedCommand(tuple(self._done)) if self._end_command() else None

    def _take_token(self, token: re.Match[str], *, apart: bool) -> bool:
        """Add the next token and return whether it is plain there; `apart` means separated from the previous word."""
        match token.lastgroup:
            case "word":
                return self._take_word(token[0], apart=apart)
            case "null":
                descriptor = int(token["null"]) if token["null"] else None
                self._redirects.append(Redirect(">", Word("/dev/null"), descriptor))
                return apart
            case "merge":
                self._redirects.append(Redirect(">&", Word("1"), 2))
                return apart
            case "join":
                ended = self._end_command()
                self._link = _LINKS[token[0]]
                return ended
            case _:
                return True

    def _take_word(self, source: str, *, apart: bool) -> bool:
        # A first word with `=` is an assignment, and a reserved word starts a construct; shells differ in these.
        if not self._words and (self._redirects or not _NAME.fullmatch(source) or source in _RESERVED):
            return False
        self._words.append(Word("".join("".join(part.groups("")) for part in _PART.finditer(source))))
        return apart

    def _end_command(self) -> bool:
        """End the current simple command; return whether there was one."""
        if not self._words:
            return False
        self._done.append(SimpleCommand(tuple(self._words), (), tuple(self._redirects), self._link))
        self._words, self._redirects = [], []
        return True
