"""Mark characters that look like others, in texts that a person decides about."""

import re
import unicodedata

_LOOKALIKES = frozenset(
    "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u043e\u0440\u051b\u0455\u051d\u0445\u0443"  # Cyrillic a to y
    "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0425\u0423\u050c"  # its capitals
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5"  # Greek
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"  # its capitals
    "\u0570\u0578\u057d\u0585\u0251\u0261\u0131\u0269\u01c0\u04cf"  # Armenian, Latin and others
    "\u200c\u200d"  # joiners, which have no width
    "\u2010\u2012\u2013\u2014\u2015\u2212\u2044\u2215\u29f8\u2236\u02bc\u02d0"  # dashes, slashes, colons, an apostrophe
)
"""Characters that most fonts draw like ASCII ones, and that NFKC does not turn into these."""
_WORD = re.compile(r"\S+")


def mark_lookalikes(text: str) -> str:
    """Return `text` with the code point after each character that looks like another one, such as a Cyrillic `a`.

    A word in another script stays as it is, unless all of its letters look like Latin ones.
    """
    return text if text.isascii() else _WORD.sub(_marked_word, text)


def _marked_word(found: re.Match[str]) -> str:
    word = found[0]
    letters = [char for char in word if char.isalpha()]
    suspect = any(map(str.isascii, letters)) or all(map(_is_lookalike, letters))
    marked = (_is_lookalike(char) and (suspect or not char.isalpha()) for char in word)
    return "".join(f"{char}[U+{ord(char):04X}]" if mark else char for char, mark in zip(word, marked, strict=True))


def _is_lookalike(char: str) -> bool:
    return not char.isascii() and (char in _LOOKALIKES or unicodedata.normalize("NFKC", char).isascii())
