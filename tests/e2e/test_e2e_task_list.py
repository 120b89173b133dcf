"""`run --tasks`: a list of tasks with their dependencies, by the real command."""

import json

import pytest

from support.scenario import write

SPEC_KIT = """# Tasks

## Phase 1: Setup

- [x] T001 Make a.txt
- [ ] T002 [P] Make b.txt
- [ ] T003 [P] Make c.txt

## Phase 2: Story

**Independent Test**: Look at it

- [ ] T004 [US1] Make d.txt
"""


def tasks(scenario, text):
    path = scenario.home / "todo.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return "--tasks", str(path)


@pytest.mark.slow
def test_a_list_of_tasks_is_a_goal_whose_tasks_wait_for_each_other(scenario):
    """SC-22, OR-2: by index from 0, or by key; nothing is planned."""
    listed = [
        {"description": "make a", "key": "first", "contract": {"commands": [{"command": "test -f a.txt"}]}},
        {
            "description": "make b",
            "depends_on": [0],
            "contract": {"commands": [{"command": "test -f a.txt -a -f b.txt"}]},
        },
        {"description": "make c", "depends_on": ["first", 1], "contract": {"commands": [{"command": "test -f c.txt"}]}},
    ]
    keys = ("first", "todo-task-2", "todo-task-3")
    scenario.cassette(**{key: [write(f"{name}.txt", "x\n")] for key, name in zip(keys, "abc", strict=True)})
    scenario.call([*scenario.request_command(*tasks(scenario, listed)), "--yes"], code=0)
    shown = scenario.status()
    assert [goal["name"] for goal in shown["goals"]] == ["todo"]
    assert [(each["key"], each["status"]) for each in shown["actions"]] == [(key, "completed") for key in keys]
    landed = scenario.git("log", "--format=%s", f"main..{shown['run']['session_branch']}").splitlines()
    assert landed == ["make c", "make b", "make a"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            [{"description": "a", "depends_on": [1]}, {"description": "b", "depends_on": [0]}],
            "tasks wait for each other",
        ),
        ([{"description": "a", "depends_on": [7]}], "tasks[0]"),
        ([{"depends_on": []}], "tasks[0]: the key `description` is missing"),
        ("[{", "todo.json:1:3: invalid JSON"),
        ("[" * 100_000, "is nested too deeply"),
        ([], "the list of tasks is empty"),
    ],
    ids=["cycle", "index", "description", "json", "nesting", "empty"],
)
def test_an_unworkable_list_is_refused_before_anything_happens(scenario, text, said):
    """SC-22, OR-6."""
    scenario.cassette(a=["x"])
    done = scenario.call([*scenario.request_command(*tasks(scenario, text)), "--yes"])
    assert (done.returncode, said in done.stderr) == (4, True), done.stderr
    assert scenario.status()["run"] is None


@pytest.mark.slow
def test_a_specification_that_is_a_list_of_tasks_is_executed_without_a_planner(scenario):
    """SC-22, AL-3: what is done is not done again, and the file is not changed."""
    folder = scenario.repo / "specs" / "001-shop"
    folder.mkdir(parents=True)
    (folder / "tasks.md").write_text(SPEC_KIT)
    (folder / "spec.md").write_text("# Shop\n")
    scenario.cassette(
        **{f"T00{number}": [write(f"{name}.txt", "x\n")] for number, name in ((2, "b"), (3, "c"), (4, "d"))}
    )
    done = scenario.call([*scenario.request_command("--spec", "specs/001-shop"), "--yes"], code=0)
    assert "taken for a task list of spec-kit: 3 tasks to do, 1 done" in done.stderr
    shown = scenario.status()
    assert [goal["name"] for goal in shown["goals"]] == ["001-shop"]
    assert [(each["key"], each["status"]) for each in shown["actions"]] == [
        (key, "completed") for key in ("T002", "T003", "T004")
    ]
    last = shown["actions"][-1]
    assert set(last["preconditions"]) == {"done:T002", "done:T003"}
    assert (last["title"], last["verification_intent"]) == ("Make d.txt", "Look at it")
    assert "Read first: specs/001-shop/spec.md" in last["notes"]
    assert (folder / "tasks.md").read_text() == SPEC_KIT


@pytest.mark.slow
def test_a_list_of_tasks_that_are_all_done_starts_nothing(scenario):
    """SC-22."""
    scenario.cassette(a=["x"])
    done = scenario.call(
        [
            *scenario.request_command(*tasks(scenario, '{"tasks": [{"id": 1, "title": "a", "status": "done"}]}')),
            "--yes",
            "--json",
        ]
    )
    assert (done.returncode, json.loads(done.stdout)) == (0, {"type": "result", "run": None})
    assert "nothing is left to do" in done.stderr
    assert scenario.status()["run"] is None
