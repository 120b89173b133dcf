"""Errors that several repository classes raise, with uniform wording."""

from scaffold.core.errors import IllegalTransition, StaleFence, StoreError

START_HINT = "Start a run with `scaffold run`, or a conversation with `ralph`"
"""How to create a missing database."""


def not_found(noun: str, name: str) -> StoreError:
    """Return the error for a row that does not exist."""
    return StoreError(f"there is no {noun} {name!r} in this database", "`scaffold status` shows what exists.")


def illegal_transition(noun: str, name: str, was: str, to: str) -> IllegalTransition:
    """Return the error for a transition that is not in the tables of `core.states`."""
    return IllegalTransition(
        f"{noun} {name!r} cannot go from {was} to {to}", "`scaffold status` shows its current state."
    )


def stale_fence(noun: str, name: str, why: str) -> StaleFence:
    """Return the error for a writer whose fence or expected state is out of date; `why` names the difference."""
    fix = "Stop writing: another process has taken over, see `scaffold status`."
    return StaleFence(f"this process no longer owns {noun} {name!r}: {why}", fix)
