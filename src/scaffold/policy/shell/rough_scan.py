"""Scan a text that cannot be parsed for visible commands: enough to deny it, never to allow it."""

import re
import unicodedata
from itertools import islice

from scaffold.policy.shell.script import OPERATORS, Redirect, SimpleCommand, Word

MAX_WORDS = 2_000
MAX_CHARACTERS = 200_000

_PIECE = re.compile(
    r"[0-9]?(?P<operator>&>>|&>|<>|>>|>\||>&|<&|<|>)|(?P<ends>[;|&(){}`\n]+)|(?P<word>[^\s;|&(){}`<>]+)"
)
_QUOTES = str.maketrans("", "", "'\"\\")


def scan_roughly(text: str) -> tuple[SimpleCommand, ...]:
    """Return the commands, split at spaces and operators, after removing invisible characters and quotes."""
    seen: list[SimpleCommand] = []
    words: list[Word] = []
    redirects: list[Redirect] = []
    operator = ""
    for piece in islice(_PIECE.finditer(_visible(text[:MAX_CHARACTERS])), MAX_WORDS):
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


def _visible(text: str) -> str:
    """Return a text without invisible characters and with every kind of space as a plain space."""
    plain = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs"})
    return unicodedata.normalize("NFKC", plain)
