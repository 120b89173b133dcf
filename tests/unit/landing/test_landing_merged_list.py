"""Lists of tasks that two sides changed: marks never conflict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.landing.marked_tree import merge_lists, without_claims
from scaffold.plan.source.formats import done_ids, with_done
from support.task_lists import FORMATS, NUMBERS, versions

KIRO = "- [ ] 1. a\n  - [ ] 1.1 b\n  - [-] 1.2 c\n- [ ] 2. d\n"
SETS = st.sets(st.sampled_from(NUMBERS))


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
@given(data=st.data())
def test_marks_of_different_tasks_commute(write, data):
    """DR-1: in which order tasks land, or are reverted, makes no difference to their list."""
    task_format, _ = FORMATS[write]
    was, one, other = data.draw(SETS), data.draw(SETS), data.draw(SETS)
    base, mine, theirs, both = data.draw(versions(write, was, was | one, was | other, was | one | other))
    assert merge_lists(task_format, base, mine, theirs, name="x") == both
    assert merge_lists(task_format, base, theirs, mine, name="x") == both
    left = done_ids(task_format, merge_lists(task_format, theirs, both, base, name="x"), name="x")
    assert left == done_ids(task_format, data.draw(versions(write, (was | one) - (other - was)))[0], name="x")


def done(text, *ids):
    return with_done("kiro", text, ids, name="x").text


def merged(base, ours, theirs):
    return merge_lists("kiro", base, ours, theirs, name="x")


def test_what_a_task_is_a_part_of_follows_whichever_part_is_last():
    assert merged(KIRO, done(KIRO, "1.1"), done(KIRO, "1.2")) == done(KIRO, "1.1", "1.2")
    first, both = done(KIRO, "1.1"), done(KIRO, "1.1", "1.2")
    assert merged(first, both, KIRO) == done(KIRO, "1.2")
    assert merged(both, both, first) == first


def test_a_task_that_its_user_left_open_stays_open():
    """With all its parts done, and if they opened it again."""
    left = done(KIRO, "1.1", "1.2").replace("- [x] 1. a", "- [ ] 1. a")
    assert merged(left, left, left + "\nmore\n") == left + "\nmore\n"
    first = done(KIRO, "1.1")
    assert merged(first, KIRO, done(first, "2")) == done(KIRO, "2")


def test_what_is_done_with_open_parts_stays_so():
    """As users leave their lists: marked as a whole, or with parts that nobody will do."""
    whole = KIRO.replace("[ ] 1. a", "[x] 1. a")
    assert merged(whole, done(whole, "2"), whole + "more\n") == done(whole, "2") + "more\n"
    assert merged(whole, done(whole, "2"), done(whole, "1.1")) == done(whole, "1.1", "2")
    assert merged(done(whole, "1.1"), done(whole, "1.1", "2"), whole) == done(whole, "2")


def test_other_changes_beside_marks_are_kept_even_in_adjacent_lines():
    noted = KIRO.replace("c\n", "c\n    - noted\n")
    assert merged(KIRO, done(KIRO, "1.2", "2"), noted) == done(noted, "1.2", "2")


def test_other_changes_of_the_same_lines_conflict():
    assert merged(KIRO, KIRO.replace("1.2 c", "1.2 x"), KIRO.replace("1.2 c", "1.2 y")) is None


def test_lines_that_are_too_many_alike_are_not_merged():
    many = KIRO + "\n" * 3_000
    assert merged(many, "\n" + many + "x", "y\n" + "\n" * 3_000 + KIRO) is None


def test_what_an_agent_marks_does_not_count():
    """DR-1: a mark follows what landed, never what an agent says."""
    claimed = done(KIRO, "1.2", "2").replace("2. d\n", "2. d\n  - noted\n")
    assert without_claims("kiro", KIRO, claimed, name="x") == KIRO.replace("2. d\n", "2. d\n  - noted\n")
