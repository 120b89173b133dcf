"""Marking tasks as done in a text: nothing else changes, in no format, whatever the text looks like."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.core.errors import PlanInvalid
from scaffold.plan.source.formats import detect_format, read_tasks_of, with_done
from support.task_lists import FORMATS, NUMBERS, ids_of, versions


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
@given(data=st.data())
def test_only_what_is_done_changes(write, data):
    """DR-1: a text with tasks marked is the text as its author would have written it with these tasks done."""
    task_format, _ = FORMATS[write]
    sets = st.sets(st.sampled_from(NUMBERS))
    done, marked = data.draw(sets), data.draw(sets)
    before, after = data.draw(versions(write, done, done | marked))
    ids = ids_of(write, marked)
    result = with_done(task_format, before, [*ids, "gone"], name="x")
    assert (result.text, result.unmarked) == (after, ("gone",))
    assert with_done(task_format, after, ids, name="x").text == after
    assert detect_format(before, name="x") == task_format
    states = {task.id: task.done for task in read_tasks_of(task_format, result.text, name="x").tasks}
    assert all(states[key] for key in ids)


def marked(task_format, text, *ids):
    return with_done(task_format, text, ids, name="x")


def test_a_task_is_done_with_its_last_required_part():
    text = "- [ ] 1. a\n  - [x] 1.1 b\n  - [ ] 1.2 c\n    - [ ] 1.2.1 d\n  - [ ]* 1.3 e\n- [ ] 2. f\n"
    assert marked("kiro", text, "1.2.1").text == text.replace("[ ]", "[x]", 3)
    assert marked("kiro", text.replace("[x]", "[ ]"), "1.2.1").text.count("[x]") == 2


def test_the_parts_of_a_task_are_done_with_it():
    text = "- [ ] 1. a\n  - details\n  - [-] 1.1 b\n  - [ ]* 1.2 c\n"
    assert marked("kiro", text, "1").text == "- [x] 1. a\n  - details\n  - [x] 1.1 b\n  - [ ]* 1.2 c\n"


def test_what_is_written_twice_is_reported_and_not_touched():
    text = "- [ ] T001 a\n- [ ] T001 b\n- [ ] T002 c\n"
    result = marked("spec-kit", text, "T001", "T002", "T001")
    assert (result.text, result.unmarked) == ("- [ ] T001 a\n- [ ] T001 b\n- [x] T002 c\n", ("T001",))


def test_a_null_is_replaced_and_a_status_that_means_done_stays():
    text = '{"tasks": [{"id": 1, "title": "a", "status": null}, {"id": 2, "title": "b", "status": "completed"}]}'
    assert marked("task-master", text, "1", "2").text == text.replace("null", '"done"')


def test_a_text_that_cannot_be_read_any_more_is_refused():
    with pytest.raises(PlanInvalid):
        marked("task-master", '{"tasks": [{"id": 1', "1")


def test_parts_in_a_circle_are_marked_once_each():
    lines = [
        {
            "id": one,
            "title": "t",
            "issue_type": "task",
            "status": "open",
            "dependencies": [{"depends_on_id": other, "type": "parent-child"}],
        }
        for one, other in ("ab", "ba")
    ]
    text = "\n".join(map(json.dumps, lines))
    assert marked("beads", text, "a").text == text.replace('"open"', '"closed"')
