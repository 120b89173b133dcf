"""What is known of second reviewers: agreement with humans, verdicts overturned later, planted faults."""

from datetime import UTC, datetime

from inline_snapshot import snapshot

from builders import an_action, an_attempt
from scaffold.core.model import InboxItem
from scaffold.core.proof.contract import ChangeReview, Review, Verification
from scaffold.core.proof.reviewer_record import GivenVerdict, ProbeAnswer
from scaffold.plan.review_rates import (
    LATEST,
    JudgedAction,
    ProbeStanding,
    outcomes_of,
    rates_of,
    standing_of,
    unreliable_text,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ACTION = an_action("a")


def given(verdict="approve", attempt="at1", change="c1", model="m"):
    return GivenVerdict(attempt_id=attempt, model=model, verdict=verdict, change=change, at=NOW)


def attempt(number=1, outcome="landed", change="c1", head="h1"):
    review = ChangeReview(review=Review(verdict="approve", summary=""), model="m", base="b", change=change)
    verification = Verification(commit=head, results=(), review=review)
    return an_attempt(ACTION, number, id=f"at{number}", outcome=outcome, head_sha=head, verification=verification)


def human(state, change="c1"):
    return InboxItem(
        id="i", run_id="r", kind="approval", text="", detail={"change": change}, state=state, created_at=NOW
    )


def outcome(verdict, *, attempts=(), items=(), reverted=()):
    judged = JudgedAction(run_id="r", key="a", attempts=attempts, items=items)
    (found,) = outcomes_of(judged, [verdict], reverted)
    return found


def test_later_evidence_confirms_or_overturns_a_verdict():
    """AL-23: a landed change that is reverted or done again; a rejected one that landed."""
    rows = (
        (given(), [], (), ""),
        (given(), [attempt(outcome="gate_failed")], (), ""),
        (given(change="c0"), [attempt()], (), ""),
        (given(), [an_attempt(ACTION, 1, id="at1", outcome="landed")], (), ""),
        (given(), [attempt()], (), "landed"),
        (given(), [attempt()], ("h1",), "overturned"),
        (given(), [attempt(), attempt(2, outcome="lost")], (), "overturned"),
        (given("reject"), [attempt()], (), "overturned"),
        (given("reject"), [attempt(outcome="rejected")], (), ""),
    )
    found = [outcome(verdict, attempts=attempts, reverted=reverted).fate for verdict, attempts, reverted, _ in rows]
    assert found == [fate for *_, fate in rows]


def test_humans_agree_or_not():
    """AL-23."""
    rows = (
        ("approve", [], None),
        ("approve", ["open"], None),
        ("approve", ["approved"], True),
        ("approve", ["rejected"], False),
        ("reject", ["rejected"], True),
        ("reject", ["approved"], False),
        ("approve", ["approved", "rejected"], False),
    )
    found = [
        (verdict, states, outcome(given(verdict), items=[human(state) for state in states]).agrees)
        for verdict, states, _ in rows
    ]
    assert found == list(rows)
    assert outcome(given(), items=[human("approved", change="another")]).agrees is None


def probes(planted, found, sound=4, false_alarms=0, unanswered=0):
    answers = [("operator", "reject" if number < found else "approve") for number in range(planted)]
    answers += [("", "reject" if number < false_alarms else "approve") for number in range(sound)]
    answers += [("operator", "")] * unanswered
    return [
        ProbeAnswer(id=str(number), model="m", kind=kind, verdict=verdict, located=verdict == "reject", at=NOW)
        for number, (kind, verdict) in enumerate(answers)
    ]


def test_a_reviewer_is_unreliable_if_it_misses_or_rejects_too_much():
    """AL-23: one that approves everything, and one that rejects everything."""
    rows = (
        (probes(0, 0), False),
        (probes(3, 0), False),
        (probes(4, 1), True),
        (probes(4, 2), False),
        (probes(4, 4, sound=4, false_alarms=2), False),
        (probes(4, 4, sound=4, false_alarms=3), True),
        (probes(0, 0, unanswered=9), False),
    )
    assert [standing_of(answers).is_unreliable for answers, _ in rows] == [unreliable for _, unreliable in rows]


def test_only_the_latest_answers_count():
    old, new = probes(LATEST, 0, sound=0), probes(LATEST - 4, LATEST - 4, sound=4)
    assert standing_of([*old, *new]) == ProbeStanding(
        planted=LATEST - 4, found=LATEST - 4, located=LATEST - 4, sound=4, false_alarms=0
    )


def test_the_rates_of_each_model_are_counted():
    """AL-23."""
    found = [
        outcome(given(), attempts=[attempt()], items=[human("approved")]),
        outcome(given(), attempts=[attempt()], reverted=("h1",)),
        outcome(given("reject"), attempts=[attempt()], items=[human("approved")]),
        outcome(given(model="z")),
    ]
    first, probed, last = rates_of(found, {"n": probes(4, 1)})
    assert (first.model, first.verdicts, first.approvals, first.rejections) == ("m", 3, 2, 1)
    assert (first.decided, first.agreed) == (2, 1)
    assert (first.stood, first.overturned_approvals, first.overturned_rejections) == (1, 1, 1)
    assert (probed.model, probed.verdicts, probed.probe.is_unreliable) == ("n", 0, True)
    assert (last.model, last.probe) == ("z", ProbeStanding())
    assert unreliable_text("n", probed.probe) == snapshot(
        "The second reviewer n found 1 of 4 planted faults, and rejected 0 of 4 changes without one: its approvals do "
        "not count. See `scaffold review --rates`."
    )
