"""Text from models and files, made safe to print."""

import re

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_REORDERING = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_WITHOUT_WIDTH = r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f"
_MORE_WITHOUT_WIDTH = r"\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
_TAGS = r"\U000e0000-\U000e0fff"
"""Letters nobody sees and models read; and the selectors behind them, by which a text can hide another."""
_UNSEEN = re.compile(f"[{_CONTROL}{_REORDERING}{_WITHOUT_WIDTH}{_MORE_WITHOUT_WIDTH}{_TAGS}]")


def printable(text: str) -> str:
    """Return `text` with control characters, and what reorders what is read or is not seen, shown as escapes.

    Newlines and tabs stay.
    """
    return _UNSEEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text.encode("utf-8", "replace").decode())
