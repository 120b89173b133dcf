"""Errors as values, for tables of which every wrong row is to be shown."""

from collections.abc import Callable
from typing import Any


def raised(kind: type[Exception], call: Callable[..., object], *args: Any, **options: Any) -> Any:
    """Return the error of this kind that a call raises; None if it returns."""
    try:
        call(*args, **options)
    except kind as error:
        return error
    return None
