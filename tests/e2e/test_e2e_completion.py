"""What a shell completes: the real command, asked as the script for bash asks it."""

import json

import pytest

from support.scenario import action, plan_of


def offered(scenario, *words):
    """Return what a shell offers for the last of some words."""
    scenario.environ |= {"COMP_WORDS": " ".join(("scaffold", *words)), "COMP_CWORD": str(len(words))}
    answer = scenario.scaffold()
    assert (answer.returncode, answer.stderr) == (0, "")
    return [line.removeprefix("plain,") for line in answer.stdout.splitlines() if line]


@pytest.mark.slow
def test_a_shell_completes_commands_names_and_settings(scenario, tmp_path):
    """SC-19: whatever can be named in the repository and the configuration; nothing where there is no repository."""
    scenario.plan(
        plan_of(shop=[action("store", effects=["a"], check="true"), action("api", effects=["b"], check="true")])
    )
    scenario.cassette()
    scenario.run(code=3)
    run = scenario.status()["run"]["id"]
    item = json.loads(scenario.scaffold("item", "add", "one", "--json").stdout)["items"][0]["id"]
    learning = json.loads(scenario.scaffold("learn", "add", "WHEN a DO b", "-c", "ci", "--json").stdout)["id"]
    scenario.environ["_SCAFFOLD_COMPLETE"] = "bash_complete"
    assert offered(scenario, "stat") == ["status"]
    assert offered(scenario, "status", "") == [run]
    assert set(offered(scenario, "stop", "")) == {"api", "store", "shop", run}
    assert offered(scenario, "config", "terminal", "") == ["auto", "plain"]
    assert offered(scenario, "config", "budget_usd", "") == []
    assert offered(scenario, "run", "--sandbox", "re") == ["require"]
    assert offered(scenario, "plan", "sim") == ["simulate"]
    assert offered(scenario, "item", "start", "") == [item]
    assert offered(scenario, "learn", "show", "") == [learning]
    assert offered(scenario, "learn", "context", "-c", "") == ["ci"]
    assert offered(scenario, "learn", "sh") == ["show"]
    assert offered(scenario, "-C", str(tmp_path), "status", "") == []
