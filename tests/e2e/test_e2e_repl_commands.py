"""Commands of the REPL that show or write something, in a real pseudo-terminal, on a recorded model."""

import re

import pytest

from support.scenario import Scenario, write
from support.terminal import record_replies, terminals

IDLE = r"/help$"
"""The end of the status line of a conversation that waits for the user."""


@pytest.fixture
def scenario(tmp_path):
    return Scenario(tmp_path)


@pytest.fixture
def terminal(scenario):
    """Start sessions; they are ended with the test."""
    with terminals(scenario) as start:
        yield start


def test_the_window_is_shown_and_the_conversation_exported(scenario, terminal):
    """RA-18: `/context` and `/export`, without a model; secrets stay out of the file."""
    secret = "ghp_" + "a1B2" * 9
    model = record_replies(scenario, write("made.txt", "one\n"), "All done.")
    screen = terminal("--model", model, "--yolo")
    screen.wait_for(IDLE)
    screen.type_line(f"make it with {secret}")
    screen.wait_for("^All done")
    screen.type_line("/context")
    text = screen.wait_for(r"results of write_file")
    assert re.search(r"system prompt +[\d,]+", text)
    assert re.search(r"tool definitions +[\d,]+", text)
    screen.type_line("/export talk.md")
    screen.wait_for(r"written to")
    screen.type_line("/export talk.md")
    screen.wait_for("never overwritten")
    exported = (scenario.repo / "talk.md").read_text()
    assert "## You\n\nmake it with " in exported
    assert "### Call of `write_file`" in exported
    assert exported.endswith("## Ralph\n\nAll done.\n")
    assert secret not in exported
