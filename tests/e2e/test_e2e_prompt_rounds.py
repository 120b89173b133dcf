"""`run --spec PROMPT.md`: a prompt in rounds, by the real command."""

import pytest
from inline_snapshot import snapshot

from support.scenario import calls_entry, text_entry, write


def command(scenario, *flags):
    path = scenario.home / "PROMPT.md"
    path.write_text("Do the next thing.\n")
    return scenario.request_command("--spec", str(path), "--yes", *flags)


@pytest.mark.slow
def test_a_prompt_is_worked_in_rounds_until_one_changes_nothing(scenario):
    """An agent that says it is done, and changed something, has ended nothing; each round has a fresh context."""
    scenario.replies(
        calls_entry("implementation", write("one.txt", "1\n"), action="round-1", turn=1),
        text_entry("implementation", "<promise>COMPLETE</promise> DONE", action="round-1"),
        calls_entry("implementation", write("two.txt", "2\n"), action="round-2", turn=1),
        text_entry("implementation", "nothing is left"),
    )
    done = scenario.call(command(scenario), code=0)
    status = scenario.status()
    attempts = [each["attempts"][0] for each in status["actions"]]
    assert [(each["key"], each["status"]) for each in status["actions"]] == [
        ("round-1", "completed"),
        ("round-2", "completed"),
        ("round-3", "completed"),
    ]
    assert [each["outcome"] for each in attempts] == ["landed", "landed", "recorded"]
    assert "This is round 3 of at most 50." in scenario.journal("round-3", "round-3")
    assert "one.txt" not in scenario.journal("round-3", "round-3")
    assert done.stdout.splitlines()[-1] == snapshot("landed 2 actions, 2 facts with evidence")


@pytest.mark.slow
def test_rounds_have_no_planner_and_an_empty_prompt_is_refused(scenario):
    """With the exit codes of a wrong call and of a plan that is none."""
    scenario.replies(text_entry("implementation", "x"))
    refused = scenario.call(command(scenario, "--tier", "builder"))
    assert (refused.returncode, "rounds of a prompt have no planner" in refused.stderr) == (64, True), refused.stderr
    argv = command(scenario)
    (scenario.home / "PROMPT.md").write_text("\n")
    scenario.call(argv, code=64)
    assert scenario.status()["run"] is None
