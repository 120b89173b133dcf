"""Which answers of a human hold for a change that is ready to land."""

from datetime import UTC, datetime, timedelta

from inline_snapshot import snapshot
from msgspec import structs

from scaffold.core.change_approval import ChangeSubject, answers_about, approval_of, subject_of, why_outdated
from scaffold.core.model import InboxItem
from scaffold.core.proof.contract import ChangeReview, Review

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CHANGE = ChangeSubject(action="a", landing="at1", attempt=1, base="1" * 40, change="c1", doubts=("no_contract",))
OTHERS = {
    "attempt": structs.replace(CHANGE, landing="at2", attempt=2),
    "base": structs.replace(CHANGE, base="2" * 40),
    "content": structs.replace(CHANGE, change="c2"),
    "doubt": structs.replace(CHANGE, doubts=("no_contract", "tests_lost")),
}


def item(subject, state="approved", name="i1", **fields):
    return InboxItem(
        id=name, run_id="r", kind="approval", text="", detail=subject.detail, state=state, created_at=NOW, **fields
    )


def test_an_answer_holds_for_exactly_the_change_that_was_asked():
    """AL-22."""
    assert answers_about(CHANGE, [item(CHANGE)], NOW).approved == item(CHANGE)
    assert answers_about(CHANGE, [item(CHANGE, "rejected")], NOW).rejected == item(CHANGE, "rejected")
    assert answers_about(CHANGE, [item(CHANGE, "open")], NOW).open == item(CHANGE, "open")


def test_an_answer_expires_with_any_change_of_what_it_was_about():
    """AL-22: the attempt, its base, the content, a doubt."""
    for name, other in OTHERS.items():
        found = answers_about(other, [item(CHANGE), item(CHANGE, "open"), item(CHANGE, "rejected")], NOW)
        assert (found.approved, found.rejected, found.open) == (None, None, None), name
        assert found.outdated == (item(CHANGE), item(CHANGE, "open")), name


def test_the_same_change_of_another_attempt_repeats_a_rejected_one():
    """AL-22: nobody is asked about it twice."""
    rejected = item(CHANGE, "rejected")
    anew = structs.replace(CHANGE, landing="at3", attempt=3, base="3" * 40)
    assert answers_about(anew, [rejected], NOW).repeats == rejected
    assert answers_about(structs.replace(anew, change="c3"), [rejected], NOW).repeats is None
    assert answers_about(CHANGE, [rejected], NOW).repeats is None


def test_each_reason_is_told_in_words():
    """AL-22."""
    assert {other: why_outdated(OTHERS[other], CHANGE) for other in OTHERS} == snapshot(
        {
            "attempt": "attempt 2 has made the change anew",
            "base": "its base is 22222222 now, it was 11111111",
            "content": "what would land is another change, as others have changed the same files meanwhile",
            "doubt": "its checks raise other doubts now: tests_lost",
        }
    )


def test_a_doubt_less_needs_no_new_answer():
    """AL-22: a crash between proof and landing leaves the doubts of the proof."""
    assert answers_about(structs.replace(CHANGE, doubts=()), [item(CHANGE)], NOW).approved is not None


def test_an_approval_holds_for_its_time_and_a_rejection_always():
    """AL-22."""
    past = NOW - timedelta(hours=1)
    found = answers_about(CHANGE, [item(CHANGE, valid_until=past), item(CHANGE, "rejected", valid_until=past)], NOW)
    assert (found.approved, found.rejected is not None, found.outdated) == (None, True, ())
    assert answers_about(CHANGE, [item(CHANGE, valid_until=NOW + timedelta(hours=1))], NOW).approved is not None


def test_other_items_are_not_about_a_change():
    call = structs.replace(item(CHANGE), detail={"tool": "shell"})
    broken = structs.replace(item(CHANGE), detail={"landing": 7})
    question = structs.replace(item(CHANGE), kind="question")
    assert [subject_of(each) for each in (call, broken, question, item(CHANGE))] == [None, None, None, CHANGE]
    assert answers_about(CHANGE, [call, broken, item(CHANGE, "withdrawn")], NOW).outdated == ()


def test_the_evidence_of_a_landing_is_the_last_approval_of_its_attempt():
    """AL-22, BX-1."""
    later = item(OTHERS["content"], name="i2")
    assert approval_of("at1", [item(CHANGE), later, item(OTHERS["attempt"], name="i3")]) == later
    assert approval_of("at9", [item(CHANGE)]) is None


def test_the_approval_of_an_unreliable_reviewer_is_none():
    """AL-23."""
    rows = (("approve", True, True), ("approve", False, False), ("reject", True, False))
    about = {"model": "m", "base": "b", "change": "c"}
    for verdict, counts, approves in rows:
        review = ChangeReview(review=Review(verdict=verdict, summary=""), **about, counts=counts)
        assert review.approves is approves, (verdict, counts)
