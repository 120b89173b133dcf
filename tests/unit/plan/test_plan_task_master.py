"""`tasks.json` of task-master: flat and tagged, subtasks, statuses, errors."""

import json

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import PlanInvalid
from scaffold.plan.source.formats import read_tasks_of
from support.findings import fault


def task(task_id, **fields):
    return {"id": task_id, "title": f"Task {task_id}"} | fields


def read(document):
    text = document if isinstance(document, str) else json.dumps(document)
    return read_tasks_of("task-master", text, name="tasks.json")


def refused(document):
    with pytest.raises(PlanInvalid) as caught:
        read(document)
    return fault(caught.value.findings[0])


def test_a_task_is_read_with_what_plans_have_a_place_for():
    """AL-3: description and details, test strategy, priority, status."""
    listed = [
        task(
            1,
            description="Short",
            details="Long",
            testStrategy="Call it",
            priority="high",
            status="in-progress",
            acceptanceCriteria="- one\n- two",
        )
    ]
    (read_task,) = read({"tasks": listed, "metadata": {}}).tasks
    assert (read_task.description, read_task.verification_intent) == ("Short\n\nLong", "Call it")
    assert (read_task.priority, read_task.done, read_task.held, read_task.acceptance) == (1, False, "", ("one", "two"))


def test_only_statuses_that_task_master_starts_are_open():
    statuses = {
        "pending": (False, ""),
        "in_progress": (False, ""),
        "done": (True, ""),
        "Completed": (True, ""),
        "review": (False, "has the status `review`"),
        "cancelled": (False, "has the status `cancelled`"),
    }
    found = {status: read({"tasks": [task(1, status=status)]}).tasks[0] for status in statuses}
    assert {status: (each.done, each.held) for status, each in found.items()} == statuses


def test_subtasks_are_parts_and_depend_on_siblings_or_on_tasks():
    """SC-22: numbers are siblings if there is one, and texts such as `1.2` may name any subtask."""
    parts = [task(1, dependencies=[]), task("2.2", dependencies=[1, "1.1"]), task(3, dependencies=["2", 1])]
    listed = [task(1, subtasks=[task(1)]), task("2", dependencies=[1], subtasks=parts)]
    tasks = {each.id: each for each in read({"master": {"tasks": listed}}).tasks}
    assert list(tasks) == ["1", "1.1", "2", "2.1", "2.2", "2.3"]
    assert [tasks[key].parent for key in ("2.2", "2")] == ["2", None]
    assert tasks["2.2"].depends_on == ("2.1", "1.1")
    assert tasks["2.3"].depends_on == ("2.2", "2.1")


def test_of_several_tags_master_is_read_and_the_others_are_named():
    document = read({"other": {"tasks": [task(9)]}, "master": {"tasks": [task(1)]}, "note": 1})
    assert [each.id for each in document.tasks] == ["1"]
    assert ["`other`" in warning.message for warning in document.warnings] == [True]
    assert [each.id for each in read({"only": {"tasks": [task(9)]}}).tasks] == ["9"]


def test_errors_are_named():
    """OR-6: cycles through subtasks, too."""
    documents = (
        ("[", "syntax"),
        ([], "wrong-type tasks"),
        ({}, snapshot("missing-key tasks tasks")),
        ({"tasks": []}, "bad-value tasks.tasks"),
        ({"tasks": [1]}, "wrong-type tasks.tasks[0] 1"),
        ({"tasks": [{"id": 1}]}, "missing-key tasks.tasks[0] title"),
        ({"tasks": [task("a b")]}, "bad-value tasks.tasks[0].id a b"),
        ({"tasks": [task(1, status=7)]}, "wrong-type tasks.tasks[0].status 7"),
        ({"tasks": [task(1, dependencies=[5])]}, "unknown-dependency 1 5"),
        ({"tasks": [task(1), task(1)]}, "duplicate-key 1"),
        ({"a": {"tasks": []}, "b": {"tasks": []}}, "bad-value a b master"),
        (
            {"tasks": [task(1, dependencies=[2]), task(2, subtasks=[task(1, dependencies=["1"])])]},
            "cycle 1 -> 2 -> 2.1 -> 1",
        ),
    )
    assert [(document, refused(document)) for document, _ in documents] == list(documents)


def test_errors_have_the_position_of_their_task():
    with pytest.raises(PlanInvalid) as caught:
        read('{"tasks": [\n  {"id": 1, "title": "a"},\n  {"id": 1, "title": "b"}\n]}')
    assert [(each.line, each.column) for each in caught.value.findings] == [(3, 3)]


def test_what_is_done_may_be_wrong():
    """Neither its dependencies nor its id matter any more, and parts of it are done, too."""
    listed = [task(1, status="done", dependencies=[99], subtasks=[task(1, dependencies=[98])]), task(1, status="done")]
    assert len(read({"tasks": [*listed, task(2, dependencies=[1])]}).tasks) == 4
