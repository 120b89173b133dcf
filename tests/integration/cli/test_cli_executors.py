"""`executors`: which programs of others there are, and what their drill shows."""

import json
import os
import sys
from pathlib import Path

import pytest

from scaffold.config.settings import user_config_file

PROGRAM = Path(__file__).parents[2] / "support" / "drilled_program.py"
KEYS = (
    *("name", "version", "path", "login", "asks", "obeys_denial", "ends_when_unanswered", "leaves_children"),
    *("exit_after_denial", "usage", "verdict", "reason"),
)


@pytest.fixture
def configured(home, tmp_path, monkeypatch):
    """Return a function that makes `claude` a program with a behaviour, the only one on PATH."""
    program = tmp_path / "bin" / "agent"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{PROGRAM.read_text('utf-8')}", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.defpath)

    def configure(behaviour: str, more: str = "") -> Path:
        file = user_config_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"executors:\n  default: claude\n  claude: {{command: {program}, args: [{behaviour}]{more}}}\n")
        return program

    return configure


def test_each_program_is_shown_with_the_version_that_it_says_itself(configured, scaffold):
    """BX-28"""
    program = configured("honest", ', minimum: "9"')

    found = {each["name"]: each for each in scaffold("executors", "--json").json["executors"]}

    assert {"claude", "codex", "gemini", "copilot", "opencode", "qwen", "pi"} == set(found)
    assert found["claude"]["version"] == "1.2.3"
    assert found["claude"]["path"] == str(program)
    assert found["claude"]["old"]
    assert found["claude"]["drill"] is None
    assert found["pi"]["path"] is None
    shown = scaffold("executors").out
    assert "1.2.3, older than 9; logged in; not drilled yet" in " ".join(shown.split())


def test_a_check_has_the_promised_keys_and_exits_with_1_for_a_program_that_is_refused(configured, scaffold):
    """BX-28: a program that uses no tool has shown nothing."""
    configured("idle")

    answer = scaffold("executors", "check", "claude", "--json")

    assert answer.code == 1
    assert tuple(json.loads(answer.out)) == KEYS
    assert answer.json["verdict"] == "refused"
    assert answer.json["reason"] == "nothing is known of it: asked to edit the file: it used no tool"
    assert "a few cents" in answer.err


@pytest.mark.slow
def test_a_check_says_what_a_program_does_and_the_list_remembers_it(configured, scaffold):
    """BX-28"""
    configured("honest")

    answer = scaffold("executors", "check", "claude")

    assert answer.code == 0
    assert "obeys a denial             yes" in answer.out
    assert "claude 1.2.3 may work" in answer.out
    assert "drill passed" in scaffold("executors").out


def test_an_unknown_executor_is_wrong_usage_and_a_missing_one_a_failure(home, scaffold, monkeypatch):
    monkeypatch.setenv("PATH", os.defpath)

    assert scaffold("executors", "check", "clade").code == 64
    assert scaffold("executors", "check", "acp:no-such-program").code == 1


def test_doctor_names_what_keeps_a_chosen_program_from_working(configured, scaffold):
    """AL-20"""
    configured("logged-out")

    found = {each["name"]: each for each in scaffold("doctor", "--json").json["checks"]}

    assert found["claude"]["status"] == "warn"
    assert "1.2.3" in found["claude"]["message"]
    assert found["claude"]["fix"] == "Update it. npm under an old Node installs an old version, and does not say so."
    configured("logged-out", ', minimum: "1"')
    found = {each["name"]: each for each in scaffold("doctor", "--json").json["checks"]}
    assert found["claude"]["fix"] == "Log in: `claude auth login`."
    assert (
        "reach their login and their provider" in found["executors"]["message"]
        or found["executors"]["status"] == "warn"
    )
