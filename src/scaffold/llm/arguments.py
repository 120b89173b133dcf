"""The arguments of a tool call, from a model's text: the one place where that text becomes a value."""

from collections.abc import Mapping
from typing import Any

import msgspec

UNREADABLE = "unreadable_arguments"
"""The only argument of a call whose text is no JSON object. No tool takes it, so the call is answered, not run."""

SHOWN = 500
"""Characters of such a text that are kept for the model to see."""


def arguments(text: str, *, cut: bool = False) -> Mapping[str, Any]:
    """Return the arguments `text` says; no text, or `null`, means none.

    With `cut` the reply ended at its length limit: nothing is read, because a call cut in two may look whole. A text
    that is no JSON object becomes the one argument `UNREADABLE`, which says what is wrong with it.
    """
    if cut or not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _unreadable(str(error), text)
    if value is None:
        return {}
    return value if isinstance(value, dict) else _unreadable(f"it is {type(value).__name__}, not an object", text)


def _unreadable(problem: str, text: str) -> Mapping[str, Any]:
    return {UNREADABLE: f"not a JSON object ({problem}): {text[:SHOWN]}"}
