"""Durations and failures of simulated attempts; the same random seed gives the same result on every machine."""

from collections.abc import Mapping
from random import Random  # noqa: TID251 - seeded by the caller; no other randomness in the simulation

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.core.plan import Plan

MAX_ATTEMPTS = 3
"""How many times an action may fail, as in a real run."""


class AttemptTiming(Struct, frozen=True, kw_only=True):
    """Assumed durations in seconds; good enough to compare plans and numbers of agents."""

    mean_s: int = 300
    """Mean duration of an attempt, checks included."""
    spread: float = 0.5
    """In [0, 1]; durations are uniform between `mean_s * (1 - spread)` and `mean_s * (1 + spread)`."""
    landing_s: int = 10
    """Duration of a landing; candidates land one at a time."""


class DrawnAttempt(Struct, frozen=True):
    """The predetermined result of an attempt, should it be made."""

    duration_s: int
    succeeds: bool


def draw_attempts(
    plan: Plan, *, seed: int, failure_rate: float, pace: AttemptTiming
) -> Mapping[ActionKey, tuple[DrawnAttempt, ...]]:
    """Return all attempts each action may need, drawn before the simulation starts.

    So an action's results do not depend on the number of agents or the order of events. Uses only `Random.random()`,
    which gives the same numbers in all Python versions, and whole seconds.
    """
    random = Random(seed)  # noqa: S311 - not used for secrets
    return {
        action.key: tuple(_draw(random, failure_rate, pace) for _ in range(MAX_ATTEMPTS)) for action in plan.actions
    }


def _draw(random: Random, failure_rate: float, pace: AttemptTiming) -> DrawnAttempt:
    factor = 1 + pace.spread * (2 * random.random() - 1)
    # Both numbers are drawn in each case, so that another failure rate does not change the durations.
    return DrawnAttempt(max(1, round(pace.mean_s * factor)), random.random() >= failure_rate)
