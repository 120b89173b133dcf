"""Marking tasks as done in a text: nothing else changes, in no format, whatever the text looks like."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.core.errors import PlanInvalid
from scaffold.plan.source.formats import detect_format, read_tasks_of, with_done

NUMBERS = range(1, 7)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
PROSE = TEXTS.filter(lambda text: not set("<`~[") & set(text))
"""Lines that begin neither code, nor a comment, nor an item."""
EXTRAS = st.dictionaries(st.sampled_from(["estimate", "labels", "x y", "z"]), st.lists(TEXTS) | TEXTS | st.none())


def json_text(draw, value, *, lines=False):
    """Return `value` as JSON in one of the ways in which programs write it."""
    ascii_only = draw(st.booleans())
    if lines:
        separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
        each = [json.dumps(item, separators=separators, ensure_ascii=ascii_only) for item in value]
        return "\n".join(each) + draw(st.sampled_from(["", "\n", "\n\n"]))
    indent = draw(st.sampled_from([None, 0, 2, 4, "\t"]))
    return json.dumps(value, indent=indent, ensure_ascii=ascii_only) + draw(st.sampled_from(["", "\n"]))


class Draw:
    """Draws the same choices each time that it is rewound, so that two texts differ in what is done only."""

    def __init__(self, draw):
        self._draw, self._drawn, self._next = draw, [], 0

    def __call__(self, strategy):
        if self._next == len(self._drawn):
            self._drawn.append(self._draw(strategy))
        self._next += 1
        return self._drawn[self._next - 1]

    def rewind(self):
        self._next = 0


def prd(draw, done):
    key = draw(st.sampled_from(["passes", "completed"]))
    stories = [{"id": f"US-{n}", "title": "t", key: n in done, **draw(EXTRAS), "depends_on": []} for n in NUMBERS]
    return json_text(draw, {"name": draw(TEXTS), "userStories": stories})


def prd_without_passes(draw, done):
    """A key that is missing is added after the others."""
    stories = [
        {"id": f"US-{n}", "title": "t", **draw(EXTRAS)} | ({"passes": True} if n in done else {}) for n in NUMBERS
    ]
    return json_text(draw, {"userStories": stories})


def task_master(draw, done):
    tasks = [{"id": n, "title": "t", **draw(EXTRAS), "status": "done" if n in done else "pending"} for n in NUMBERS]
    return json_text(
        draw, draw(st.sampled_from([lambda each: {"tasks": each}, lambda each: {"master": {"tasks": each}}]))(tasks)
    )


def beads(draw, done):
    issues = [
        {
            "id": f"bd-{n}",
            "title": "t",
            "status": "closed" if n in done else "open",
            "issue_type": "task",
            **draw(EXTRAS),
        }
        for n in NUMBERS
    ]
    return json_text(draw, issues, lines=True)


def checklist(draw, done, line):
    mark = draw(st.sampled_from("xX"))
    bullet = draw(st.sampled_from("-*+"))
    rows = [f"{bullet} [{mark}] {line(0)} first", ""]
    for n in NUMBERS:
        rows += [f"{bullet} [{mark if n in done else ' '}] {line(n)} {draw(PROSE)}t", f"  {draw(PROSE)}", draw(PROSE)]
    return "\n".join(rows)


def spec_kit(draw, done):
    return "# Tasks\n" + checklist(draw, done, lambda n: f"T{n:03}{draw(st.sampled_from(['', ' [P]', ' [US1]']))}")


def kiro(draw, done):
    return "# Plan\n" + checklist(draw, done, lambda n: f"{n + 1}{draw(st.sampled_from([')', '.']))}")


FORMATS = {
    prd: ("prd", "US-{}"),
    prd_without_passes: ("prd", "US-{}"),
    task_master: ("task-master", "{}"),
    beads: ("beads", "bd-{}"),
    spec_kit: ("spec-kit", "T{:03}"),
    kiro: ("kiro", "{}"),
}


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
@given(data=st.data())
def test_only_what_is_done_changes(write, data):
    """DR-1: a text with tasks marked is the text as its author would have written it with these tasks done."""
    task_format, pattern = FORMATS[write]
    sets = st.sets(st.sampled_from(NUMBERS))
    done, marked = data.draw(sets), data.draw(sets)
    draw = Draw(data.draw)
    before = write(draw, done)
    draw.rewind()
    after = write(draw, done | marked)
    bom, ending = data.draw(st.sampled_from(["", "\ufeff"])), data.draw(st.sampled_from(["\n", "\r\n"]))
    before, after = (bom + text.replace("\n", ending) for text in (before, after))
    ids = [pattern.format(n + (task_format == "kiro")) for n in sorted(marked)]
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
