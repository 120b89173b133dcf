"""Plain words that must stand in a line for a regular expression to match it."""

import re
import string
from itertools import zip_longest

_PLAIN = frozenset(string.ascii_letters + string.digits + "_ \"'#%&,/:;<=>@`~!-")
_REPEATED = re.compile(r"\{\d*,?\d*\}")
_NOT_READ = re.compile(r"\\[xuUN0-9]|\(\?#")
"""Characters by their number, references to groups, comments."""


def needed_words(pattern: re.Pattern[str]) -> tuple[str, ...] | None:
    """Return words, ASCII only, of which at least one stands in every text that `pattern` matches.

    None where that is not easily known: it ignores case or white space, or one of its alternatives has no such word.
    """
    if pattern.flags & (re.IGNORECASE | re.VERBOSE) or _NOT_READ.search(pattern.pattern):
        return None
    words = []
    for alternative in _alternatives(pattern.pattern):
        word = max(_runs(alternative), key=len, default="")
        if not word:
            return None
        words.append(word)
    return tuple(dict.fromkeys(words))


def _alternatives(pattern: str) -> list[list[str]]:
    """Split a pattern at the `|` outside of groups; each part comes as pieces, a group or class as one of them."""
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        end = _piece_end(pattern, at)
        piece = pattern[at:end]
        if piece == "|":
            parts.append([])
        else:
            parts[-1].append(piece)
        at = end
    return parts


def _piece_end(pattern: str, at: int) -> int:
    """Return where the piece that begins at `at` ends: an escape, a class, a whole group, or one character."""
    match pattern[at]:
        case "\\":
            return at + 2
        case "[":
            return _class_end(pattern, at)
        case "(":
            inner = at + 1
            while pattern[inner] != ")":
                inner = _piece_end(pattern, inner)
            return inner + 1
        case "{" if repeated := _REPEATED.match(pattern, at):
            return repeated.end()
        case _:
            return at + 1


def _class_end(pattern: str, at: int) -> int:
    inner = at + (2 if pattern[at + 1] == "^" else 1)
    if pattern[inner] == "]":  # in the first place it stands for itself
        inner += 1
    while pattern[inner] != "]":
        inner += 2 if pattern[inner] == "\\" else 1
    return inner + 1


def _runs(pieces: list[str]) -> list[str]:
    """Return the words in one alternative: neighbours that stand for themselves and cannot be left out."""
    runs = [""]
    for piece, after in zip_longest(pieces, pieces[1:], fillvalue=""):
        plain = _itself(piece)
        if after[:1] in {"*", "?", "{"}:
            plain = ""
        runs[-1] += plain
        if not plain or after == "+":
            runs.append("")
    return runs


def _itself(piece: str) -> str:
    """Return the character that a piece stands for, nothing if it stands for several or none."""
    if piece in _PLAIN:
        return piece
    if len(piece) == 2 and piece[0] == "\\" and piece[1].isascii() and not piece[1].isalnum():
        return piece[1]
    return ""
