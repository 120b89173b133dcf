"""Parse shell commands. A command counts as parsed only if two parsers agree on it.

Plain commands, which every shell reads the same way, need no second parser. Text that parsers, terminals and shells are
known to read differently is rejected before. Text that cannot be parsed is scanned for visible commands: enough to deny
it, never to allow it.
"""

import re
import shutil
import sysconfig
import unicodedata
from collections import OrderedDict
from itertools import islice
from pathlib import Path

from scaffold.core.errors import ScaffoldError
from scaffold.host.process.command_runner import OutputCapture, run_command
from scaffold.policy.shell.parse.shfmt_parser import ARGUMENTS, parse_shfmt_tree
from scaffold.policy.shell.parse.tree_sitter_parser import parse_with_tree_sitter
from scaffold.policy.shell.parsed_command import (
    OPERATORS,
    Connector,
    ParsedCommand,
    ParseResult,
    Redirect,
    SimpleCommand,
    UnparsedCommand,
    Word,
)

PARSE_TIMEOUT_S = 5.0
MAX_CACHED = 512
MAX_TREE_BYTES = 8_000_000
MAX_COMMAND_BYTES = 8_000
MAX_COMMANDS = 50
MAX_OPERATORS = 150
"""Maximum number of operators that join or nest commands; parsers recurse with the nesting depth."""
_OPERATOR = re.compile(r"&&|\|\||[|&;(){}`<>\n]|\$\{")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NAMES = {"\0": "a NUL", "\r": "a carriage return", "\v": "a vertical tab", "\f": "a form feed", "\x1b": "an escape"}
# Shells join the two halves into one word; a person reads two.
_CONTINUED_WORD = re.compile(r"(?<![ \t])\\\n")
_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
MAX_WORDS = 2_000
MAX_CHARACTERS = 200_000

_PIECE = re.compile(
    r"[0-9]?(?P<operator>&>>|&>|<>|>>|>\||>&|<&|<|>)|(?P<ends>[;|&(){}`\n]+)|(?P<word>[^\s;|&(){}`<>]+)"
)
_QUOTES = str.maketrans("", "", "'\"\\")

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


class ParserMissing(ScaffoldError):
    """The second parser, shfmt, is missing."""


class CommandParser:
    """Parses commands and caches the latest results."""

    def __init__(self, parser: Path, *, bash: bool = True) -> None:
        """Use the shfmt at `parser` as second parser; with `bash=False`, parse only what all shells read alike."""
        self._parser = parser
        self._bash = bash
        self._cache: OrderedDict[str, ParseResult] = OrderedDict()

    def parse_first(self, command: str) -> ParseResult:
        """Return the first parser's result for `command`; enough to deny it, never to allow it."""
        if reason := precheck_problem(command):
            return UnparsedCommand(reason, scan_roughly(command))
        first = parse_with_tree_sitter(command)
        if isinstance(first, ParsedCommand) and len(first.commands) > MAX_COMMANDS:
            return UnparsedCommand(f"has more than {MAX_COMMANDS} parts", first.commands)
        # Without bash the shell tool falls back to another shell, whose syntax neither parser knows.
        if isinstance(first, ParsedCommand) and not self._bash and parse_plain(command) is None:
            return UnparsedCommand("contains more than plain words, and bash is not installed", first.commands)
        return first

    async def read(self, command: str) -> ParseResult:
        """Return what `command` runs if both parsers agree on all words, assignments and redirects; else why not."""
        if (cached := self._cache.get(command)) is not None:
            self._cache.move_to_end(command)
            return cached
        result = self.parse_first(command)
        if isinstance(result, ParsedCommand):
            result = agreed_result(result, parse_plain(command) or await self.parse_second(command))
        self._cache[command] = result
        if len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return result

    async def parse_second(self, command: str) -> ParseResult:
        """Return the second parser's result for `command`, which must have passed the precheck."""
        done = await run_command(
            (str(self._parser), *ARGUMENTS),
            cwd=Path("/"),
            env={},
            timeout_s=PARSE_TIMEOUT_S,
            stdin=command.encode(),
            output=OutputCapture(limit_bytes=MAX_TREE_BYTES),
        )
        # A missing parser must not look like a command that it rejects: the user has to know why everything asks.
        if done.exit_code in {126, 127}:
            raise ParserMissing(f"{self._parser} cannot be run", "Reinstall the package: it includes shfmt.")
        if done.exit_code != 0 or done.truncated:
            return UnparsedCommand("is not valid bash for the second parser")
        return parse_shfmt_tree(done.stdout)


def agreed_result(first: ParsedCommand, second: ParseResult) -> ParseResult:
    """Return the first result if the second is equal, else why the command counts as unparsed."""
    match second:
        case UnparsedCommand(reason=reason):
            return UnparsedCommand(reason, first.commands)
        # Equality of all words, assignments and redirects: a difference means that one of the two reads it unlike bash.
        case ParsedCommand() if second == first:
            return first
        case _:
            return UnparsedCommand("is parsed differently by two parsers", first.commands)


def installed_parser() -> Path:
    """Return the path of the shfmt installed with this package, else of the one on PATH.

    The path need not exist: running it then raises ParserMissing.
    """
    bundled = Path(sysconfig.get_path("scripts")) / "shfmt"
    return bundled if bundled.is_file() else Path(shutil.which("shfmt") or bundled)


def precheck_problem(command: str) -> str | None:
    """Return why `command` must not be parsed, as a phrase after "the command"; None if it may be."""
    if not command.strip(" \t\n"):
        return "is empty"
    # Such a text cannot be encoded, neither for the parsers nor for the shell.
    if any("\ud800" <= char <= "\udfff" for char in command):
        return "is not valid text (UTF-8)"
    size = len(command.encode())
    if size > MAX_COMMAND_BYTES:
        return f"is too long to be checked ({size:,} bytes; at most {MAX_COMMAND_BYTES:,})"
    if len(_OPERATOR.findall(command)) > MAX_OPERATORS:
        return f"has more than {MAX_OPERATORS} operators that join or nest commands"
    return _invisible_problem(command)


def _invisible_problem(command: str) -> str | None:
    """Return the text in `command` that is invisible or misleading to a person; None without any."""
    if found := _CONTROL.search(command):
        return f"contains {_NAMES.get(found[0], 'a control character')} ({ascii(found[0])[1:-1]})"
    for char in command:
        # Bash takes a no-break space for part of a word, a person takes it for the end of one.
        if not char.isascii() and unicodedata.category(char) in _INVISIBLE:
            name = unicodedata.name(char, "a character without a name")
            return f"contains an invisible character or a non-ASCII space ({ascii(char)[1:-1]}, {name})"
    if _CONTINUED_WORD.search(command):
        return "continues on the next line in the middle of a word"
    return None


def scan_roughly(text: str) -> tuple[SimpleCommand, ...]:
    """Return the commands, split at spaces and operators, after removing invisible characters and quotes."""
    seen: list[SimpleCommand] = []
    words: list[Word] = []
    redirects: list[Redirect] = []
    operator = ""
    # An invisible character, or another kind of space, must not hide a command from the scan.
    shown = (c for c in text[:MAX_CHARACTERS] if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf", "Cs"})
    for piece in islice(_PIECE.finditer(unicodedata.normalize("NFKC", "".join(shown))), MAX_WORDS):
        word = Word((piece["word"] or "").translate(_QUOTES), sure=False)
        if piece["operator"]:
            operator = piece["operator"]
        elif piece["ends"]:
            seen.append(SimpleCommand(tuple(words), (), tuple(redirects)))
            words, redirects, operator = [], [], ""
        elif operator:
            redirects.append(Redirect(OPERATORS[operator], word))
            operator = ""
        else:
            words.append(word)
    return (*seen, SimpleCommand(tuple(words), (), tuple(redirects)))


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
        """Add the next token and return whether it is plain; `apart` means separated from the previous word."""
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
