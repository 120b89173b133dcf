"""Five stories with everything that may happen to one, by the real command, on a cassette."""

import json

import pytest

from support.prd_scenario import (
    command,
    done_steps,
    edit_call,
    edit_file,
    fix_cycle,
    prd_file,
    refused_request,
    restart,
    story,
    until_landed,
    without_markers,
)

PRD = {"project": "Lists", "userStories": [story(1), story(2), story(3, 1), story(4, 2, 3), story(5, priority=9)]}


def expect_result(scenario):
    """Check that each story landed once, with the work of its steps, and that nothing is left to do."""
    shown = scenario.status()
    assert shown["run"]["status"] == "completed"
    branch = shown["run"]["session_branch"]
    subjects = scenario.git("log", "--reverse", "--format=%s", f"main..{branch}").splitlines()
    assert sorted(subjects) == [f"feat(ralph): US-00{number} - Add {number}" for number in range(1, 6)]
    assert [each for each in subjects if each[-1] in "124"][-1].endswith("Add 4"), "after what it depends on"
    files = {path: scenario.git("show", f"{branch}:{path}").split() for path in ("list", "three", "four", "five")}
    assert sorted(files.pop("list")) == ["one", "two", "zero"]
    assert files == {"three": ["good"], "four": ["whole"], "five": ["five"]}
    assert len(scenario.git("for-each-ref", "refs/scaffold").splitlines()) == 1, "what was discarded by the restart"
    assert scenario.git("status", "--porcelain") == ""


def expect_logged(scenario, stories):
    """Check that the orchestrator's log has the history of each story, each entry once, over both commands."""
    logged = [
        json.loads(line) for line in (scenario.repo / ".scaffold/logs/orchestrator.jsonl").read_text().splitlines()
    ]
    for story_id, each in stories.items():
        said = [(line["ts"], line["step_id"], line["event"]) for line in logged if line["story_id"] == story_id]
        known = [(entry["timestamp"], entry["step_id"], entry["action"]) for entry in each["history"]]
        assert sorted(map(str, said)) == sorted({*map(str, said)}), "an entry is there twice"
        assert {*known} <= {*said}
        assert {line["agent_id"] for line in logged if line["story_id"] == story_id} == {each["agent_id"]}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_five_stories_with_a_conflict_a_restart_a_fix_cycle_a_failure_and_a_retry(scenario):
    """DR-1, DR-4, DR-5, DR-9, DR-10, DR-11, DR-13, DR-15, DR-17: all of them land in the end, each as one commit."""
    (scenario.repo / "list").write_text("zero\n")
    scenario.commit("a list")
    scenario.replies(
        *done_steps(
            command(1, 5, "echo one >> list"),
            command(2, 5, f"echo two >> list; {until_landed(1)}"),
            command(2, 11, without_markers("list")),
            command(3, 5, f"echo bad > three; {edit_file(3, restart('step-005'))}", attempt=1),
            command(3, 5, "echo good > three", attempt=2),
            command(4, 5, "echo half > four"),
            edit_call(4, 7, fix_cycle("step-007")),
            command(4, 11, "echo whole > four"),
            refused_request(5, 5, attempt=1),
            command(5, 5, "echo five > five", attempt=2),
        )
    )
    scenario.call([*scenario.request_command(*prd_file(scenario, PRD)), "--yes", "--agents", "2"], code=1)
    stories = {each["key"]: each["status"] for each in scenario.status()["actions"] if each["kind"] == "compound"}
    assert stories.pop("US-005") == "failed"
    assert {*stories.values()} == {"completed"}, "the others go on"
    scenario.scaffold("retry", "US-005/step-005", code=0)
    scenario.scaffold("resume", code=0)
    expect_result(scenario)
    state = json.loads((scenario.repo / ".scaffold/workflow_state.json").read_text())["stories"]
    assert {each["status"] for each in state.values()} == {"completed"}
    types = {key: [step["type"] for step in each["steps"]] for key, each in state.items()}
    assert types["US-002"][-2:] == ["rebase_resolve", "final_review"]
    assert types["US-004"][6:10] == ["initial_testing", "coding", "linting", "initial_testing"]
    restarts = {key: sum(step["restart_count"] for step in each["steps"]) for key, each in state.items()}
    assert restarts == {"US-001": 0, "US-002": 0, "US-003": 1, "US-004": 0, "US-005": 0}
    expect_logged(scenario, state)


@pytest.mark.slow
def test_a_fourth_restart_means_the_same_by_the_tool_as_by_a_file(scenario):
    """DR-4, DR-6, DR-9: it is refused at once, and counts at the end of the step: step and story fail."""
    asked = edit_call(1, 3, restart("step-003"))
    by_file = command(2, 3, edit_file(2, restart("step-003")))
    scenario.replies(*done_steps(asked, by_file))
    given = prd_file(scenario, {"userStories": [story(1), story(2)]})
    scenario.call([*scenario.request_command(*given), "--yes", "--agents", "2"], code=1)
    state = json.loads((scenario.repo / ".scaffold/workflow_state.json").read_text())["stories"]
    ended = [(each["status"], each["steps"][2]["status"], each["steps"][2]["restart_count"]) for each in state.values()]
    assert ended == [("failed", "failed", 3)] * 2
    assert len({each["steps"][2]["error"] for each in state.values()}) == 1
    journal = (scenario.repo / ".scaffold/logs/US-001/step-003.jsonl").read_text()
    assert "was restarted 3 times already" in journal
    left = {path.name for path in (scenario.repo / ".scaffold/failures").iterdir()}
    assert left == {"US-001-step-003.diff", "US-002-step-003.diff"}, "also of a step that changed nothing"
