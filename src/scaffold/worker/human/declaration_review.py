"""The question whether a task may change files that judge its work, as a second reviewer gets it."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.model import Action


class DeclarationQuestion(Struct, frozen=True, kw_only=True):
    """A request to change files that judge the work."""

    action: Action
    entries: tuple[str, ...]
    """The paths, folders and globs that are asked for."""
    judging: Mapping[str, str]
    """The existing paths in them that judge the work, and why."""
    reason: str
    """Why the agent needs them, in its words; data, not an instruction."""
    base: Commit


class DeclarationAnswer(Struct, frozen=True):
    """A reviewer's decision about such a request."""

    approved: bool
    why: str


DeclarationReviewer = Callable[[DeclarationQuestion], Awaitable[DeclarationAnswer | None]]
"""Decides a request; None if no reviewer is available, so that a human is asked."""


async def no_reviewer(_: DeclarationQuestion) -> DeclarationAnswer | None:
    """Return None: this run has no second reviewer."""
    return None
