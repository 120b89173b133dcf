"""The orchestrator's log: each entry of the stories' histories is there once, whoever was killed when."""

import json

import pytest

from scaffold.host.contained_path import ContainedPath
from scaffold.orchestrator.owner.run_files import StoryLog
from support.stories import apply, complete, new, op, working_on


def edited():
    """Return a story with two operations of one edit: equal lines."""
    two = [
        op("add_after", "step-005", new_steps=[new("coding")]),
        op("add_after", "step-006", new_steps=[new("review")]),
    ]
    return apply(working_on("step-002"), "step-002", *two).story


def lines(folder):
    return [json.loads(line) for line in (folder / "logs" / "orchestrator.jsonl").read_text().splitlines()]


def test_what_happened_is_logged_once_in_its_order(tmp_path):
    """DR-15: by one process and by the next, in the form of the founding document."""
    log, before, after = StoryLog(ContainedPath(tmp_path)), working_on("step-002"), edited()
    log.add([before])
    log.add([before])
    assert lines(tmp_path)[1] == {
        "ts": "2026-01-01T12:01:00Z",
        "agent_id": 7,
        "story_id": "US-001",
        "step_id": "step-001",
        "event": "step_started",
    }
    log.add([after])
    StoryLog(ContainedPath(tmp_path)).add([after])
    events = [each["event"] for each in lines(tmp_path)]
    assert events == [each.action for each in sorted(after.history, key=lambda each: each.timestamp)]
    assert events.count("workflow_edit") == 2


def test_a_line_that_a_killed_process_began_is_written_whole(tmp_path):
    """DR-15."""
    StoryLog(ContainedPath(tmp_path)).add([edited()])
    whole = lines(tmp_path)
    path = tmp_path / "logs" / "orchestrator.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    StoryLog(ContainedPath(tmp_path)).add([edited()])
    assert lines(tmp_path) == whole


def test_lines_of_other_processes_and_runs_stay(tmp_path):
    """DR-15: also if the file was deleted meanwhile."""
    one, other = StoryLog(ContainedPath(tmp_path)), StoryLog(ContainedPath(tmp_path))
    one.add([working_on("step-001")])
    other.add([edited()])
    one.add([complete(edited(), "step-002")])
    assert len(lines(tmp_path)) == len(complete(edited(), "step-002").history)
    (tmp_path / "logs" / "orchestrator.jsonl").unlink()
    one.add([edited()])
    assert len(lines(tmp_path)) == len(edited().history)


def test_what_is_no_file_is_left_alone(tmp_path):
    """DR-15: a link could lead anywhere."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "theirs").write_text("x")
    (tmp_path / "logs" / "orchestrator.jsonl").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="cannot be opened"):
        StoryLog(ContainedPath(tmp_path)).add([edited()])
    assert (tmp_path / "theirs").read_text() == "x"
