"""Why the store refuses: the errors that several aggregates raise, in one wording."""

from scaffold.core.errors import IllegalMove, StaleFence, StoreTrouble

HOW_TO_BEGIN = "Start a run with `scaffold run`, or a conversation with `ralph`"
"""What makes a database where there is none."""


def no_such(noun: str, name: str) -> StoreTrouble:
    """Return the error for a thing that is not in this database."""
    return StoreTrouble(f"there is no {noun} {name!r} in this database", "See `scaffold status` for what there is.")


def illegal_move(noun: str, name: str, was: str, to: str) -> IllegalMove:
    """Return the error for a move that the tables of `core.states` do not know."""
    return IllegalMove(f"{noun} {name!r} cannot go from {was} to {to}", "See `scaffold status` for where it stands.")


def stale_fence(noun: str, name: str, why: str) -> StaleFence:
    """Return the error for a writer that was overtaken; `why` says by what."""
    fix = "Write nothing more: another process has taken over, see `scaffold status`."
    return StaleFence(f"{noun} {name!r} is not yours any more: {why}", fix)
