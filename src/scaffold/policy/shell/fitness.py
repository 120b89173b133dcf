"""What is looked at before a command is parsed: text on which parsers, terminals and shells are known to differ."""

import re
import unicodedata

LONGEST_BYTES = 8_000
MOST_COMMANDS = 50
MOST_MARKS = 150
"""How many characters a text may have that join or nest commands; parsers recurse as deep as they nest."""

_MARK = re.compile(r"&&|\|\||[|&;(){}`<>\n]|\$\{")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NAMES = {"\0": "a NUL", "\r": "a carriage return", "\v": "a vertical tab", "\f": "a form feed", "\x1b": "an escape"}
_CONTINUED_WORD = re.compile(r"(?<![ \t])\\\n")
_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})


def unfit(command: str) -> str | None:
    """Return why `command` is not even parsed, to follow "the command"; None if it can be."""
    if not command.strip(" \t\n"):
        return "is empty"
    if any("\ud800" <= char <= "\udfff" for char in command):
        return "is not valid text (UTF-8)"
    size = len(command.encode())
    if size > LONGEST_BYTES:
        return f"is too long to be judged ({size:,} bytes; at most {LONGEST_BYTES:,})"
    if len(_MARK.findall(command)) > MOST_MARKS:
        return f"has more than {MOST_MARKS} signs that join or nest commands"
    return _unseen(command)


def _unseen(command: str) -> str | None:
    """Return what in `command` a person would not see, or would see as something else; None if all is plain."""
    if found := _CONTROL.search(command):
        return f"has {_NAMES.get(found[0], 'a control character')} in it ({ascii(found[0])[1:-1]})"
    for char in command:
        if not char.isascii() and unicodedata.category(char) in _INVISIBLE:
            name = unicodedata.name(char, "a character without a name")
            return f"has an invisible character or a blank that is none for a shell ({ascii(char)[1:-1]}, {name})"
    if _CONTINUED_WORD.search(command):
        return "goes on in the next line in the middle of a word"
    return None
