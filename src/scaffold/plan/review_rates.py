"""A second reviewer's rates, from its verdicts and from planted faults. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import ActionKey, RunId
from scaffold.core.model import Attempt, InboxItem
from scaffold.core.proof.reviewer_record import Fate, GivenVerdict, HumanWord, ProbeAnswer, VerdictOutcome

MIN_PLANTED = 4
"""With fewer planted faults, nothing is said about a reviewer."""
MIN_FOUND = 0.5
"""The share of planted faults that a reviewer has to find."""
MAX_FALSE_ALARMS = 0.5
"""The share of sound changes that it may reject: one that rejects everything finds every fault."""
LATEST = 40
"""How many of the latest answers count: a provider may change its model."""


class JudgedAction(Struct, frozen=True, kw_only=True):
    """An action with what was asked of humans about it, and its attempts, in their order."""

    run_id: RunId
    key: ActionKey
    attempts: Sequence[Attempt]
    items: Sequence[InboxItem]


def outcomes_of(
    action: JudgedAction, given: Iterable[GivenVerdict], reverted: Collection[str]
) -> tuple[VerdictOutcome, ...]:
    """Return the verdicts about an action's changes with what became of each; `reverted` are undone commits."""
    return tuple(
        VerdictOutcome(
            run_id=action.run_id,
            action=action.key,
            given=each,
            human=_human_decision(each, action.items),
            fate=_fate_of_change(each, action, reverted),
        )
        for each in given
    )


def _human_decision(given: GivenVerdict, items: Iterable[InboxItem]) -> HumanWord:
    decided = [item.state for item in items if item.kind == "approval" and item.detail.get("change") == given.change]
    # One human rejection of a change counts, whatever was decided before.
    if "rejected" in decided:
        return "rejected"
    return "approved" if "approved" in decided else ""


def _fate_of_change(given: GivenVerdict, action: JudgedAction, reverted: Collection[str]) -> Fate:
    place = next((at for at, each in enumerate(action.attempts) if each.id == given.attempt_id), None)
    if place is None:
        return ""
    attempt = action.attempts[place]
    judged = attempt.verification.review if attempt.verification else None
    # Within an attempt a rejected version is followed by others: only the last one has landed.
    if attempt.outcome != "landed" or judged is None or judged.change != given.change:
        return ""
    # It was rejected and has landed: a human overruled it.
    if given.verdict == "reject":
        return "overturned"
    # Undone by a revert, or done again by a later attempt.
    is_undone = attempt.head_sha in reverted or bool(action.attempts[place + 1 :])
    return "overturned" if is_undone else "landed"


class ProbeStanding(Struct, frozen=True, kw_only=True):
    """How a reviewer did on the latest changes with planted faults, and on those without."""

    planted: int = 0
    found: int = 0
    located: int = 0
    """Of the found ones, those whose place it cited."""
    sound: int = 0
    false_alarms: int = 0
    unanswered: int = 0
    """Changes about which it gave no verdict that counts."""

    @property
    def is_unreliable(self) -> bool:
        """Whether it misses so much, or rejects so much, that its approvals say nothing."""
        if self.planted < MIN_PLANTED:
            # A few planted faults say little, and blaming a good reviewer costs more than a bad one gains.
            return False
        return self.found < MIN_FOUND * self.planted or self.false_alarms > MAX_FALSE_ALARMS * self.sound

    @property
    def text(self) -> str:
        """The counts in words."""
        return (
            f"found {self.found} of {self.planted} planted faults, and rejected {self.false_alarms} of {self.sound} "
            "changes without one"
        )


def unreliable_text(model: str, standing: ProbeStanding) -> str:
    """Return the notice about a reviewer whose approvals lift no doubts."""
    return f"The second reviewer {model} {standing.text}: its approvals do not count. See `scaffold review --rates`."


def standing_of(answers: Sequence[ProbeAnswer]) -> ProbeStanding:
    """Return the standing from a reviewer's answers, oldest first."""
    latest = answers[-LATEST:]
    # A change without a verdict is counted apart: it says nothing about right or wrong.
    planted = [each for each in latest if each.is_planted and each.verdict]
    sound = [each for each in latest if not each.is_planted and each.verdict]
    found = [each for each in planted if each.verdict == "reject"]
    return ProbeStanding(
        planted=len(planted),
        found=len(found),
        located=sum(each.located for each in found),
        sound=len(sound),
        false_alarms=sum(each.verdict == "reject" for each in sound),
        unanswered=sum(not each.verdict for each in latest),
    )


class ReviewerRates(Struct, frozen=True, kw_only=True):
    """The rates of one reviewer's model."""

    model: str
    verdicts: int = 0
    approvals: int = 0
    decided: int = 0
    """Verdicts about changes about which a human decided, too."""
    agreed: int = 0
    stood: int = 0
    """Approved changes that landed, and stand."""
    overturned_approvals: int = 0
    overturned_rejections: int = 0
    probe: ProbeStanding = ProbeStanding()

    @property
    def rejections(self) -> int:
        """How many changes it rejected."""
        return self.verdicts - self.approvals


def rates_of(
    outcomes: Iterable[VerdictOutcome], probes: Mapping[str, Sequence[ProbeAnswer]]
) -> tuple[ReviewerRates, ...]:
    """Return the rates of each model, by its name; `probes` are the answers of each, oldest first."""
    by_model: dict[str, list[VerdictOutcome]] = {model: [] for model in probes}
    for each in outcomes:
        by_model.setdefault(each.given.model, []).append(each)
    rates: list[ReviewerRates] = []
    for model, own in sorted(by_model.items()):
        approved = [each for each in own if each.given.verdict == "approve"]
        rejected = [each for each in own if each.given.verdict == "reject"]
        rates.append(
            ReviewerRates(
                model=model,
                verdicts=len(own),
                approvals=len(approved),
                decided=sum(each.agrees is not None for each in own),
                agreed=sum(each.agrees is True for each in own),
                stood=sum(each.fate == "landed" for each in approved),
                overturned_approvals=sum(each.fate == "overturned" for each in approved),
                overturned_rejections=sum(each.fate == "overturned" for each in rejected),
                probe=standing_of(probes.get(model, ())),
            )
        )
    return tuple(rates)
