"""Errors as values, so that one comparison covers a whole table of calls."""


def error_of(kind, call, *args, **kwargs):
    """Return the error of this kind that a call raises; None if it raises none."""
    try:
        call(*args, **kwargs)
    except kind as caught:
        return caught
    return None
