"""Parse a tool call's arguments from the model's text; only this module does that."""

from collections.abc import Mapping
from typing import Any

import msgspec

from scaffold.core.tool import MAX_NESTING, is_nested_too_deeply

UNREADABLE_ARGUMENT = "unreadable_arguments"
"""The only argument of a call whose text is not a JSON object, or too deeply nested.

No tool accepts it, so the call is refused, not run.
"""

MAX_SHOWN_CHARS = 500
"""Longer texts are cut to this before they are shown to the model."""


def parse_arguments(text: str, *, cut: bool = False) -> Mapping[str, Any]:
    """Return the arguments in `text`; empty text and `null` mean no arguments.

    With `cut` the reply ended at its length limit: nothing is parsed, because truncated arguments may look complete.
    Text that is not a JSON object, or has more than MAX_NESTING levels, becomes the one argument `UNREADABLE_ARGUMENT`,
    which describes the problem.
    """
    if cut or not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _unreadable(f"not a JSON object ({error})", text)
    if value is None:
        return {}
    if not isinstance(value, dict):
        return _unreadable(f"not a JSON object (it is {type(value).__name__}, not an object)", text)
    if is_nested_too_deeply(value):
        return _unreadable(f"nested more than {MAX_NESTING} levels deep", text)
    return value


def _unreadable(problem: str, text: str) -> Mapping[str, Any]:
    return {UNREADABLE_ARGUMENT: f"{problem}: {text[:MAX_SHOWN_CHARS]}"}
