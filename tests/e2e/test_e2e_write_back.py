"""`run --write-back`: tasks that land are marked in their list, by the real command."""

import json

import pytest

from scaffold.plan.story.step_type import STEP_TYPES
from support.crash_points import CrashPoint
from support.scenario import write

DONE = "done\n\nSUMMARY\nlooked\nat\nit"
SPEC_KIT = "# Tasks\r\n\r\n- [ ] T001 [P] one\r\n- [ ] T002 [P] two\r\n- [ ] T003 three\r\n"
KIRO = "# Plan\n\n- [ ] 1. all\n  - [-] 1.1 one\n    - _Requirements: 1.1_\n  - [ ] 1.2 two\n- [ ] 2. three\n"
TASK_MASTER = """{
  "master": {"tasks": [
    {"id": 1, "title": "all", "status": "pending", "x": "é", "subtasks": [
      {"id": 1, "title": "one", "status": "in-progress"}, {"id": 2, "title": "two", "status": "pending"}]},
    {"id": 2, "title": "three", "status": "pending", "dependencies": [1]}
  ], "metadata": {"version": 1.0}}
}"""
BEADS = "".join(
    json.dumps({"id": f"bd-{name}", "title": name, "issue_type": "task", "status": "open", "deps": None}) + "\n"
    for name in ("one", "two", "three")
)
PRD = """{"project": "é", "userStories": [
  {"id": "US-001", "title": "one", "passes": false, "custom": [1,2]},
  {"id": "US-002", "title": "three", "dependsOn": ["US-001"]}
]}
"""
LISTS = {
    "spec-kit": ("specs/a b/tasks.md", SPEC_KIT, ("T001", "T002"), "T003", SPEC_KIT.replace("[ ]", "[x]", 2)),
    "kiro": (".kiro/specs/x/tasks.md", KIRO, ("1.1", "1.2"), "2",
             KIRO.replace("[ ]", "[x]", 2).replace("[-]", "[x]")),
    "task-master": (".taskmaster/tasks/tasks.json", TASK_MASTER, ("1.1", "1.2"), "2",
                    TASK_MASTER.replace('"in-progress"', '"done"').replace('"pending"', '"done"', 2)),
    "beads": (".beads/issues.jsonl", BEADS, ("bd-one", "bd-two"), "bd-three", BEADS.replace('"open"', '"closed"', 2)),
    "prd": ("prd.json", PRD, ("US-001",), "US-002", PRD.replace("false", "true")),
}  # fmt: skip
"""By format: a file, its text, the tasks that land, the one that fails, and the text afterwards."""


def place(scenario, path, text):
    file = scenario.repo / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def on_branch(scenario, path, shown):
    return scenario.git("cat-file", "blob", f"{shown['run']['session_branch']}:{path}")


def reply(scenario, *keys):
    """Have an agent make a file for each of the keys, and none for any other; steps of stories say that they end."""
    calls = [
        {"when": {"action": key + ("/step-005" if key.startswith("US-") else ""), "turn": 1},
         "tool_calls": [write(f"{key}.txt", "x\n")]}
        for key in keys
    ]  # fmt: skip
    stories = [{"when": {"role": each}, "text": DONE} for each in STEP_TYPES]
    scenario.replies(*calls, *stories, {"when": {"role": "implementation"}, "text": "done"})


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_tasks_that_land_are_marked_in_the_list_of_their_tool(scenario, name):
    """DR-1: what they are a part of follows, one that fails stays open, and no other byte changes."""
    path, text, keys, failing, after = LISTS[name]
    file = place(scenario, path, text)
    scenario.commit("a list")
    reply(scenario, *keys)
    flags = ("--spec", path, "--write-back", "--yes", "--agents", "2")
    done = scenario.call(scenario.request_command(*flags), code=1)
    assert f"tasks that land are marked as done in {path}" in done.stderr
    shown = scenario.status()
    states = {each["key"]: each["status"] for each in shown["actions"]}
    assert ({states[key] for key in keys}, states[failing]) == ({"completed"}, "failed")
    raw = scenario.git("show", "--format=", "--name-only", shown["run"]["session_branch"])
    assert path in raw.splitlines(), "it is marked in the commit that lands it"
    assert on_branch(scenario, path, shown).encode() == after.replace("\r\n", "\n").encode()
    scenario.git("switch", "-q", shown["run"]["session_branch"])
    assert file.read_bytes() == after.encode()
    assert path not in scenario.scaffold("diff", keys[0]).stdout
    reviewed = json.loads(scenario.scaffold("review", "--json").stdout)
    assert sorted(each["path"] for each in reviewed["files"]) == sorted(f"{key}.txt" for key in keys)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["ignored", "outside"])
def test_a_list_that_is_not_the_repositorys_stays_and_a_copy_is_marked(scenario, where):
    """DR-1: the copy is that of the run, of the list as it is now."""
    file = scenario.home / "tasks.md" if where == "outside" else place(scenario, "my/tasks.md", SPEC_KIT)
    file.write_bytes(SPEC_KIT.encode())
    (scenario.repo / ".git" / "info" / "exclude").write_text("my\n")
    reply(scenario, "T001", "T002", "T003")
    done = scenario.call(scenario.request_command("--spec", str(file), "--write-back", "--yes"), code=0)
    run = scenario.status()["run"]["id"]
    assert f"tasks that are done are marked in .scaffold/marked/{run}/tasks.md" in done.stderr
    assert (scenario.repo / ".scaffold/marked" / run / "tasks.md").read_bytes().decode() == SPEC_KIT.replace(
        "[ ]", "[x]"
    )
    assert file.read_bytes() == SPEC_KIT.encode()


@pytest.mark.slow
@pytest.mark.parametrize("number", [26, 30])
def test_a_kill_while_work_lands_changes_no_mark(scenario, number):
    """BX-15, BX-2, DR-1: a sample of the points, around the landing; each task lands and is marked once."""
    file = place(scenario, "tasks.md", SPEC_KIT)
    scenario.commit("a list")
    reply(scenario, "T001", "T002", "T003")
    command = scenario.request_command("--spec", "tasks.md", "--write-back", "--yes")
    with CrashPoint(scenario, number, CRASH_DISTINCT="before").armed():
        killed = scenario.call(command)
    if scenario.status()["run"]["status"] != "completed":
        again = scenario.call(command)
        assert again.returncode == 0, killed.stdout + again.stdout + again.stderr
    branch = scenario.status()["run"]["session_branch"]
    assert sorted(scenario.git("log", "--format=%s", f"main..{branch}").split()) == ["one", "three", "two"]
    scenario.git("switch", "-q", branch)
    assert file.read_bytes() == SPEC_KIT.replace("[ ]", "[x]").encode()


@pytest.mark.slow
def test_what_has_no_marks_cannot_be_written_back(scenario):
    """DR-1: said before anything happens."""
    scenario.cassette(a=["x"])
    done = scenario.call([*scenario.request_command("a task"), "--write-back", "--yes"])
    assert (done.returncode, "needs a list of tasks" in done.stderr) == (64, True), done.stderr
    assert scenario.status()["run"] is None
