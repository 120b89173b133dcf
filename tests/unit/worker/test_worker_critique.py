"""Parsing of a critic's message, and the decision after each iteration."""

import itertools
from typing import get_args

import msgspec
from hypothesis import assume, example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.worker.review.critique import (
    CRITERIA,
    Critique,
    HandIn,
    Improve,
    IterationState,
    MalformedCritique,
    StopFailed,
    decide_next_step,
    format_critique,
    read_critique,
    requests_end,
)

ALL = "Correctness: 2/3\nReadability: 3/3\nEdge cases: 2/3\n"
SEVEN = Critique(total=7, correctness=2, readability=3, edge_cases=2)

score = st.integers(1, 3)
prose = st.text(st.characters(codec="utf-8"), max_size=80).map(str.strip)


@st.composite
def critiques(draw):
    scores = draw(st.tuples(*[st.none() | score] * 3))
    whole = None not in scores
    total = sum(scores) if whole else draw(st.integers(3, 9))
    remarks = draw(prose)
    assume(isinstance(read_critique(remarks), MalformedCritique))
    assume(not any(word in remarks.casefold() for word in ("correct", "readab", "edge", "total")))
    return Critique(
        total=total,
        correctness=scores[0],
        readability=scores[1],
        edge_cases=scores[2],
        done=draw(st.booleans()),
        remarks=remarks,
    )


@given(critiques())
def test_a_formatted_critique_parses_back(critique):
    """AL-5: the rubric as a value."""
    assert read_critique(format_critique(critique)) == critique


@given(
    st.text()
    | st.lists(st.sampled_from(["Total", ": ", "9", "/9", "/", "\n", "DONE", *CRITERIA, "(", "|", "="])).map("".join)
)
@example("Total: " + "1" * 5_000)
@example("total" + " " * 100_000 + "7")
@example("Total: ٣/9")
def test_no_message_raises(text):
    """AL-5: garbage is reported as a finding, never as an exception."""
    found = read_critique(text)
    assert isinstance(found, Critique | MalformedCritique)
    if isinstance(found, Critique):
        assert 3 <= found.total <= 9
        known = [each for each in found.scores if each is not None]
        assert all(1 <= each <= 3 for each in known)
        assert len(known) < 3 or sum(known) == found.total


def test_scores_are_parsed_in_any_formatting():
    """AL-5."""
    texts = [
        f"{ALL}Total: 7/9",
        "**Correctness (1-3):** 2/3\n- *Readability*: 3\n3. Edge-cases - 2 / 3\n### **Total: 7/9**",
        "| Correctness | 2/3 |\n| Readability | 3/3 |\n| EDGE CASES | 2/3 |\n| **Total** | 7/9 |",
        f"{ALL}Total: 2 + 3 + 2 = 7/9",
        f"{ALL}Total score: 7 out of 9.",
        f"{ALL}Total: 7/9\n{ALL}Total: 7/9",
    ]
    assert [text for text in texts if read_critique(text) != SEVEN] == []


def test_missing_or_contradictory_scores_are_reported_to_the_critic():
    """AL-5: a malformed critique is requested again."""
    texts = [
        "",
        "Looks good to me. DONE",
        "Total: 7/10",
        "Total: 7/90",
        "Total: 7 out of 99",
        "Total: 7/9.5",
        "Total: 10/9",
        "Total: 2/9",
        "Total: 7.5/9",
        "Total: 7/9\nTotal: 8/9",
        f"{ALL}Total: 9/9",
        f"{ALL}Correctness: 3/3\nTotal: 7/9",
        "Readability: 4/3\nTotal: 7/9",
    ]
    found = [read_critique(text) for text in texts]
    assert [each.why for each in found if isinstance(each, MalformedCritique)] == snapshot(
        [
            "It does not contain the line `Total: N/9`.",
            "It does not contain the line `Total: N/9`.",
            "It does not contain the line `Total: N/9`.",
            "It does not contain the line `Total: N/9`.",
            "It does not contain the line `Total: N/9`.",
            "It does not contain the line `Total: N/9`.",
            "`Total` must be a whole number from 3 to 9, not 10.",
            "`Total` must be a whole number from 3 to 9, not 2.",
            "`Total` must be a whole number from 3 to 9, not 7.5.",
            "It contains more than one `Total`: 7, 8.",
            "`Total: 9/9` contradicts the scores, which add up to 7.",
            "It contains more than one `Correctness`: 2, 3.",
            "`Readability` must be a whole number from 1 to 3, not 4.",
        ]
    )


def test_a_score_on_another_scale_is_a_remark():
    """AL-5: 3 of 30 is not full marks."""
    for line in ("Correctness: 3/30", "Readability: 3 of 35", "Edge cases: 2/3.5"):
        found = read_critique(f"{line}\nTotal: 7/9")
        assert isinstance(found, Critique)
        assert (found.scores, found.remarks) == ((None, None, None), line)


def test_a_sentence_may_end_after_a_score():
    assert read_critique(f"{ALL.replace('/3', '/3.')}Total: 7 out of 9. DONE") == msgspec.structs.replace(
        SEVEN, done=True
    )


def test_comments_beside_a_score_are_kept_for_the_agent():
    said = "It drops the last item.\n\nCorrectness: 1/3 - see `sell`\nTotal: 5/9 (not yet)"
    assert read_critique(said).remarks == said


def test_a_critic_ends_the_iterations_with_a_separate_line():
    """AL-5: DONE after the total."""
    table = {
        "Total: 5/9\nDONE": True,
        "Total: 5/9 DONE": True,
        "**Total: 5/9**\n\n**DONE**.": True,
        "DONE\nTotal: 5/9": False,
        "Total: 5/9\nIt is not DONE": False,
        "Total: 5/9\nDone": False,
        "Total: 5/9\nDONE when the tests are there": False,
    }
    assert {end: read_critique(end).done for end in table} == table


def test_an_agent_ends_the_iterations_with_its_last_line():
    table = {"All of it.\nDONE": True, "**DONE**\n": True, "DONE, but": False, "": False}
    assert {words: requests_end(words) for words in table} == table


def view(**fields):
    given = {"passed": True, "changed": True, "threshold": 7, "iteration": 1, "maximum": 5}
    return IterationState(**(given | fields))


def test_the_decision_after_an_iteration():
    """AL-5, AL-6: the table."""
    rows = [
        ({}, HandIn("verified")),
        ({"score": 9}, HandIn("threshold")),
        ({"score": 7}, HandIn("threshold")),
        ({"score": 6}, HandIn("acceptable")),
        ({"score": 5}, Improve("critique")),
        ({"score": 5, "done": True}, HandIn("agent_done_verified")),
        ({"score": None, "done": True}, HandIn("agent_done_verified")),
        ({"score": 3, "iteration": 5}, HandIn("maximum")),
        ({"score": 3, "changed": False}, HandIn("nothing_changed")),
        ({"passed": False}, Improve("failures")),
        ({"passed": False, "score": 9, "done": True}, Improve("failures")),
        ({"passed": False, "iteration": 5}, StopFailed("maximum")),
        ({"passed": False, "iteration": 5, "score": 9, "done": True}, StopFailed("maximum")),
        ({"passed": False, "refused": True}, StopFailed("refused")),
        ({"passed": False, "changed": False}, StopFailed("nothing_changed")),
        ({"passed": False, "changed": False, "done": True}, StopFailed("nothing_changed")),
        ({"reviewed": True, "score": 3}, HandIn("reviewed")),
        ({"reviewed": True, "passed": False}, Improve("failures")),
        ({"reviewed": True, "passed": False, "changed": False}, Improve("failures")),
        ({"reviewed": True, "passed": False, "iteration": 5}, StopFailed("maximum")),
    ]
    assert [(fields, decide_next_step(view(**fields))) for fields, _ in rows] == rows


def every_view():
    fields = ("passed", "changed", "done", "score", "threshold", "iteration")
    values = ((True, False), (True, False), (True, False), (None, *range(3, 10)), range(1, 10), (1, 2, 3))
    for chosen in itertools.product(*values):
        yield view(**dict(zip(fields, chosen, strict=True)), maximum=3)


def test_no_single_opinion_is_enough_and_no_loop_is_endless():
    """AL-5, AL-6: over all combinations: done only if the checks pass, no iteration after the last."""
    moves = {one: decide_next_step(one) for one in every_view()}
    assert {type(move) for one, move in moves.items() if not one.passed} == {Improve, StopFailed}
    assert all(not isinstance(move, StopFailed) for one, move in moves.items() if one.passed)
    over = [move for one, move in moves.items() if one.iteration == one.maximum or not one.changed]
    assert not any(isinstance(move, Improve) for move in over)
    better = [(one, view(**{**_fields(one), "score": one.score + 1})) for one in moves if one.score not in {None, 9}]
    assert all(isinstance(decide_next_step(up), HandIn) for one, up in better if isinstance(moves[one], HandIn)), (
        "more is never less"
    )


def test_every_reason_occurs_in_the_table():
    views = (*every_view(), view(reviewed=True))
    reasons = {move.reason for move in map(decide_next_step, views) if isinstance(move, HandIn)}
    assert reasons == set(get_args(HandIn.__annotations__["reason"]))


def _fields(one):
    return {name: getattr(one, name) for name in IterationState.__struct_fields__}
