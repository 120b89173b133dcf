"""One agent, one task, by the real command."""

import json

import pytest
import yaml

from scenario import Scenario, shell, write


@pytest.fixture
def scenario(tmp_path):
    return Scenario(tmp_path)


def replies(scenario, *steps):
    """Write a cassette for `ralph` itself: each step in a reply of its own."""
    entries = [
        {
            "when": {"role": "agent", "turn": turn},
            **({"text": step} if isinstance(step, str) else {"tool_calls": [step]}),
        }
        for turn, step in enumerate(steps, start=1)
    ]
    path = scenario.home / "ralph.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": entries}))
    return f"cassette:{path}"


@pytest.mark.parametrize("call", [write("made.txt", "x"), shell("echo x > made.txt")])
def test_what_would_need_consent_is_denied_and_the_work_goes_on(scenario, call):
    """RA-13: without a terminal and without --yolo, writing and commands are denied, and the model is told so."""
    done = scenario.scaffold("ralph", "make it", "--model", replies(scenario, call, "I was not allowed to"))
    assert (done.returncode, done.stdout) == (0, "I was not allowed to\n")
    assert not (scenario.repo / "made.txt").exists()
    (journal,) = (scenario.home / "scaffold" / "data" / "sessions").iterdir()
    assert "Denied: " in journal.read_text()


def test_reading_is_free(scenario):
    look = {"name": "read_file", "args": {"path": "README.md"}}
    assert scenario.scaffold("ralph", "look", "--model", replies(scenario, look, "seen")).stdout == "seen\n"
    (journal,) = (scenario.home / "scaffold" / "data" / "sessions").iterdir()
    assert "# Sample" in journal.read_text()


def test_with_yolo_it_works_and_tells_in_json_what_it_took(scenario):
    model = replies(scenario, write("made.txt", "x"), "made")
    done = scenario.scaffold("ralph", "make it", "--model", model, "--yolo", "--output-format", "json")
    told = json.loads(done.stdout)
    assert (told["result"], told["turns"], told["stop_reason"], told["error"]) == ("made", 2, "end", None)
    assert (scenario.repo / "made.txt").read_text() == "x"


def test_a_session_without_an_end_is_an_error_that_names_the_limit(scenario):
    model = replies(scenario, *[shell("true")] * 3)
    done = scenario.scaffold("ralph", "go on", "--model", model, "--max-turns", "2", "--output-format", "json")
    assert done.returncode == 1
    assert "turn limit" in json.loads(done.stdout)["error"]


def test_without_a_task_it_says_so(scenario):
    assert scenario.scaffold("ralph").returncode == 64
