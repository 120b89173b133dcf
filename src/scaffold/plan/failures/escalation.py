"""The failure ladder: the decision after a failed attempt, as a pure function.

Nudges within an attempt are the watchdog's. After it: a fresh attempt that knows the cause, another approach once a
failure recurs, a planner that breaks the work down, a human.
"""

from collections.abc import Mapping

from msgspec import Struct

from scaffold.core.states import Escalation

EXTRA_ATTEMPTS = 1
"""How many failures an action may have beyond its limit, for another approach or a learning. A human grants more."""
ATTEMPTED: frozenset[Escalation] = frozenset({"again", "alternative", "learning"})
"""The decisions that attempt the action again at once."""
ESCALATION_TEXT: Mapping[Escalation, str] = {
    "again": "the next attempt starts over; its prompt gives the cause",
    "alternative": "the next attempt is to take another approach",
    "learning": "one more attempt is given a learning that fits the failure",
    "smaller": "the planner is asked for smaller actions",
    "human": "a human has to decide how to go on",
    "failed": "it has failed for good; `scaffold retry` gives it new attempts",
}


class FailureHistory(Struct, frozen=True, kw_only=True):
    """The counted failures of an action since a human last granted attempts, the latest included."""

    fingerprints: tuple[str, ...]
    """Of each of them, oldest first; empty for one that shows nothing to compare."""
    limit: int
    """How many the action may have."""
    extra: int = 0
    """The number of extra attempts granted so far, for any reason."""
    alternatives: int = 0
    """How many of the attempts were to take another approach."""
    tried: bool = True
    """Whether the last attempt shows a way that did not work: one that changed nothing has tried none."""
    learning: bool = False
    """Whether a learning fits the failure that the action was never given."""
    may_exceed: bool = True
    """Whether the limit may be exceeded at all."""
    permanent: bool = False
    """Whether every other attempt would end in the same way."""
    refused: bool = False
    """Whether the work changed what its task may not: neither another attempt nor smaller actions may do so."""


def next_escalation(history: FailureHistory, *, replans_left: int, planner: bool) -> Escalation:
    """Return the step after the last failure; nothing repeats for ever, whatever the failures are.

    Beyond the limit there is one attempt, and only for something that was not tried: a learning, or another approach.
    """
    again = not (history.permanent or history.refused)
    if again and (found := _further_attempt(history)) is not None:
        return found
    return escalation_of_exhausted(replans_left=0 if history.refused else replans_left, planner=planner)


def _further_attempt(history: FailureHistory) -> Escalation | None:
    """Return the attempt that follows; None if the action has none left."""
    # An action that fails in new ways still learns something; one that repeats itself does not.
    failures, again = len(history.fingerprints), recurs(history.fingerprints)
    if failures < history.limit + history.extra:
        return "alternative" if again else "again"
    # Failures may exceed the limit without a grant, e.g. if the limit was lowered since: none is granted then.
    if not history.may_exceed or history.extra >= EXTRA_ATTEMPTS or failures > history.limit:
        return None
    if history.learning:
        return "learning"
    return "alternative" if again and history.tried and not history.alternatives else None


def escalation_of_exhausted(*, replans_left: int, planner: bool) -> Escalation:
    """Return the step for an action without attempts left.

    Without a planner the given plan is final: the action fails, and the user may retry it.
    """
    if not planner:
        return "failed"
    # Smaller actions are tried first: they do not need a human.
    return "smaller" if replans_left > 0 else "human"


def recurs(fingerprints: tuple[str, ...]) -> bool:
    """Return whether the last failure occurred before."""
    # An empty fingerprint shows nothing, so two of them are not the same failure.
    return bool(fingerprints) and fingerprints[-1] != "" and fingerprints[-1] in fingerprints[:-1]
