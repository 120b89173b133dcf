"""The marks of tasks in several versions of a list."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.plan.source.formats import containing, done_ids, same_but_for_marks, with_done, with_open
from scaffold.plan.source.prd import read_prd
from support.task_lists import FORMATS, NUMBERS, ids_of, versions

KIRO = "- [ ] 1. a\n  - [-] 1.1 b\n  - [ ] 1.2 c\n- [ ] 2. d\n"


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
@given(data=st.data())
def test_marks_that_are_taken_back_leave_the_text_as_it_was(write, data):
    """DR-1: what a landing marked is what its revert opens, in every format, and no other character changes."""
    task_format, _ = FORMATS[write]
    sets = st.sets(st.sampled_from(NUMBERS))
    done, marked = data.draw(sets), data.draw(sets)
    before, after = data.draw(versions(write, done, done | marked))
    new = ids_of(write, marked - done)
    assert done_ids(task_format, after, name="x") - done_ids(task_format, before, name="x") == set(new)
    assert same_but_for_marks(task_format, before, after, name="x")
    opened = with_open(task_format, after, new, like=before, name="x")
    if write.__name__ == "prd_without_passes":  # a key that was added stays, and says that it is open
        assert not done_ids(task_format, opened, name="x").intersection(new)
        opened = with_open(task_format, opened, new, like=before, name="x")
        assert with_done(task_format, opened, new, name="x").text == after
    else:
        assert opened == before


def test_only_what_is_named_is_opened_and_what_it_is_a_part_of_is_known():
    whole = with_done("kiro", KIRO, ["1.1", "1.2"], name="x").text
    assert whole.count("[x]") == 3
    opened = with_open("kiro", whole, ["1.1", "gone"], like=KIRO, name="x")
    assert opened == whole.replace("[x] 1.1", "[-] 1.1")
    assert containing("kiro", whole, ["1.1", "2", "gone"], name="x") == {"1"}


def test_an_open_task_has_the_mark_of_its_format_if_no_version_says_which():
    lists = {
        "task-master": ({"tasks": [{"id": 1, "title": "a", "status": "completed"}]}, "1", "status", "pending"),
        "beads": ({"id": "b", "title": "a", "issue_type": "task", "status": "done"}, "b", "status", "open"),
        "prd": ({"userStories": [{"id": "U", "title": "a", "passes": True}]}, "U", "passes", False),
    }
    for task_format, (value, key, field, mark) in lists.items():
        text = json.dumps(value)
        opened = json.loads(with_open(task_format, text, [key], like=text, name="x"))
        (entry,) = opened.get("tasks") or opened.get("userStories") or [opened]
        assert entry[field] == mark
    assert with_open("spec-kit", "- [X] T001 a\n", ["T001"], like="- [X] T001 a\n", name="x") == "- [ ] T001 a\n"


def test_what_is_written_twice_has_no_mark_that_counts():
    text = "- [x] T001 a\n- [ ] T001 b\n- [x] T002 c\n"
    assert done_ids("spec-kit", text, name="x") == {"T002"}
    assert with_open("spec-kit", text, ["T001"], like=text, name="x") == text


def test_another_title_is_more_than_a_mark():
    text = '{"userStories": [{"id": "U", "title": "a", "passes": false}]}'
    assert not same_but_for_marks("prd", text, text.replace('"a"', '"b"').replace("false", "true"), name="x")
    (task,) = read_prd(text, name="x").tasks
    assert task.open_edits == ()
