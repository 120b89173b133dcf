"""A request as a single action."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.plan.analysis.lint import lint
from scaffold.plan.source.prompt_loop import MAX_TITLE_CHARS, single_action_plan

REQUESTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


@given(REQUESTS)
def test_the_plan_reaches_its_goal_whatever_the_request(request_words):
    """SC-22: the tier quick is one primitive action with the whole request."""
    plan = single_action_plan(request_words)
    assert lint(plan).findings == ()
    assert [action.description for action in plan.actions] == [request_words]


def test_the_goal_is_named_by_the_first_line_of_the_request():
    (short,) = single_action_plan("\n\n  Mend the parser \nIt fails on tabs.").goals
    assert short.description == "Mend the parser"
    (long,) = single_action_plan("x" * 500).goals
    assert len(long.description) == MAX_TITLE_CHARS
    assert long.description.endswith("…")
