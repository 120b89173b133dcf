"""Which changes a second reviewer judges, what its verdict means, and what it is asked."""

from inline_snapshot import snapshot

from scaffold.core.ids import ActionKey, Commit, RunId
from scaffold.core.proof.contract import ChangeReview, CheckResult, Citation, Doubt, Review, Verification
from scaffold.worker.second_review.judge import (
    MAX_LINES,
    MAX_PACKAGES,
    ChangeScope,
    changed_packages,
    is_sampled,
    only_asks_for_place,
    review_reasons,
    with_review,
)
from scaffold.worker.second_review.reviewer_prompts import MAX_LISTED, TESTS_CHARS, BaseTest, section_of_tests

BASE, HEAD = Commit("b" * 40), Commit("c" * 40)
DOUBT = Doubt("tests_removed", "1 test is gone: test_old")
PASSED = Verification(commit=HEAD, results=(CheckResult(name="true", verdict="pass"),), doubts=(DOUBT,))
SMALL = {"lines": 1, "packages": 1}


def scope(**other):
    return ChangeScope(**(SMALL | other))


def test_a_change_is_reviewed_for_its_doubts_its_size_and_its_place():
    """AL-23, AL-9: doubts, and places that somebody has to agree to, always; the rest only in the sample."""
    rows = [
        ((), {}, True, ()),
        ((DOUBT,), {}, True, ("1 test is gone: test_old",)),
        ((DOUBT,), {}, False, ("1 test is gone: test_old",)),
        ((), {"lines": MAX_LINES}, True, ()),
        ((), {"lines": MAX_LINES + 1}, True, ("it is large: 201 changed lines",)),
        ((), {"lines": MAX_LINES + 1}, False, ()),
        ((), {"packages": MAX_PACKAGES}, True, ()),
        ((), {"packages": MAX_PACKAGES + 1}, True, ("it is widespread: code in 4 packages",)),
        ((), {"packages": MAX_PACKAGES + 1}, False, ()),
        ((), {"protected": ("login.sql",)}, True, ("it changes protected areas: login.sql",)),
        ((), {"protected": ("login.sql",)}, False, ()),
        (
            (),
            {"protected": ("login.sql",), "asked_about": ("login.sql",)},
            False,
            ("only the plan, which a model wrote, allows changes of login.sql",),
        ),
    ]
    assert [
        (doubts, place, sampled, review_reasons(doubts, scope(**place), sampled=sampled))
        for doubts, place, sampled, _ in rows
    ] == rows


def test_only_a_place_to_agree_to_is_left_to_a_human_after_a_rejection():
    """AL-9: not if there are doubts, or if the change is large, too."""
    asked = scope(asked_about=("login.sql",))
    assert only_asks_for_place((), asked, ["a"])
    assert not only_asks_for_place((DOUBT,), asked, ["a", "b"])
    assert not only_asks_for_place((), asked, ["a", "it is large"])
    assert not only_asks_for_place((), scope(), ["it is large"])


def test_the_sample_depends_on_run_and_action_alone_and_has_the_configured_share():
    """AL-23: no repetition takes an action out of it."""
    keys = [ActionKey(f"action-{number}") for number in range(2_000)]

    def sample(share, run="r1"):
        return [key for key in keys if is_sampled(RunId(run), key, share)]

    assert sample(1) == keys
    assert sample(0) == []
    assert sample(0.25) == sample(0.25)
    assert 400 < len(sample(0.25)) < 600
    assert sample(0.25) != sample(0.25, run="r2")
    assert set(sample(0.25)) < set(sample(0.5)), "a larger share adds to the smaller one"


def test_packages_are_the_folders_of_changed_code_without_tests_and_documents():
    """AL-23."""
    paths = ["a.py", "src/x/b.py", "src/x/c.ts", "src/y/d.go", "tests/x/test_b.py", "docs/e.md", "data/f.json"]
    assert changed_packages(paths) == {"", "src/x", "src/y"}


def review(verdict, **other):
    said = Review(verdict=verdict, citations=(Citation("old.py", 3, "why", before=True),), summary="I read it.")
    return ChangeReview(review=said, model="cassette:x", base=BASE, change="d1", **other)


def test_an_approval_makes_work_with_doubts_reviewed():
    """AL-23, BX-1: above weak, below proven; the doubts stay."""
    judged = with_review(PASSED, review("approve"))
    assert (judged.passed, judged.reviewed, judged.strength, judged.doubts) == (True, True, "reviewed", (DOUBT,))


def test_a_rejection_fails_the_work_with_its_citations():
    """AL-23."""
    judged = with_review(PASSED, review("reject"))
    (failure,) = judged.failures
    assert (judged.passed, judged.reviewed, failure.name) == (False, False, "second review")
    assert failure.detail.splitlines()[-2:] == snapshot(["I read it.", "- old.py:3 (before the change): why"])


def test_a_rejection_fails_nothing_if_a_human_is_asked_next():
    """AL-9."""
    judged = with_review(PASSED, review("reject"), human_decides=True)
    assert (judged.passed, judged.reviewed, judged.review.review.verdict) == (True, False, "reject")


def test_tests_are_shown_with_their_source_as_far_as_it_fits():
    """AL-23: every name is there, whatever their length."""
    long = "x" * 3_900
    tests = [BaseTest(name=f"test_{number}", fate="removed", source=long) for number in range(12)]
    section = section_of_tests("# Tests", tests)
    assert all(f"- test_{number}: removed" in section for number in range(12))
    assert len(section) < TESTS_CHARS + 1_000
    many = section_of_tests(
        "# Tests", [BaseTest(name=f"t{number}", fate="removed") for number in range(MAX_LISTED + 5)]
    )
    assert many.endswith("- … and 5 more")
    assert section_of_tests("# Tests", []) == ""
