"""Work that a second reviewer approved lands as reviewed, as long as it is the work that was approved."""

from datetime import UTC, datetime

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from integration.worker.builders import REVIEWED, run_reviewed, verdict
from scaffold.core.ids import Commit
from scaffold.core.proof.contract import ChangeReview, CheckResult, Citation, Doubt, Review, Verification
from scaffold.landing.facts.effect_evidence import evidence_of
from scaffold.landing.proving.candidate_check import with_agreement
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import BatchLanded
from support.harness import act, goal

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def begin(harness, *actions):
    run = await harness.own(goal("g", *actions), **REVIEWED)
    return run, MergeQueue(harness.context, run)


def fact_of(harness, run, key):
    facts = harness.store.facts.for_goal(harness.action(run, key).goal_id)
    return next(fact for fact in facts if fact.assertion == f"{key}_done")


async def test_approved_work_becomes_a_reviewed_fact_with_the_citations_as_evidence(harness):
    """AL-23, BX-1."""
    run, queue = await begin(harness, act("a"))
    await run_reviewed(harness, run, "a", ["echo one > a"], [verdict()])
    assert isinstance(await queue.step(), BatchLanded)
    fact = fact_of(harness, run, "a")
    assert (fact.strength, [doubt.code for doubt in fact.doubts]) == ("reviewed", ["no_contract"])
    (evidence,) = [each for each in fact.evidence if each.kind == "review"]
    assert evidence.detail == snapshot("second review by script: I read it.\n- a:1: it is there")
    await queue.close()


@pytest.mark.slow
async def test_an_approval_survives_a_tip_that_moved(harness):
    """AL-22, AL-23: the change is the same, on whatever tip."""
    run, queue = await begin(harness, act("a"), act("b"))
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    await run_reviewed(harness, run, "b", ["echo two > b"], [verdict(file="b")], attempt=second)
    await run_reviewed(harness, run, "a", ["echo one > a"], [verdict()], attempt=first)
    await queue.step()
    await queue.step()
    assert [fact_of(harness, run, key).strength for key in ("a", "b")] == ["reviewed", "reviewed"]
    await queue.close()


@pytest.mark.slow
async def test_an_approval_expires_when_other_work_changes_the_same_file(harness):
    """AL-22, AL-23: nobody has read the file that would land."""
    run, queue = await begin(harness, act("a"), act("b"))
    first, second = await harness.queue(run, "a"), await harness.queue(run, "b")
    approved = [verdict(file="list")]
    await run_reviewed(harness, run, "b", ["sed -i s/three/THREE/ list"], approved, attempt=second)
    await run_reviewed(harness, run, "a", ["sed -i s/one/ONE/ list"], approved, attempt=first)
    await queue.step()
    assert isinstance(await queue.step(), BatchLanded)
    late = fact_of(harness, run, "a")
    assert (late.strength, [each.kind for each in late.evidence]) == ("weak", ["change"])
    assert fact_of(harness, run, "b").strength == "reviewed"
    await queue.close()


def checked(*doubts, reviewed=False):
    found = tuple(Doubt(code, code) for code in doubts)
    results = (CheckResult(name="true", verdict="pass"),)
    return Verification(commit=Commit("c" * 40), results=results, doubts=found, reviewed=reviewed)


AGREEMENTS = {
    "the doubt it was given for": (checked("no_contract", reviewed=True), checked("no_contract"), "reviewed"),
    "one of them": (checked("no_contract", "tests_removed", reviewed=True), checked("tests_removed"), "reviewed"),
    "a doubt that arises when it lands": (
        checked("no_contract", reviewed=True),
        checked("no_contract", "tests_removed"),
        "weak",
    ),
    "no agreement": (checked("no_contract"), checked("no_contract"), "weak"),
    "no doubt": (checked("no_contract", reviewed=True), checked(), "proven"),
}


def test_an_agreement_covers_the_doubts_it_was_given_for():
    """AL-23: a doubt that arises when it lands was not among them."""
    found = {why: with_agreement(proven, handed_in).strength for why, (handed_in, proven, _) in AGREEMENTS.items()}
    assert found == {why: strength for why, (*_, strength) in AGREEMENTS.items()}


def test_a_rejection_is_no_evidence():
    """AL-9: a human may let the work land all the same; the reviewer's words do not speak for it."""
    said = Review(verdict="reject", citations=(Citation("a", 1),), summary="No.")
    review = ChangeReview(review=said, model="script", base=Commit("b" * 40), change="x")
    for each, kinds in ((review, []), (structs.replace(review, review=approving(said)), ["review"])):
        found = structs.replace(checked(), results=(), review=each)
        evidence = evidence_of(found, None, found.commit, NOW)
        assert [each.kind for each in evidence] == kinds


def approving(said):
    return structs.replace(said, verdict="approve")
