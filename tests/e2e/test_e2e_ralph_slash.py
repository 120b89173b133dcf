"""Slash commands as the task of a one-shot call, by the real command."""

import pytest

from support.scenario import Scenario, write
from support.terminal import record_replies


def with_a_conversation(folder):
    """Return a repository with a conversation that has a todo list, and whose model cannot answer any more."""
    scenario = Scenario(folder)
    todos = [{"content": "first", "status": "completed"}, {"content": "second"}]
    plan = {"name": "TodoWrite", "args": {"action": "set", "todos": todos}}
    model = record_replies(scenario, plan, write("x", "y"), "said")
    done = scenario.scaffold("ralph", "do things", "--model", model, "--yolo")
    assert (done.returncode, done.stdout) == (0, "said\n")
    (scenario.home / "talk.yaml").unlink()
    return scenario


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """One for all commands that change nothing of it."""
    return with_a_conversation(tmp_path_factory.mktemp("asked"))


@pytest.fixture
def scenario(tmp_path):
    return with_a_conversation(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/help", "/tasks [list | ready | show ID]"),
        ("/goals", "goal: do things\n[x] 1. first\n[ ] 2. second\n1 of 2 completed\n"),
        ("/cost", "$3.00, 300 tokens in, 30 out, 3 requests"),
        ("/resume", "do things"),
        ("/export", "written to "),
        ("/export -", "## You\n\ndo things"),
    ],
)
def test_a_command_is_answered_without_a_model(asked, command, expected):
    """RA-18, SC-19: the cassette is gone, so no model could answer."""
    done = asked.scaffold("ralph", "-c", command)
    assert (done.returncode, done.stderr) == (0, "")
    assert expected in done.stdout


@pytest.mark.slow
def test_a_mode_and_an_effort_are_stored_for_the_next_call(scenario):
    """RA-5, RA-18, SC-19: nor does this need a model."""
    for command, expected, shown in (
        ("/mode plan", "continues in mode plan", "* plan"),
        ("/effort high", "continues with effort high", "effort high:"),
        ("/mode review", "continues in mode review", "* review"),
        ("/effort LOW", "continues with effort low", "effort low:"),
    ):
        done = scenario.scaffold("ralph", "-c", command)
        assert (done.returncode, done.stderr) == (0, "")
        assert expected in done.stdout
        assert shown in scenario.scaffold("ralph", "-c", command.partition(" ")[0]).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["/goals"], "no conversation is selected"),
        (["-c", "/goals show 9"], "there is no step 9"),
        (["/tasks show 9"], "there is no item `9`"),
        (["/model 3"], "there is no model 3 in a list"),
        (["-c", "/effort most"], "there is no effort `most`"),
        (["-c", "/undo"], "this command works only in the REPL"),
        (["-c", "/export README.md"], "never overwritten"),
        (["-c", "/resume x"], "a one-shot call cannot switch conversations"),
        (["/tools now"], "has invalid arguments"),
        (["/helo"], "there is no command `/helo`"),
    ],
)
def test_an_invalid_command_is_reported_as_such(asked, args, what):
    """RA-18."""
    done = asked.scaffold("ralph", *args)
    assert done.returncode == 64
    assert what in done.stderr
    assert len(done.stderr.strip().split("\n")) == 2
