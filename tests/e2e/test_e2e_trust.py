"""A folder's configuration, by the real commands: ignored unless trusted, which prevents no work."""

import json
from pathlib import Path

import pytest
import yaml

from support.scenario import Scenario, action, plan_of, shell, write


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    (made.repo / ".scaffold.yaml").write_text("agents: 1\npermissions:\n  deny: ['shell:echo *']\n")
    made.commit("settings")
    return made


def agents(scenario, *flags):
    done = scenario.run("--dry-run", *flags, code=0)
    return json.loads(done.stdout)["run"]["agents"], done.stderr


def ready(scenario):
    scenario.plan(plan_of(docs=[action("guide", effects=["guide_written"], check="test -s GUIDE.md")]))
    scenario.cassette(guide=[write("GUIDE.md", "# Guide\n")])


@pytest.mark.slow
def test_a_run_in_an_untrusted_folder_works_and_reports_what_it_ignores(scenario):
    """RA-13."""
    ready(scenario)
    done = scenario.run("--yes", code=0)
    assert done.stderr.count("note: .scaffold.yaml ignored: folder not trusted; `scaffold trust`") == 1


@pytest.mark.slow
def test_a_folders_configuration_counts_when_trusted_once_or_until_it_changes(scenario):
    """RA-13: --trust-once stores nothing."""
    pages = [action(page, effects=[f"{page}_written"], check=f"test -s {page}") for page in ("guide", "tour", "index")]
    scenario.plan(plan_of(docs=pages))
    scenario.cassette()
    assert agents(scenario)[0] == 3, "as many as the plan deserves"
    assert agents(scenario, "--trust-once") == (1, "")
    assert agents(scenario)[0] == 3
    scenario.scaffold("trust", "--yes", code=0)
    assert agents(scenario) == (1, "")
    (scenario.repo / ".mcp.json").write_text("{}")
    number, said = agents(scenario)
    assert number == 3
    assert ".mcp.json is new" in said


@pytest.mark.slow
def test_a_projects_rule_denies_what_its_user_allowed_and_never_allows(scenario):
    """RA-13: project rules only tighten."""
    (scenario.repo / ".scaffold.yaml").write_text(
        "permissions: {deny: ['shell:echo *'], allow: ['shell:touch *']}\napprovals: {shell: allow}\n"
    )
    entries = [
        {"when": {"role": "agent", "turn": 1}, "tool_calls": [shell("echo said"), shell("touch made.txt")]},
        {"when": {"role": "agent", "turn": 2}, "text": "over"},
    ]
    tape = scenario.home / "tape.yaml"
    tape.write_text(yaml.safe_dump({"version": 1, "replies": entries}))
    scenario.scaffold("trust", "--yes", code=0)
    flags = ("--model", f"cassette:{tape}", "--allow", "shell:echo *", "--output-format", "stream-json")
    done = scenario.scaffold("ralph", "say it", *flags)
    data = [event for event in map(json.loads, done.stdout.splitlines()) if event["type"] == "tool_result"]
    assert ["Denied" in each["content"] for each in data] == [True, True], done.stdout
    assert not (scenario.repo / "made.txt").exists()


def test_no_agent_can_change_its_folders_configuration(scenario):
    """RA-14: settings, servers and hooks are protected."""
    places = (".scaffold.yaml", ".mcp.json", ".claude/settings.json", ".scaffold/config.local.yaml")
    entries = [
        {"when": {"role": "agent", "turn": 1}, "tool_calls": [write(path, "tier: quick\n") for path in places]},
        {"when": {"role": "agent", "turn": 2}, "text": "over"},
    ]
    tape = scenario.home / "tape.yaml"
    tape.write_text(yaml.safe_dump({"version": 1, "replies": entries}))
    before = scenario.checkout()
    scenario.scaffold("ralph", "write", "--model", f"cassette:{tape}", "--yolo", code=0)
    assert scenario.checkout() == before
    assert not Path(scenario.repo, ".scaffold", "config.local.yaml").exists()
