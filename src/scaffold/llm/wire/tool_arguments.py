"""Parse a tool call's arguments from the model's text; only this module does that."""

from collections.abc import Mapping
from typing import Any

import msgspec

UNREADABLE_ARGUMENT = "unreadable_arguments"
"""The only argument of a call whose text is not a JSON object. No tool accepts it, so the call is refused, not run."""

MAX_SHOWN_CHARS = 500
"""Longer texts are cut to this before they are shown to the model."""


def parse_arguments(text: str, *, cut: bool = False) -> Mapping[str, Any]:
    """Return the arguments in `text`; empty text and `null` mean no arguments.

    With `cut` the reply ended at its length limit: nothing is parsed, because truncated arguments may look complete.
    Text that is not a JSON object becomes the one argument `UNREADABLE_ARGUMENT`, which describes the problem.
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
    return {UNREADABLE_ARGUMENT: f"not a JSON object ({problem}): {text[:MAX_SHOWN_CHARS]}"}
