"""Answers of the real command to plans, repositories and machines that cannot work."""

import json
import os
import subprocess

import pytest

from support.scenario import Scenario, action, plan_of, write


def with_a_plan(folder):
    made = Scenario(folder)
    made.plan(plan_of(g=[action("a", effects=["x"], check="true")]))
    made.cassette(a=[write("a", "a")])
    return made


@pytest.fixture
def scenario(tmp_path):
    made = with_a_plan(tmp_path)
    yield made
    made.wait_for_end()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A scenario with an ended run, for calls that are refused and so change nothing."""
    made = with_a_plan(tmp_path_factory.mktemp("finished"))
    made.run("--yes", code=0)
    before = made.status()
    yield made
    assert made.status() == before
    made.wait_for_end()


def expect_refusal(done, code, *words):
    """Check that a command failed with two lines: the problem and the fix."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert any(line.startswith("error: ") for line in lines)
    assert lines[-1].startswith("  "), "the last line says what to do"
    for word in words:
        assert word in done.stderr


GOAL = "version: 1\ngoals:\n  - name: g\n    goal_state: [x]\n    actions:\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: 1\ngoals: [", ["plan.yaml:3", "syntax"]),
        ("", []),
        (GOAL + "      - {key: a, key: b, effects: [x]}\n", ["duplicate-key", "plan.yaml:6"]),
        (
            GOAL
            + "      - {key: a, preconditions: [y], effects: [x]}\n"
            + "      - {key: b, preconditions: [x], effects: [y]}\n",
            ["cycle", "a -> b -> a"],
        ),
        (GOAL + "      - {key: a, effects: [y]}\n", ["unreachable-goal"]),
        (GOAL + "      - {key: a, effects: [yes]}\n", ["wrong-type", "plan.yaml:6"]),
        (GOAL + "      - {key: a, effects: [x], kind: compound}\n", ["no planner"]),
    ],
)
def test_an_unworkable_plan_is_refused_before_anything_happens(scenario, text, words):
    """BX-7, SC-4: exit code 4, with position, reason and fix."""
    (scenario.home / "plan.yaml").write_text(text)
    expect_refusal(scenario.run("--yes"), 4, *words)
    assert "session-" not in scenario.git("branch")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("cassette:nowhere.yaml", ["nowhere.yaml"]),
        ("anthropic:some-model", ["ANTHROPIC_API_KEY", "scaffold demo"]),
        ("local:some-model", ["local"]),
        ("nonsense", ["is not a model string"]),
    ],
)
def test_a_model_that_cannot_answer_is_refused_before_work(scenario, model, words):
    done = scenario.scaffold("run", "--plan", str(scenario.home / "plan.yaml"), "--model", model, "--yes")
    expect_refusal(done, done.returncode, *words)
    assert done.returncode in {1, 64}
    assert scenario.status()["run"] is None


@pytest.mark.slow
def test_without_a_model_the_ways_to_name_one_are_listed(scenario):
    expect_refusal(scenario.scaffold("run", "--plan", str(scenario.home / "plan.yaml"), "--yes"), 64, "SCAFFOLD_MODEL")


@pytest.mark.slow
def test_a_broken_cassette_is_refused_before_work(scenario):
    (scenario.home / "cassette.yaml").write_text("version: 1\nreplies:\n- when: {rol: x}\n")
    expect_refusal(scenario.run("--yes"), 1, "cassette.yaml")


@pytest.mark.slow
def test_a_changed_cassette_is_refused_on_resume(scenario):
    scenario.run(code=3)
    scenario.cassette(a=[write("a", "different")])
    expect_refusal(scenario.scaffold("resume", scenario.status()["run"]["id"]), 64, "has changed", "--model")


@pytest.mark.slow
def test_a_required_but_missing_sandbox_refuses_the_run(scenario):
    """BX-9: it says what is missing and how to fix it, and nothing started."""
    scenario.scaffold("doctor")
    remembered = scenario.home / "scaffold/cache/sandbox.json"
    kept = json.loads(remembered.read_text())
    none = {"level": "none", "problem": "this kernel has nothing", "fix": "build another"}
    remembered.write_text(json.dumps(kept | {"finding": none}))
    expect_refusal(scenario.run("--yes", "--sandbox", "require"), 64, "this kernel has nothing", "build another")
    assert scenario.status()["run"] is None
    assert "need your approval" in scenario.scaffold("doctor").stdout


@pytest.mark.slow
def test_outside_a_repository_the_command_says_so(scenario, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    expect_refusal(scenario.call(scenario.run_command("--yes"), cwd=elsewhere), 64, "repository")


@pytest.mark.slow
def test_a_repository_without_a_commit_is_refused(scenario, tmp_path):
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    subprocess.run(["git", "init", "-q", str(fresh)], env=scenario.environ, check=True)
    expect_refusal(scenario.call(scenario.run_command("--yes"), cwd=fresh), 64, "commit")


@pytest.mark.slow
def test_nothing_starts_during_a_rebase(scenario):
    (scenario.repo / "README.md").write_text("one\n")
    scenario.commit("one")
    scenario.git("checkout", "-q", "-b", "other", "HEAD~1")
    (scenario.repo / "README.md").write_text("two\n")
    scenario.commit("two")
    scenario.call(["git", "rebase", "-q", "main"])
    expect_refusal(scenario.run("--yes"), 64, "rebase", "--abort")


@pytest.mark.slow
def test_nothing_starts_without_a_committer_name(scenario):
    scenario.git("config", "--unset", "user.name")
    scenario.git("config", "--unset", "user.email")
    scenario.git("config", "user.useConfigOnly", "true")
    expect_refusal(scenario.run("--yes"), 64, "user.name")


@pytest.mark.slow
def test_an_invalid_database_is_never_replaced(scenario):
    database = scenario.repo / ".git" / "scaffold" / "state.db"
    database.parent.mkdir()
    database.write_bytes(b"this is no database, but somebody may miss it" * 100)
    before = database.read_bytes()
    expect_refusal(scenario.run("--yes"), 1, "state.db")
    expect_refusal(scenario.scaffold("status"), 1, "state.db")
    assert database.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["run", "--agents", "0"],
        ["run", "--agents", "many"],
        ["run", "--nonsense"],
        ["run", "a task", "--plan", "p.yaml", "--model", "cassette:x.yaml"],
        ["plan", "", "--model", "cassette:x.yaml"],
        ["status", "no-such-run"],
        ["retry", "no-such-thing"],
        ["diff", "no-such-thing"],
        ["logs", "no-such-thing"],
        ["contract", "no-such-thing"],
        ["resume"],
        ["plan", "check", "no-such-file.yaml"],
    ],
)
def test_an_invalid_call_ends_with_64_and_a_hint(finished, args):
    expect_refusal(finished.scaffold(*args), 64)


@pytest.mark.slow
def test_a_half_created_database_counts_as_missing(scenario):
    (scenario.repo / ".git" / "scaffold").mkdir()
    (scenario.repo / ".git" / "scaffold" / "state.db").touch()
    assert scenario.status() == {"run": None, "goals": [], "actions": [], "queue": [], "inbox": []}
    assert "There is no run" in scenario.scaffold("tasks").stdout
    scenario.run("--yes", code=0)


def test_closed_standard_output_ends_the_command_quietly(scenario):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        scenario.command("plan", "check", str(scenario.home / "plan.yaml")),
        cwd=scenario.repo,
        env=scenario.environ,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_a_group_of_commands_without_a_command_shows_its_help(scenario):
    done = scenario.scaffold("permissions", code=64)
    assert done.stderr.startswith("Usage: ")
