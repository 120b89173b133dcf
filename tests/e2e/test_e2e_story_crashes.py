"""Stories, and a kill at any point: the run that goes on has the same result, with one commit for each story."""

import json

import pytest

from e2e.test_e2e_crash_points import crashed_at
from support.crash_points import SAMPLE, try_every_point
from support.prd_scenario import (
    command,
    done_steps,
    edit_file,
    prd_file,
    restart,
    skip,
    story,
    until_landed,
    without_markers,
)
from support.scenario import Scenario

AGAIN = restart("step-005")
UNNEEDED = skip("step-003", "step-004", "step-008", "step-009")
"""So that a run takes seconds."""


def two_stories(folder):
    """Return a repository whose stories conflict; one of them begins its coding again."""
    folder.mkdir(exist_ok=True)
    scenario = Scenario(folder)
    (scenario.repo / "list").write_text("zero\n")
    scenario.commit("a list")
    again = command(1, 5, "echo one >> list")
    again["when"]["contains"] = AGAIN["new_description"]  # not by the attempt: a kill makes another one
    scenario.replies(
        *done_steps(
            command(1, 2, edit_file(1, *UNNEEDED)),
            again,
            command(1, 5, f"echo bad >> list; {edit_file(1, AGAIN)}"),
            command(2, 2, edit_file(2, *UNNEEDED)),
            command(2, 5, f"echo two >> list; {until_landed(1)}"),
            command(2, 11, without_markers("list")),
        )
    )
    return scenario


def expect_two_stories(scenario):
    """Check that both stories landed once, in whatever order, and that nothing is left, twice or lost."""
    shown = scenario.status()
    branch = shown["run"]["session_branch"]
    assert shown["run"]["status"] == "completed"
    assert {each["status"] for each in shown["actions"]} <= {"completed", "skipped"}
    subjects = scenario.git("log", "--format=%s", f"main..{branch}").splitlines()
    assert sorted(subjects) == ["feat(ralph): US-001 - Add 1", "feat(ralph): US-002 - Add 2"]
    assert sorted(scenario.git("show", f"{branch}:list").split()) == ["one", "two", "zero"]
    state = json.loads((scenario.repo / ".scaffold/workflow_state.json").read_text())["stories"]
    for story_id, each in state.items():
        assert each["status"] == "completed"
        assert [step["id"] for step in each["steps"]][-1] == "step-010", "the final review is the last one"
        edits = [entry["details"]["operation"] for entry in each["history"] if entry["action"] == "workflow_edit"]
        assert edits.count("skip") == len(UNNEEDED), "applied once"
        assert edits.count("restart") == (story_id == "US-001")
        assert len(each["steps"]) == 10 + edits.count("add_after")
    log = (scenario.repo / ".scaffold/logs/orchestrator.jsonl").read_text().splitlines()
    assert len(log) == sum(len(each["history"]) for each in state.values()), "each entry is logged once"
    assert scenario.stored("PRAGMA integrity_check") == [("ok",)]
    assert scenario.stored("SELECT id FROM attempt WHERE status <> 'ended'") == []
    scenario.git("fsck", "--connectivity-only")
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    assert scenario.git("status", "--porcelain") == ""
    assert scenario.processes() == []


def killed_at(scenario, number, **harness):
    """Work the two stories with a kill at the point, go on without, check the result, and return the points passed."""
    given = prd_file(scenario, {"userStories": [story(1), story(2)]})
    argv = scenario.request_command(*given, "--yes", "--agents", "2")
    _, places = crashed_at(scenario, number, argv, **harness)
    expect_two_stories(scenario)
    return places


@pytest.mark.slow
@pytest.mark.parametrize("number", [250, 510])
def test_a_kill_in_a_later_step_does_not_change_the_result(tmp_path, number):
    """DR-12, BX-15: where a story has been edited, and where it conflicts."""
    assert len(killed_at(two_stories(tmp_path), number)) >= number, "the point was never passed"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", SAMPLE)
def test_a_kill_at_any_point_of_two_stories_does_not_change_their_result(tmp_path, share):
    """DR-6, DR-11, DR-12, DR-15, BX-15: an edit file, a restart and a conflict among them."""

    try_every_point(
        share, lambda number: killed_at(two_stories(tmp_path / str(number)), number, CRASH_DISTINCT="after")
    )
