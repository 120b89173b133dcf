"""Which attempts of an action failed in the same way."""

from collections.abc import Sequence

from scaffold.core.model import Attempt


def same_failure(earlier: Sequence[Attempt], fingerprint: str) -> Attempt | None:
    """Return the first of the attempts that failed in this way; None if none did."""
    # Attempts without a fingerprint failed in a way that shows nothing to compare.
    return next((each for each in earlier if fingerprint and each.fingerprint == fingerprint), None)


def first_same(attempts: Sequence[Attempt], attempt: Attempt) -> Attempt | None:
    """Return the first attempt before this one that failed in the same way; None if none did."""
    return same_failure([each for each in attempts if each.number < attempt.number], attempt.fingerprint)
