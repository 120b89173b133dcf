"""How long simulated attempts take and which of them fail: the same for the same seed, on every machine."""

from collections.abc import Mapping
from random import Random  # noqa: TID251 - made here from the seed that is handed in, and by nothing else

from msgspec import Struct

from scaffold.core.ids import Key
from scaffold.core.plan import Plan

ATTEMPTS = 3
"""How many own failures an action may have, as in a run."""


class Pace(Struct, frozen=True, kw_only=True):
    """How long things take, in seconds: guesses, good enough to compare plans and numbers of agents."""

    mean_s: int = 300
    """What an attempt takes on average, its checks included."""
    spread: float = 0.5
    """Attempts take between `mean_s * (1 - spread)` and `mean_s * (1 + spread)`, each time as likely; from 0 to 1."""
    landing_s: int = 10
    """What landing takes; one candidate lands at a time."""


class Trial(Struct, frozen=True):
    """One attempt that may be made at an action."""

    duration_s: int
    succeeds: bool


def trials(plan: Plan, *, seed: int, failure_rate: float, pace: Pace) -> Mapping[Key, tuple[Trial, ...]]:
    """Return all attempts that each action may need, drawn before anything begins.

    So the luck of an action is the same however many agents there are, whatever the order of events. Nothing but
    `Random.random()` is drawn, which gives the same numbers in all versions of Python, and times are whole seconds.
    """
    random = Random(seed)  # noqa: S311 - nothing is kept secret with it
    return {action.key: tuple(_trial(random, failure_rate, pace) for _ in range(ATTEMPTS)) for action in plan.actions}


def _trial(random: Random, failure_rate: float, pace: Pace) -> Trial:
    stretch = 1 + pace.spread * (2 * random.random() - 1)
    return Trial(max(1, round(pace.mean_s * stretch)), random.random() >= failure_rate)
