"""The value that says why checks cannot run yet; it is no verdict on the work."""

from msgspec import Struct


class NotReady(Struct, frozen=True, kw_only=True):
    """A prerequisite of the checks is missing or wrong."""

    what: str
    """The problem, one line."""
    fix: str
    """What to do next."""
    detail: str = ""
    """The end of a command's output, redacted."""
    log: str = ""
    """The file with all of it; empty if there is none."""
