"""Why nothing can be checked yet: that is no verdict on anybody's work."""

from msgspec import Struct


class NotReady(Struct, frozen=True, kw_only=True):
    """What checks stand on is not there, or is not what it seems to be."""

    what: str
    """One line."""
    fix: str
    """What to do next."""
    detail: str = ""
    """The end of what a command printed, without secrets."""
