"""The reason why checks cannot run yet, which is not a verdict on the work."""

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
    """The file with the whole output; empty without one."""
