"""Text from models and files, made safe to print."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return `text` with control characters, and marks that reorder what is read, shown as escapes.

    Newlines and tabs stay.
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text.encode("utf-8", "replace").decode())
