"""Scores, decay and the choice of learnings, for any history."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.core.learning import Learning, LearningUse, Triple
from scaffold.plan.learning.evidence import GIVEN, decay, score_of, scores_of
from scaffold.plan.learning.matching import Situation, matches
from scaffold.plan.learning.selection import CHARS_PER_TOKEN, contradict, contradictions, prompt_section, select
from scaffold.plan.learning.triples import read_triple, triple_text
from support.property_examples import up_to

NOW = datetime(2026, 3, 1, tzinfo=UTC)
VOCABULARY = ["tests", "fail", "build", "cache", "not", "never", "retry", "auth", "slow", "port"]
texts = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=5).map(" ".join)
uses = st.lists(
    st.builds(
        LearningUse,
        learning=st.sampled_from("abcd"),
        run=st.sampled_from(["r1", "r2", "r3", "r4"]),
        at=st.integers(0, 400).map(lambda days: NOW - timedelta(days=days)),
        given=st.booleans(),
        helped=st.none() | st.booleans(),
    ),
    max_size=60,
)


def learning(name, condition, advice):
    long_ago = NOW - timedelta(days=1000)
    return Learning(
        id=name, triple=Triple(condition, advice), created_at=long_ago, changed_at=long_ago, triggered_at=NOW
    )


@settings(max_examples=up_to(200))
@given(uses, st.integers(0, 1000), st.integers(0, 1000))
def test_a_score_is_a_share_and_age_only_lessens_weight(history, one, other):
    """BX-16."""
    score = score_of(learning("a", "x", "y"), history, NOW)
    assert 0 < score.expected < 1
    assert score.helped <= score.used
    assert score.withheld_helped <= score.withheld
    assert score.used + score.withheld <= score.found
    if score.lift is not None:
        assert -1 <= score.lift.least <= score.lift.most <= 1
        assert not score.too_few
        assert (score.standing == "helps") is (score.lift.least > 0)
        assert (score.standing == "harms") is (score.lift.most < 0)
    young, old = sorted((one, other))
    assert decay(NOW - timedelta(days=young), NOW) >= decay(NOW - timedelta(days=old), NOW) > 0


@settings(max_examples=up_to(200))
@given(uses, st.lists(st.tuples(texts, texts), min_size=1, max_size=4), texts, st.integers(0, 600))
def test_no_choice_exceeds_its_tokens_contradicts_itself_or_has_what_harms(history, triples, task, tokens):
    """AL-16, BX-16."""
    learnings = [learning(name, *each) for name, each in zip("abcd", triples, strict=False)]
    scores = scores_of(learnings, history, NOW)
    selection = select(matches(learnings, Situation(task)), scores, tokens=tokens)
    section = prompt_section(selection.given, scores, "start")
    lines = section.partition("```jsonl\n")[2].splitlines()[:-1]
    assert sum(map(len, lines)) <= tokens * CHARS_PER_TOKEN
    assert len(lines) == len(selection.given)
    both = (*selection.given, *selection.withheld)
    assert all(scores[each.id].standing in GIVEN for each in both)
    assert not any(contradict(one, other) for one in both for other in both if one is not other)
    pairs = {frozenset((one.id, other.id)) for one, other in contradictions(learnings)}
    expected = ((one, other) for one in learnings for other in learnings if one.id < other.id)
    assert pairs == {frozenset((one.id, other.id)) for one, other in expected if contradict(one, other)}
    assert selection == select(matches(learnings[::-1], Situation(task)), scores, tokens=tokens)


@settings(max_examples=up_to(500))
@given(st.text(max_size=80), st.text(max_size=80))
def test_any_triple_that_is_read_is_written_the_same(condition, advice):
    """AL-16."""
    triple = read_triple(f"WHEN {condition} DO {advice}")
    if isinstance(triple, Triple):
        assert read_triple(triple_text(triple)) == triple
        assert "\n" not in triple_text(triple)
