"""Reject commands before parsing: text that parsers, terminals and shells are known to read differently."""

import re
import unicodedata

MAX_COMMAND_BYTES = 8_000
MAX_COMMANDS = 50
MAX_OPERATORS = 150
"""Maximum number of operators that join or nest commands; parsers recurse with the nesting depth."""

_OPERATOR = re.compile(r"&&|\|\||[|&;(){}`<>\n]|\$\{")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NAMES = {"\0": "a NUL", "\r": "a carriage return", "\v": "a vertical tab", "\f": "a form feed", "\x1b": "an escape"}
_CONTINUED_WORD = re.compile(r"(?<![ \t])\\\n")
_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})


def precheck_problem(command: str) -> str | None:
    """Return why `command` must not be parsed, as a phrase after "the command"; None if it may be."""
    if not command.strip(" \t\n"):
        return "is empty"
    if any("\ud800" <= char <= "\udfff" for char in command):
        return "is not valid text (UTF-8)"
    size = len(command.encode())
    if size > MAX_COMMAND_BYTES:
        return f"is too long to be checked ({size:,} bytes; at most {MAX_COMMAND_BYTES:,})"
    if len(_OPERATOR.findall(command)) > MAX_OPERATORS:
        return f"has more than {MAX_OPERATORS} operators that join or nest commands"
    return _invisible_problem(command)


def _invisible_problem(command: str) -> str | None:
    """Return which text in `command` is invisible or misleading to a person; None if there is none."""
    if found := _CONTROL.search(command):
        return f"contains {_NAMES.get(found[0], 'a control character')} ({ascii(found[0])[1:-1]})"
    for char in command:
        if not char.isascii() and unicodedata.category(char) in _INVISIBLE:
            name = unicodedata.name(char, "a character without a name")
            return f"contains an invisible character or a non-ASCII space ({ascii(char)[1:-1]}, {name})"
    if _CONTINUED_WORD.search(command):
        return "continues on the next line in the middle of a word"
    return None
