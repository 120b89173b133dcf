"""Evidence about a learning: how often it helped, compared with attempts from which it was withheld."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct, structs

from scaffold.core.learning import TTL, Learning, LearningUse

MIN_GIVEN, MIN_WITHHELD, MIN_RUNS = 5, 3, 3
"""With fewer attempts, or runs, nothing is said about lift."""
MAX_UNDECIDED = 20
"""A learning that was given so often without a lift stays away."""
WITHHELD_EVERY = 4
"""In each series of this many attempts that match an unproven learning, the last one goes without it."""
PROVEN_WITHHELD_EVERY = 10
"""The same for one that helps."""
Standing = Literal["unproven", "helps", "no_lift", "harms"]
"""Too little is known | more work lands with it | no more does | less does. The last two are given no more."""
GIVEN: frozenset[Standing] = frozenset({"unproven", "helps"})


class Lift(Struct, frozen=True):
    """How much more of the work landed with a learning, as a difference of shares, from -1 to 1.

    `least` and `most` are the extremes if any one of the runs is left out.
    """

    value: float
    least: float
    most: float


class Score(Struct, frozen=True, kw_only=True):
    """Evidence from a learning's uses."""

    used: int = 0
    """Attempts that were given it and whose end says something about the work."""
    helped: int = 0
    """Those whose work landed and stayed."""
    withheld: int = 0
    """Attempts that went without it, for comparison."""
    withheld_helped: int = 0
    runs: int = 0
    found: int = 0
    """All attempts for which it was found."""
    expected: float = 0.5
    """The share of attempts that it is expected to help; what happened long ago counts less."""
    lift: Lift | None = None
    """None if there are too few runs."""
    standing: Standing = "unproven"

    @property
    def too_few(self) -> str:
        """The evidence still missing for its lift; empty if nothing is."""
        pairs = (
            (MIN_GIVEN - self.used, "more with it"),
            (MIN_WITHHELD - self.withheld, "more without it"),
            (MIN_RUNS - self.runs, "more runs"),
        )
        return ", ".join(f"{count} {what}" for count, what in pairs if count > 0)


def score_of(learning: Learning, uses: Iterable[LearningUse], now: datetime) -> Score:
    """Return the learning's score from its uses; uses of an earlier text do not count."""
    # Another text is another learning, whatever its id.
    mine = [each for each in uses if each.learning == learning.id and each.at >= learning.changed_at]
    judged = [each for each in mine if each.helped is not None]
    given, without = [each for each in judged if each.given], [each for each in judged if not each.given]
    weights = [(decay(each.at, now), bool(each.helped)) for each in given]
    helpful = sum(weight for weight, helped in weights if helped)
    score = Score(
        used=len(given),
        helped=sum(bool(each.helped) for each in given),
        withheld=len(without),
        # Lift across runs: one run may simply have had easy tasks.
        withheld_helped=sum(bool(each.helped) for each in without),
        runs=len({each.run for each in judged}),
        found=len(mine),
        # Laplace's rule: with nothing seen it is one half.
        expected=(1 + helpful) / (2 + sum(weight for weight, _ in weights)),
    )
    lift = None if score.too_few else _measure_lift(judged)
    standing: Standing = "unproven"
    # Only if it holds whichever run is left out.
    if lift is not None and lift.least > 0:
        standing = "helps"
    elif lift is not None and lift.most < 0:
        standing = "harms"
    elif score.used >= MAX_UNDECIDED:
        standing = "no_lift"
    return structs.replace(score, lift=lift, standing=standing)


def scores_of(learnings: Sequence[Learning], uses: Sequence[LearningUse], now: datetime) -> Mapping[str, Score]:
    """Return the score of each learning by id."""
    by_id: dict[str, list[LearningUse]] = {}
    for each in uses:
        by_id.setdefault(each.learning, []).append(each)
    return {each.id: score_of(each, by_id.get(each.id, ()), now) for each in learnings}


def is_withheld(score: Score, *, preference: bool = False) -> bool:
    """Return whether the next attempt goes without the learning, so that its lift can be measured."""
    # A preference is the user's wish, whether it helps or not.
    if preference:
        return False
    every = PROVEN_WITHHELD_EVERY if score.standing == "helps" else WITHHELD_EVERY
    # By count and not by chance, so that a repeated run decides the same.
    return score.found % every == every - 1


def decay(at: datetime, now: datetime) -> float:
    """Return the weight of evidence of that time, from 1 down to 0: half as much after each time to live."""
    return float(0.5 ** (max((now - at) / TTL, 0.0)))


def _measure_lift(judged: Sequence[LearningUse]) -> Lift | None:
    """Return the lift over all runs, and its extremes with one of them left out; None if too little is left then."""
    whole = _landed_difference(judged)
    runs = dict.fromkeys(each.run for each in judged)
    without_one = [_landed_difference([each for each in judged if each.run != run]) for run in runs]
    known = [each for each in without_one if each is not None]
    # One run alone must not decide: the lift has to hold without any of them.
    if whole is None or len(known) < len(runs):
        return None
    return Lift(whole, min(known), max(known))


def _landed_difference(judged: Sequence[LearningUse]) -> float | None:
    """Return the difference of the shares of landed attempts with and without it; None if one kind is missing."""
    shares = []
    for given in (True, False):
        ends = [bool(each.helped) for each in judged if each.given is given]
        if not ends:
            return None
        shares.append(sum(ends) / len(ends))
    return shares[0] - shares[1]
