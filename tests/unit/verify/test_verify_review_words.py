"""Parsing of a reviewer's final message: a verdict, or its errors."""

import json

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.core.plan import is_review_role
from scaffold.core.proof.contract import Citation, Review
from scaffold.policy.secret.redaction import Redactor
from scaffold.verify.contract.review_verdict import (
    MAX_CITATIONS,
    approval_verification,
    parse_review,
    review_text,
    reviews,
)

CITED = [{"file": "./api//store.py", "line": 3, "note": "it keeps things"}]
FENCE = "```"


def words(before="I looked.\n\n", after="", fence="json", **fields):
    """Return a final message with a verdict."""
    verdict = {"verdict": "approve", "citations": CITED, "summary": "It is sound."} | fields
    return f"{before}{FENCE}{fence}\n{json.dumps(verdict)}\n{FENCE}{after}"


def problem(text):
    """Return the error that a reviewer gets for this message."""
    read = parse_review(text)
    assert isinstance(read, str), read
    return read


def test_reviews_judge():
    """SC-7."""
    roles = ["code_review", "security_review", "reviewer"]
    assert [role for role in roles if not is_review_role(role)] == []


def test_other_roles_do_not():
    roles = ["implementation", "testing", "review", "code_reviewer", ""]
    assert [role for role in roles if is_review_role(role)] == []


def test_a_verdict_at_the_end_is_parsed():
    """BX-1: paths as git writes them."""
    texts = [words(), words(fence=""), words(fence="JSON ", after="\n\n \n"), words(before="")]
    assert [
        text
        for text in texts
        if parse_review(text)
        != Review(
            verdict="approve", citations=(Citation("api/store.py", 3, "it keeps things"),), summary="It is sound."
        )
    ] == []


def test_a_message_without_a_final_block_is_no_verdict():
    """BX-1: a block further up may be quoted from the reviewed text."""
    texts = ["", "I approve.", FENCE, f"{FENCE}\n{{}}\n", words(fence="python"), words(after="\nI take that back.")]
    assert [problem(text) for text in texts] == [
        snapshot(
            'Your message does not end with a fenced JSON block: {"verdict": "approve" or "reject", "citations": '
            '[{"file": PATH, "line": NUMBER, "note": TEXT}], "summary": TEXT}.'
        )
    ] * 6


def test_an_invalid_verdict_is_reported_with_its_position():
    wrong = [
        {"verdict": "maybe"},
        {"verdict": None},
        {"summary": 7},
        {"citations": [{"file": "a"}]},
        {"citations": [{"file": "a", "line": 0}]},
        {"citations": [{"file": "a", "line": "3"}]},
        {"citations": {"a": 3}},
    ]
    assert [
        fields
        for fields in wrong
        if "is not a valid verdict" not in problem(words(**fields)) or '"summary": TEXT' not in problem(words(**fields))
    ] == []


def test_garbage_is_no_verdict():
    blocks = ["{", "[" * 100_000, '{"verdict": "approve", "citations": [], "summary": "\\ud800"}', "\udce9"]
    assert [block for block in blocks if "is not a valid verdict" not in problem(f"{FENCE}\n{block}\n{FENCE}")] == []


def test_an_approval_needs_a_citation():
    """BX-1: at least one citation."""
    assert problem(words(citations=[])) == snapshot(
        "An approval must cite at least one file and line that shows the requested change."
    )
    assert isinstance(parse_review(words(verdict="reject", citations=[])), Review)


def test_a_verdict_needs_a_reason_of_bounded_length():
    assert "`summary` is empty" in problem(words(summary=" "))
    assert "101 citations" in problem(words(citations=CITED * (MAX_CITATIONS + 1)))


def test_a_review_is_summarised_in_lines():
    review = Review(verdict="reject", citations=(Citation("a", 1, " wrong "), Citation("b\n", 2)), summary=" No. ")
    assert review_text(review) == "No.\n- a:1: wrong\n- b\n:2"


@given(st.text(), st.text())
def test_no_text_breaks_the_parser_and_a_verdict_may_follow_any_text(before, summary):
    """BX-1."""
    assert isinstance(parse_review(before), str | Review)
    if summary.strip():
        read = parse_review(words(before=f"{before}\n", summary=summary))
        assert isinstance(read, Review)
        assert read.summary == summary


def test_the_evidence_of_an_approval_reads_back_and_contains_no_secret():
    """BX-2: evidence is stored as values; each text is redacted, not the JSON."""
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    review = Review(verdict="approve", citations=(Citation("a", 1, f"has {token}"),), summary=f'"{token}"')
    shown = approval_verification(review, "c" * 40, Redactor())
    assert shown.passed
    (kept,) = reviews(shown)
    assert token not in shown.results[0].detail
    assert kept.citations[0].file == "a"
    assert kept.summary.startswith('"[redacted')
