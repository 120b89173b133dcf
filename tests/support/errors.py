"""Errors as values, so that one comparison covers a whole table of calls."""

from collections.abc import Callable
from typing import Any


def error_of(kind: type[Exception], call: Callable[..., object], *args: Any, **options: Any) -> Any:
    """Return the error of this kind that a call raises; None if it raises none."""
    try:
        call(*args, **options)
    except kind as error:
        return error
    return None
