"""What can be seen in a text that is not parsed: enough to deny it, never to allow it."""

import re
import unicodedata
from itertools import islice

from scaffold.policy.shell.script import OPERATORS, Redirect, Simple, Word

MOST_WORDS = 2_000
MOST_CHARACTERS = 200_000

_PIECE = re.compile(
    r"[0-9]?(?P<operator>&>>|&>|<>|>>|>\||>&|<&|<|>)|(?P<ends>[;|&(){}`\n]+)|(?P<word>[^\s;|&(){}`<>]+)"
)
_QUOTES = str.maketrans("", "", "'\"\\")


def seen_crudely(text: str) -> tuple[Simple, ...]:
    """Return commands as far as blanks and signs part them; what cannot be seen is taken out first, quotes as well."""
    seen: list[Simple] = []
    words: list[Word] = []
    redirects: list[Redirect] = []
    operator = ""
    for piece in islice(_PIECE.finditer(_visible(text[:MOST_CHARACTERS])), MOST_WORDS):
        word = Word((piece["word"] or "").translate(_QUOTES), sure=False)
        if piece["operator"]:
            operator = piece["operator"]
        elif piece["ends"]:
            seen.append(Simple(tuple(words), (), tuple(redirects)))
            words, redirects, operator = [], [], ""
        elif operator:
            redirects.append(Redirect(OPERATORS[operator], word))
            operator = ""
        else:
            words.append(word)
    return (*seen, Simple(tuple(words), (), tuple(redirects)))


def _visible(text: str) -> str:
    """Return a text without what a person does not see; blanks of any kind are blanks."""
    plain = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs"})
    return unicodedata.normalize("NFKC", plain)
