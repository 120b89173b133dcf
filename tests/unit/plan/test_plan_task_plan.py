"""What is left to do of a list of tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import Finding
from scaffold.plan.source.dag import dag_findings
from scaffold.plan.source.task import SourceTask, TaskDocument, TaskTree, checked, in_written_order, with_task_positions
from scaffold.plan.source.task_plan import planned_tasks
from scaffold.plan.text.parse_tree import TextPosition

KEYS = [str(number) for number in range(8)]


def task(key, *needs, **fields):
    return SourceTask(id=key, title=f"Task {key}", depends_on=needs, **fields)


def plan(*tasks, **options):
    return planned_tasks(checked(TaskDocument(format="beads", tasks=tasks), name="x"), **options)


def waits(planned):
    return {each.key: set(each.depends_on) for each in planned.planned}


def test_what_is_done_is_not_done_again_and_not_waited_for():
    """SC-22."""
    result = plan(task("a", done=True), task("b", "a"), task("c", "b", "a"))
    assert (result.done, waits(result)) == (("a",), {"b": set(), "c": {"b"}})


def test_a_task_with_parts_is_done_by_them():
    """SC-22: who waits for it waits for them, and they wait for what it waits for."""
    result = plan(
        task("a"),
        task("b", "a"),
        task("b.1", parent="b"),
        task("b.2", "b.1", parent="b"),
        task("b.3", parent="b", done=True),
        task("c", "b"),
        task("d", done=True, closes_parts=True),
        task("d.1", parent="d"),
    )
    assert waits(result) == {"a": set(), "b.1": {"a"}, "b.2": {"b.1", "a"}, "c": {"b.1", "b.2"}}
    assert result.done == ("b.3", "d.1")


def test_a_part_that_is_not_marked_is_to_be_done_although_the_whole_is():
    """SC-22: nobody waits for it, and it waits for nothing that the whole waited for."""
    result = plan(task("a"), task("b", "a", done=True), task("b.1", parent="b"), task("c", "b"))
    assert waits(result) == {"a": set(), "b.1": set(), "c": set()}


def test_a_whole_that_waits_for_one_of_its_parts_makes_the_others_not_wait():
    result = plan(task("a", "a.1", "b"), task("a.1", parent="a"), task("a.2", parent="a"), task("b"))
    assert waits(result) == {"a.1": {"b"}, "a.2": {"b"}, "b": set()}


def test_a_whole_that_is_open_although_its_parts_are_done_is_named():
    """Nothing is left out in silence."""
    result = plan(task("a"), task("a.1", parent="a", done=True), task("b", "a"))
    assert (result.done, waits(result)) == (("a.1",), {"b": set()})
    assert result.left_out == snapshot({"a": "is not marked as done, although all its parts are"})


def test_a_cycle_through_an_open_part_of_something_done_is_an_error():
    """OR-6: the part is to be done, and waits for what waits for it."""
    tasks = (task("a"), task("a.1", parent="a", done=True), task("a.1.1", "b", parent="a.1"), task("b", "a"))
    with pytest.raises(PlanInvalid) as refused:
        checked(TaskDocument(format="beads", tasks=tasks), name="x")
    assert [each.code for each in refused.value.findings] == ["cycle"]


def test_what_waits_for_something_done_does_not_wait_for_its_open_parts():
    tasks = (task("a", done=True), task("a.1", "b", parent="a"), task("b", "a"))
    document = checked(TaskDocument(format="beads", tasks=tasks), name="x")
    assert {each.key: each.depends_on for each in planned_tasks(document).planned} == {"a.1": ("b",), "b": ()}


def test_what_is_held_is_left_out_with_what_waits_for_it():
    """Nothing starts before what it depends on, and nothing is left out in silence."""
    result = plan(
        task("a", held="has the status `deferred`"),
        task("a.1", parent="a"),
        task("b", "a"),
        task("c", "b"),
        task("d", optional=True),
        task("d.1", parent="d"),
        task("e", "d"),
    )
    assert waits(result) == {"e": set()}
    assert result.left_out == snapshot(
        {
            "a.1": "has the status `deferred`",
            "b": "waits for `a.1`, which is left out",
            "c": "waits for `b`, which is left out",
            "d.1": "is optional",
        }
    )


def test_tasks_are_ordered_by_priority_then_as_written():
    keys = [each.key for each in plan(task("a"), task("b", priority=2), task("c", priority=1), task("d")).planned]
    assert keys == ["c", "b", "a", "d"]


def test_a_task_says_all_that_the_file_says():
    """AL-3: titles, criteria and verification intents are kept, and those of what it is a part of."""
    whole = task("a", description="The whole", verification_intent="Try all", acceptance=("good",))
    part = task("a.1", description="A part", acceptance=("fast",), verification_intent="Try", notes="Hm", parent="a")
    (one, two) = plan(whole, part, task("b", description="Task b"), references=("spec.md",)).planned
    assert (one.title, one.description, one.acceptance) == ("Task a.1", "A part", ("fast",))
    assert one.verification_intent == "Try"
    assert one.notes == (
        "Hm\n\nThis is a part of a: Task a\n\nThe whole\n\nAccepted when:\n- good\n\nTo be verified: Try all\n\n"
        "Read first: spec.md"
    )
    assert (two.title, two.notes) == ("Task b", "Read first: spec.md")


@st.composite
def documents(draw):
    """Documents with dependencies on earlier tasks, parts, and every state."""
    tasks = []
    for index, key in enumerate(KEYS):
        earlier = KEYS[:index]
        parent = draw(st.sampled_from([None, *earlier]))
        tree = TaskTree(tasks)
        # A part must not wait for what it is a part of.
        around = {parent, *(each.id for each in tree.ancestors(tree.by_id[parent]))} if parent else set()
        free = [each for each in earlier if each not in around]
        needs = draw(st.sets(st.sampled_from(free), max_size=2)) if free else set()
        state = draw(st.sampled_from([{}, {}, {"done": True}, {"held": "no"}, {"optional": True}, {"parallel": True}]))
        tasks.append(task(key, *sorted(needs), parent=parent, **state))
    return tasks


@given(documents())
def test_each_task_with_work_of_its_own_is_planned_done_or_left_out(tasks):
    tree = TaskTree(tasks)
    document = TaskDocument(format="beads", tasks=tuple(tasks))
    result = planned_tasks(document) if not _cyclic(document) else None
    if result is not None:
        keys = [*(each.key for each in result.planned), *result.done, *result.left_out]
        work = {each.id for each in tasks if not tree.required_parts(each)}
        finished = {each.id for each in tasks if tree.required_parts(each) and not tree.done(each)}
        assert len(keys) == len(set(keys))
        assert work <= set(keys) <= work | finished
        assert not result.planned or not dag_findings(result.planned)


def _cyclic(document):
    try:
        checked(document, name="x")
    except PlanInvalid:
        return True
    return False


@given(st.lists(st.booleans(), max_size=8), st.data())
def test_tasks_in_order_wait_for_all_before_them_but_their_parallel_neighbours(parallel, data):
    tasks = [task(key, parallel=each) for key, each in zip(KEYS, parallel, strict=False)]
    sections = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(tasks), max_size=len(tasks))))
    before = {}
    for each in in_written_order(tasks, sections).tasks:
        before[each.id] = set(each.depends_on).union(*(before[key] for key in each.depends_on))
    for index, one in enumerate(tasks):
        for place in range(index):
            between = range(place, index + 1)
            together = all(parallel[at] for at in between) and sections[place] == sections[index]
            assert (tasks[place].id in before[one.id]) != together


def test_a_cycle_that_the_file_states_keeps_its_place():
    tasks = in_written_order([task("a", "b"), task("b", "a"), task("c")], [0, 0, 0]).tasks
    assert [each.depends_on for each in tasks] == [("b", "c"), ("a",), ()]


def test_findings_without_a_position_get_that_of_their_task():
    warning = Finding(code="c", severity="warning", message="m", fix="f", line=7, column=1)
    error = Finding(code="c", severity="error", action="a", message="m", fix="f")
    placed = with_task_positions([warning, error], [task("a", position=TextPosition(3, 5))])
    assert [(each.line, each.column) for each in placed] == [(7, 1), (3, 5)]
