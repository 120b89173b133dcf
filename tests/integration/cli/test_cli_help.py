"""The help texts of the commands that read."""

import re

import pytest

READING_COMMANDS = {
    "status": "[OPTIONS] [RUN]",
    "goals": "[OPTIONS]",
    "tasks": "[OPTIONS] [GOAL]",
    "logs": "[OPTIONS] [ACTION]",
    "diff": "[OPTIONS] [ACTION|RUN]",
    "contract": "[OPTIONS] ACTION",
    "plan": "[OPTIONS] TASK | COMMAND [ARGS]...",
    "config": "[OPTIONS] [KEY] [VALUE]",
    "init": "[OPTIONS]",
    "doctor": "[OPTIONS]",
}


@pytest.mark.parametrize(("name", "arguments"), READING_COMMANDS.items())
def test_help_shows_the_usage_a_description_and_the_options(name, arguments, scaffold):
    usage, _, description, *rest = scaffold(name, "--help").out.splitlines()
    assert usage == f"Usage: scaffold {name} {arguments}"
    assert re.match(r"  [A-Z]\w+ ", description)
    assert any(line.startswith("  -h, --help ") for line in rest)
