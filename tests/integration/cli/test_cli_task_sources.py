"""Lists of tasks in the formats of other tools, given to `plan check` and `plan --spec`; no model is asked."""

import json
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

KIRO = "- [ ] 1. Pay\n  - _Requirements: 1.1, 9.9_\n- [ ]* 2. Tests\n- [x] 3. Done\n"
REQUIREMENTS = "### Requirement 1\n\n1. WHEN one pays THEN it SHALL ring\n"
ISSUE = {"id": "bd-1", "title": "a", "issue_type": "task"}


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def written(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return written


LISTS = (
    ("a.json", {"tasks": [{"id": 1, "title": "a"}]}),
    ("b.json", {"userStories": [{"id": 1, "title": "a", "passes": True}]}),
    ("a.jsonl", ISSUE | {"status": "pinned"}),
    ("a.md", "\ufeff- [ ] T001 a\r\n"),
    ("PROMPT.md", "Go on."),
    ("b.md", KIRO),
)


def test_a_list_of_tasks_is_checked_like_a_plan(file, scaffold):
    """BX-7: the output says what the file was taken for."""
    taken = {}
    for name, content in LISTS:
        file(name, content if isinstance(content, str) else json.dumps(content))
        answer = scaffold("plan", "check", name)
        as_json = scaffold("plan", "check", name, "--json")
        assert (answer.code, as_json.json["valid"]) == (0, True)
        (taken[name],) = re.findall(rf"{name} was taken for (.*)", answer.out)
        assert taken[name] in as_json.err
    assert taken == snapshot(
        {
            "a.json": "a task list of task-master: 1 task to do, 0 done",
            "b.json": "product requirements (prd.json): 0 tasks to do, 1 done",
            "a.jsonl": "an export of beads: 0 tasks to do, 0 done, 1 left out",
            "a.md": "a task list of spec-kit: 1 task to do, 0 done",
            "PROMPT.md": "a prompt for at most 50 rounds; one that changes nothing is the last",
            "b.md": "a numbered task list, as of Kiro: 1 task to do, 1 done, 1 left out",
        }
    )


PROBLEMS = (
    ("a.json", '{"tasks": [\n  {"id": 1, "title": "a", "dependencies": [2]}]}', "2:3: error[unknown-dependency]"),
    ("a.json", '{"stories": [\n', "2:1: error[syntax]"),
    ("a.jsonl", f"{json.dumps(ISSUE)}\n{json.dumps(ISSUE)}\n", "2:1: error[duplicate-key]"),
    ("a.md", "- [ ] 1. a\n  - _Depends: 2_\n- [ ] 2. b\n  - _Depends: 1_\n", "1:1: error[cycle]"),
    ("a.md", "# A\n", "1:1: error[unknown-format]"),
    ("a.md", "\n- [ ] T001 a\0b\n", "2:1: error[bad-value] the title `a\\x00b`"),
    ("a.md", f"- [ ] T001 a\n  - {'x' * 20_000}\n", "1:1: error[bad-value] the description"),
    ("a.md", "".join(f"- [ ] T{n:04} a\n" for n in range(1001)), "1:1: error[bad-value] 1,001 tasks"),
    ("PROMPT.md", "\n", "1:1: error[bad-value]"),
    ("a.jsonl", "", "1:1: error[bad-value]"),
    ("a.md", b"- [ ] T001 a \xff", "1:14: error[syntax]"),
)


def test_problems_have_their_line_and_column(file, scaffold):
    """OR-6."""
    wrong = {}
    for name, content, finding in PROBLEMS:
        answer = scaffold("plan", "check", file(name, content))
        if answer.code != 4 or f"{name}:{finding}" not in answer.out:
            wrong[name, finding] = answer
    assert wrong == {}


def test_a_folder_is_planned_with_what_lies_beside_its_tasks(file, scaffold):
    """AL-3: criteria of requirements.md are kept, and the plan needs no model."""
    file(".kiro/specs/shop/tasks.md", KIRO)
    file(".kiro/specs/shop/requirements.md", REQUIREMENTS)
    answer = scaffold("plan", "--spec", ".kiro/specs/shop", "-o", "plan.json")
    assert answer.code == 0, answer.err
    assert ".kiro/specs/shop/tasks.md:1:1: warning[unknown-requirement]" in answer.err
    assert "left out: 2 is optional" in answer.err
    (goal,) = json.loads(Path("plan.json").read_bytes())["goals"]
    (action,) = goal["actions"]
    assert (goal["name"], action["key"]) == ("shop", "1")
    assert (action["title"], action["acceptance"]) == ("Pay", ["WHEN one pays THEN it SHALL ring"])
    assert action["notes"] == "Read first: .kiro/specs/shop/requirements.md"


def test_what_a_link_beside_the_tasks_leads_to_is_not_read(file, scaffold):
    """BX-9: nobody has typed these names; a received repository may lead them to the user's own files."""
    file(".kiro/specs/shop/tasks.md", KIRO)
    file("own.md", REQUIREMENTS)
    Path(".kiro/specs/shop/requirements.md").symlink_to("../../../own.md")
    Path("specs").mkdir()
    Path("specs/tasks.md").symlink_to("../.kiro/specs/shop/tasks.md")
    assert scaffold("plan", "--spec", ".kiro/specs/shop", "-o", "plan.json").code == 0
    assert "SHALL ring" not in Path("plan.json").read_text()
    assert "without a tasks.md" in scaffold("plan", "--spec", "specs").err


def test_a_folder_without_tasks_is_refused(file, scaffold):
    """OR-6: before anything is spent."""
    file("specs/one/tasks.md", "# Tasks\n\n- [ ] something\n")
    file("specs/two/spec.md", "# Two\n")
    refused = [scaffold("plan", *words) for words in (["--spec", "specs/one"], ["--spec", "specs/two"], ["specs/one"])]
    assert [answer.err.splitlines()[0] for answer in refused] == snapshot(
        [
            "error: specs/one/tasks.md is no list of tasks in a known format",
            "error: specs/two cannot be read: it is a folder without a tasks.md",
            "error: the task `specs/one` is the name of a folder with a list of tasks",
        ]
    )


def test_a_cycle_is_refused_before_a_plan_is_written(file, scaffold):
    """SC-22, OR-6."""
    file("a.md", "- [ ] 1. a\n  - _Depends: 2_\n- [ ] 2. b\n  - _Depends: 1_\n")
    answer = scaffold("plan", "--spec", "a.md")
    assert (answer.code, answer.out, "1 -> 2 -> 1" in answer.err) == (4, "", True)


def test_a_plan_is_not_made_of_what_is_done_or_too_large(file, scaffold):
    answer = scaffold("plan", "--spec", file("tasks.md", "- [x] T001 a\n"))
    assert (answer.code, answer.out) == (0, "")
    assert "tasks.md: " in answer.err
    answer = scaffold("plan", "--spec", file("a.md", b" " * 16_000_001))
    assert (answer.code, "has 16,000,001 bytes" in answer.err) == (64, True)
