"""`run --prd`: stories in steps, by the real command, on a cassette."""

import json

import pytest
from inline_snapshot import snapshot

from scaffold.plan.story.step_type import STEP_TYPES

PRD = {
    "project": "Lists",
    "userStories": [
        {"id": "US-001", "title": "Add two", "acceptanceCriteria": ["list has two"], "priority": 1, "passes": False},
        {"id": "US-002", "title": "Add three", "priority": 2, "depends_on": ["US-001"], "custom": {"kept": True}},
        {"id": "US-003", "title": "Done before", "priority": 0, "passes": True},
    ],
}
DONE = "done\n\nSUMMARY\nlooked\nat\nit"
EDITS = [
    {
        "operation": "add_after",
        "target_step_id": "step-005",
        "new_steps": [{"type": "coding", "description": "Fix it"}],
        "reason": "a cycle of its own",
    }
]


def prd(scenario, given):
    path = scenario.home / "prd.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given))
    return "--prd", str(path)


@pytest.mark.slow
def test_stories_are_worked_in_steps_and_land_one_after_another(scenario):
    """DR-1, DR-2, DR-6, DR-8, DR-11, DR-13, SC-22: ten steps each, edited by an agent; the user's files stay."""
    asked = f"echo '{json.dumps(EDITS)}' > $SCAFFOLD_SHARED_DIR/workflow_edits/US-002.json"
    replies = [
        {"when": {"action": key, "turn": 1}, "tool_calls": [{"name": "shell", "args": {"command": command}}]}
        for key, command in (
            ("US-001/step-005", "echo two >> list"),
            ("US-002/step-002", asked),
            ("US-002/step-011", "echo three >> list"),
        )
    ]
    skip = [{"operation": "skip", "target_step_id": each, "reason": "no need"} for each in ("step-010", "step-009")]
    tool = [{"tool_calls": [{"name": "edit_workflow", "args": {"operations": [each]}}]} for each in skip]
    replies += [{"when": {"action": "US-001/step-003", "turn": turn}, **call} for turn, call in enumerate(tool, 1)]
    said = f"CRITERION 1: met - `list:1`\n\n{DONE}"
    scenario.replies(*replies, *[{"when": {"role": each}, "text": said} for each in STEP_TYPES])
    scenario.call([*scenario.request_command(*prd(scenario, PRD)), "--yes", "--agents", "2"], code=0)
    shown = scenario.status()
    branch = shown["run"]["session_branch"]
    subjects = scenario.git("log", "--format=%s", f"main..{branch}").splitlines()
    assert subjects == ["feat(ralph): US-002 - Add three", "feat(ralph): US-001 - Add two"]
    assert scenario.git("show", f"{branch}:list").splitlines()[-2:] == ["two", "three"]
    stories = [each for each in shown["actions"] if each["kind"] == "compound"]
    assert [(each["key"], each["method"], each["status"]) for each in stories] == [
        ("US-001", "story", "completed"),
        ("US-002", "story", "completed"),
    ]
    state = json.loads((scenario.repo / ".scaffold" / "workflow_state.json").read_text())
    steps = [each["id"] for each in state["stories"]["US-002"]["steps"]]
    assert steps[4:7] == ["step-005", "step-011", "step-006"]
    assert state["stories"]["US-002"]["steps"][4]["log_file"] == "logs/US-002/step-005.jsonl"
    assert {each["id"]: each["status"] for each in state["stories"]["US-001"]["steps"]}["step-009"] == "skipped"
    refused = [
        json.loads(line) for line in (scenario.repo / ".scaffold/logs/US-001/step-003.jsonl").read_text().splitlines()
    ]
    assert any("which cannot be skipped" in json.dumps(each) for each in refused), "the tool says so at once"
    assert scenario.git("status", "--porcelain") == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"userStories": []}, "is empty"),
        ({"userStories": [{"id": "a", "title": "A", "depends_on": ["b"]}]}, "which is not a task of the list"),
        ({"stories": [{"id": k, "title": k, "depends_on": [n]} for k, n in (("a", "b"), ("b", "a"))]}, "a -> b -> a"),
        ({"userStories": [{"id": "a", "title": "A"}, {"id": "a", "title": "B"}]}, "more than one"),
        ({"userStories": [{"id": "../a", "title": "A"}]}, "prd.json:1:"),
        ("{", "prd.json:1:"),
    ],
    ids=["empty", "unknown", "cycle", "duplicate", "hostile", "syntax"],
)
def test_an_unworkable_prd_is_refused_before_anything_happens(scenario, given, said):
    """DR-1: with line and column, before a request is made."""
    scenario.cassette(a=["x"])
    done = scenario.call([*scenario.request_command(*prd(scenario, given)), "--yes"])
    assert (done.returncode, said in done.stderr) == (4, True), done.stderr
    assert scenario.status()["run"] is None


@pytest.mark.slow
def test_a_story_stands_for_the_step_that_lands_it(scenario):
    """DR-8: `diff`, `logs`, `review`, `revert` and `land --only` take a story by its id."""
    story = {"id": "US-001", "title": "Add two"}
    code = {"name": "shell", "args": {"command": "echo two >> list"}}
    scenario.replies(
        {"when": {"action": "US-001/step-005", "turn": 1}, "tool_calls": [code]},
        *({"when": {"role": each}, "text": DONE} for each in STEP_TYPES),
    )
    done = scenario.call([*scenario.request_command(*prd(scenario, {"userStories": [story]})), "--yes"])
    assert (done.returncode, done.stdout.splitlines()[-1]) == snapshot(
        (0, "landed 1 actions, 1 facts with evidence")
    ), done.stderr
    assert "1 fact weak:" in map(str.strip, done.stdout.splitlines()), "steps are no facts about the branch"
    assert "+two" in scenario.scaffold("diff", "US-001").stdout
    assert "US-001/step-007" in scenario.scaffold("logs", "US-001").stdout
    assert "shown by" not in scenario.scaffold("tasks").stdout.partition("step-002")[2].partition("step-003")[0]
    scenario.scaffold("revert", "US-001", code=0)
    branch = scenario.status()["run"]["session_branch"]
    assert "list" not in scenario.git("ls-tree", "--name-only", branch).splitlines()
    scenario.scaffold("resume", code=0)
    assert "two" in scenario.git("show", f"{branch}:list")
    scenario.scaffold("land", "--only", "US-001", code=0)
    assert "two" in (scenario.repo / "list").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("final", "code"),
    [("CRITERION 1: met - `list:1`\nCRITERION 2: met - `list:7`", 1), ("fine", 1), ("CRITERION 2: met - `list:2`", 0)],
    ids=["no such line", "no line", "the other one"],
)
def test_a_criterion_for_which_nobody_cites_a_line_fails_its_story(scenario, final, code):
    """DR-2: uncited is unmet; each review is asked once more, then the story fails. An earlier citation counts."""
    story = {"id": "US-001", "title": "Add two", "acceptanceCriteria": ["list has two", "list has three"]}
    code_turn = {"name": "shell", "args": {"command": "printf 'two\\nthree\\n' > list"}}
    half = "CRITERION 1: met - `list:1`\nCRITERION 2: met - `list:7`\n\nSUMMARY\nseen"
    scenario.replies(
        {"when": {"action": "US-001/step-005", "turn": 1}, "tool_calls": [code_turn]},
        {"when": {"role": "review", "turn": 1}, "text": "fine\n\nSUMMARY\nfine"},
        {"when": {"role": "final_review"}, "text": f"{final}\n\nSUMMARY\nseen"},
        *({"when": {"role": each}, "text": half} for each in STEP_TYPES),
    )
    scenario.call([*scenario.request_command(*prd(scenario, {"userStories": [story]})), "--yes"], code=code)
    logs = scenario.repo / ".scaffold" / "logs" / "US-001"
    asked = (logs / "step-008.jsonl").read_text()
    assert asked.count("the review has no line `CRITERION 2: ...`") == 1, "a review is asked once"
    shown = scenario.status()
    (attempt,) = next(each for each in shown["actions"] if each["key"] == "US-001/step-010")["attempts"]
    assert (attempt["outcome"] == "landed", attempt["iteration"]) == ((True, 1) if code == 0 else (False, 2))
    if code:
        assert "These acceptance criteria are not met:\n- 2. list has three: the review" in attempt["error"]
        assert scenario.git("log", "--format=%s", f"main..{shown['run']['session_branch']}") == ""


@pytest.mark.slow
def test_a_criterion_that_its_final_review_calls_unmet_fails_the_story(scenario):
    """DR-2, DR-9: within the iterations of its tier; what the story made is pinned, and nothing of it lands."""
    story = {"id": "US-001", "title": "Add two", "acceptanceCriteria": ["list has two"]}
    code = {"name": "shell", "args": {"command": "echo two > list"}}
    scenario.replies(
        {"when": {"action": "US-001/step-005", "turn": 1}, "tool_calls": [code]},
        {"when": {"role": "final_review"}, "text": "CRITERION 1: unmet - it has one\n\nSUMMARY\nno"},
        *({"when": {"role": each}, "text": "done\n\nSUMMARY\nx"} for each in STEP_TYPES),
    )
    scenario.call([*scenario.request_command(*prd(scenario, {"userStories": [story]})), "--yes"], code=1)
    shown = scenario.status()
    final = next(each for each in shown["actions"] if each["key"] == "US-001/step-010")
    assert "the review says that it is unmet: it has one" in final["attempts"][-1]["error"]
    assert scenario.git("log", "--format=%s", f"main..{shown['run']['session_branch']}") == ""


@pytest.mark.slow
def test_one_request_is_worked_as_a_story_without_a_prd(scenario):
    """DR-14: by the same steps, with its first line as the title; it needs no planner and no file."""
    code = {"name": "shell", "args": {"command": "echo two >> list"}}
    scenario.replies(
        {"when": {"action": "US-001/step-005", "turn": 1}, "tool_calls": [code]},
        *({"when": {"role": each}, "text": "done\n\nSUMMARY\nx"} for each in STEP_TYPES),
    )
    scenario.call([*scenario.request_command("--one-shot", "Add two\n\nTo the numbers.", "--yes")], code=0)
    shown = scenario.status()
    assert (shown["run"]["request"], shown["run"]["tier"]) == ("Add two\n\nTo the numbers.", "builder")
    assert [each["name"] for each in shown["goals"]] == ["one-shot"]
    subjects = scenario.git("log", "--format=%s", f"main..{shown['run']['session_branch']}").splitlines()
    assert subjects == ["feat(ralph): US-001 - Add two"]
    assert "To the numbers." in (scenario.repo / ".scaffold/logs/US-001/step-001.jsonl").read_text()
    assert not (scenario.repo / ".scaffold" / "workflow_state.json").exists(), "that is the state of a PRD"
    assert scenario.git("status", "--porcelain") == ""


@pytest.mark.slow
def test_one_request_as_a_story_can_be_had_as_a_plan(scenario):
    """DR-14: `plan --one-shot` prints the ten steps without a request to a model; with a PRD it is refused."""
    made = scenario.scaffold("plan", "--one-shot", "Add two to the list")
    assert (made.returncode, made.stdout.count("workspace: parent")) == (0, 10), made.stderr
    scenario.call(scenario.request_command(*prd(scenario, PRD), "--one-shot", "--yes"), code=64)
