"""From a request to landed commits: the planner's turn by the real command, on recorded models of many kinds."""

import asyncio
import json
import os
import signal

import pytest
import yaml

from builders import bubblewrap_or_skip
from support.planner_cassettes import add_planner, create_actions_call, create_goal_call
from support.scenario import COMMAND_S, action, wait_until, write

SLOW = pytest.mark.slow


@pytest.fixture
def model(scenario):
    """Return a planner that reads files, then plans a goal of two actions, and their workers."""
    hello = action("hello", effects=["hello_there"], check="test -f hello.txt", files=["hello.txt"])
    world = action("world", needs=["hello_there"], effects=["world_there"], check="test -f world.txt")
    cassette = scenario.cassette(hello=[write("hello.txt", "hello\n")], world=[write("world.txt", "world\n")])
    return add_planner(
        cassette,
        {"name": "read_file", "args": {"path": "README.md"}},
        [create_goal_call("greeting", "hello_there", "world_there"), create_actions_call("greeting", hello, world)],
    )


def given(scenario, words, *args):
    """Run the command with `words` on standard input."""
    return scenario.call(scenario.command(*args), words)


def nonsense(scenario, *steps):
    """Return a model whose planner replies with this."""
    return add_planner(scenario.cassette(nobody=["never asked"], name="nonsense.yaml"), *steps)


def hanging(scenario):
    """Return a model whose planner never replies."""
    path = scenario.home / "hanging.yaml"
    entry = {"when": {"role": "planner"}, "text": "late", "fault": {"kind": "hang", "times": 50}}
    path.write_text(yaml.safe_dump({"version": 1, "replies": [entry]}))
    return f"cassette:{path}"


def expect_refusal(done, code, *words):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def expect_landed(scenario, *keys):
    status = scenario.status()
    assert status["run"]["status"] == "completed"
    assert {each["key"]: each["status"] for each in status["actions"]} == dict.fromkeys(keys, "completed")


@pytest.mark.slow
def test_a_plan_without_consent_is_saved_and_resume_starts_it(scenario, model):
    """SC-8, SC-18: progress is shown; without a terminal and without --yes the plan waits, as --json says, too."""
    before = scenario.checkout()
    done = scenario.scaffold("run", "greet the world", "--model", model, code=3)
    assert "read     read_file README.md" in done.stdout
    assert "draft    create_actions hello, world" in done.stdout
    assert "planned by" in done.stderr
    assert "  hello -> hello_there" in done.stderr
    run = scenario.status()["run"]
    assert (run["status"], run["request"]) == ("saved", "greet the world")
    assert f"scaffold resume {run['id']}" in done.stderr
    again = scenario.scaffold("run", "greet the world", "--model", model, "--json", code=3)
    *events, last = [json.loads(line) for line in again.stdout.splitlines()]
    assert (last["type"], last["run"]["status"]) == ("result", "saved")
    assert [each["goal"] for each in events if each["type"] == "plan_extended"] == ["greeting", "greeting"]
    assert scenario.scaffold("resume").returncode == 64, "it starts only by its name"
    scenario.scaffold("resume", run["id"], code=0)
    assert scenario.status(run["id"])["run"]["status"] == "completed"
    assert scenario.checkout() == before


@pytest.mark.slow
def test_a_specification_of_200_kb_reaches_the_worker_whole(scenario):
    """SC-18, SC-22: by file; tier quick is one action and calls neither a planner nor a supervisor."""
    spec = scenario.home / "spec.md"
    spec.write_text("Write task.txt.\n" + "All of this matters.\n" * 9_700 + "THE-END-OF-IT")
    said = {"when": {"action": "task", "turn": 1, "contains": "THE-END-OF-IT"}}
    replies = [{**said, "tool_calls": [write("task.txt", "x\n")]}, {"when": {"action": "task"}, "text": "done"}]
    cassette = scenario.home / "quick.yaml"
    cassette.write_text(yaml.safe_dump({"version": 1, "replies": replies}))
    flags = ("--tier", "quick", "--spec", str(spec), "--model", f"cassette:{cassette}")
    scenario.scaffold("run", *flags, "--yes", code=0)
    expect_landed(scenario, "task")
    assert scenario.status()["run"]["request"] == spec.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", [(), ("run",), pytest.param(("run", "-"), marks=SLOW), pytest.param(("run", "--spec", "-"), marks=SLOW)]
)
def test_a_request_can_come_on_standard_input(scenario, model, args):
    """SC-18: `cat spec.md | scaffold` is one shot, as is `run` without another request."""
    done = given(scenario, "greet the world\n", *args, "--model", model, "--yes")
    assert done.returncode == 0, done.stderr
    expect_landed(scenario, "hello", "world")


LOOKS = {"name": "list_dir", "args": {"path": "."}}
ROUND = [action("x", needs=["b"], effects=["a"], check="true"), action("y", needs=["a"], effects=["b"], check="true")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (["I would rather not."], "no-goal"),
        ([[create_goal_call("g", "a", "b"), create_actions_call("g", *ROUND)]], "cycle"),
        pytest.param([{"name": "goap_create_goal", "args": {"name": 7}}], "no-goal", marks=SLOW),
        ([LOOKS] * 12, "stopped in a loop"),
    ],
)
def test_a_planner_that_never_becomes_sound_is_bounded_and_reported(scenario, steps, words):
    """SC-8: an unsound plan is never stored; the findings are printed, and the run can plan again."""
    done = scenario.scaffold("run", "greet", "--model", nonsense(scenario, *steps), "--yes")
    expect_refusal(done, 4, words, "scaffold retry")
    status = scenario.status()
    assert (status["run"]["status"], status["goals"], status["actions"]) == ("failed", [], [])


@pytest.mark.slow
def test_failed_planning_can_be_repeated(scenario, model):
    """SC-8: `retry` and `resume` plan again, with another model if needed."""
    scenario.scaffold("run", "greet", "--model", nonsense(scenario, "no"), "--yes", code=4)
    scenario.scaffold("retry", code=0)
    assert scenario.status()["run"]["status"] == "paused"
    scenario.scaffold("resume", "--model", model, code=0)
    expect_landed(scenario, "hello", "world")


@pytest.mark.slow
def test_a_request_unknown_to_the_cassette_is_named(scenario):
    """SC-8: what cannot be answered the next time either fails at once, naming the request."""
    done = scenario.scaffold("run", "greet", "--model", f"cassette:{scenario.cassette(a=['x'])}", "--yes")
    expect_refusal(done, 1, "role planner", "turn 1")
    assert scenario.status()["run"]["status"] == "failed"


@pytest.mark.slow
def test_a_run_killed_during_planning_is_interrupted_and_planned_again(scenario, model):
    """SC-8, OR-5: an interrupted turn stored nothing; `resume` repeats it."""
    started = scenario.start(scenario.command("run", "greet", "--model", hanging(scenario), "--yes"))
    assert wait_until(lambda: scenario.status()["run"] is not None)
    assert wait_until(lambda: scenario.status()["run"]["planning"])
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    status = scenario.status()
    assert (status["run"]["status"], status["goals"]) == ("interrupted", [])
    scenario.scaffold("resume", "--model", model, code=0)
    expect_landed(scenario, "hello", "world")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupt", pytest.param("stop", marks=SLOW)])
def test_planning_is_stopped_cleanly_and_resumed(scenario, model, how):
    """OR-5: Ctrl-C, or `stop` from elsewhere, pauses the run at once; `resume` plans again."""
    started = scenario.start(scenario.command("run", "greet", "--model", hanging(scenario), "--yes"))
    assert wait_until(lambda: (scenario.status()["run"] or {}).get("planning", False))
    if how == "interrupt":
        started.send_signal(signal.SIGINT)
    else:
        scenario.scaffold("stop", code=0)
    assert started.wait(COMMAND_S) == 130
    assert scenario.status()["run"]["status"] == "paused"
    scenario.scaffold("resume", "--model", model, code=0)
    expect_landed(scenario, "hello", "world")


@pytest.mark.slow
def test_a_budget_exhausted_during_planning_pauses_the_run(scenario, model):
    """SC-8: no request starts beyond the limit; with a higher one it plans again."""
    path = scenario.home / "cassette.yaml"
    priced = {**yaml.safe_load(path.read_text()), "prices": {"input_per_mtok": 1000.0, "output_per_mtok": 0.0}}
    path.write_text(yaml.safe_dump(priced))
    done = scenario.scaffold("run", "greet", "--model", model, "--yes", "--budget-usd", "1.5")
    expect_refusal(done, 2, "--budget-usd MORE")
    assert done.stderr.count("--budget-usd MORE") == 1, "what to do is said once"
    assert scenario.status()["run"]["status"] == "paused"
    scenario.scaffold("resume", "--budget-usd", "100", code=0)
    expect_landed(scenario, "hello", "world")


@pytest.mark.slow
def test_a_plan_is_written_to_a_file_and_executed_from_there(scenario, model):
    """SC-8: `plan -o` starts nothing and stores nothing; only an older plan is overwritten."""
    file = scenario.home / "greeting.yaml"
    scenario.scaffold("plan", "greet the world", "--model", model, "-o", str(file), code=0)
    assert scenario.status()["run"] is None
    scenario.scaffold("plan", "check", str(file), code=0)
    scenario.scaffold("plan", "greet", "--model", model, "-o", str(file), code=0)
    printed = scenario.scaffold("plan", "greet the world", "--model", model, "--json")
    assert json.loads(printed.stdout) == yaml.safe_load(file.read_text())
    readme = scenario.repo / "README.md"
    expect_refusal(scenario.scaffold("plan", "greet", "--model", model, "-o", str(readme)), 64, "is not a plan")
    scenario.scaffold("run", "--plan", str(file), "--tier", "builder", "--model", model, "--yes", code=0)
    expect_landed(scenario, "hello", "world")


@pytest.mark.slow
def test_the_commands_of_a_written_plan_were_tried_and_its_file_says_what_they_gave(scenario):
    """BX-7: once, at the commit that the run would start from, in a sandbox; nothing of that stays."""
    asyncio.run(bubblewrap_or_skip())
    checks = ("test -f hello.txt", "test -f README.md", "All tests should pass")
    actions = [action(f"a{at}", effects=[f"e{at}"], check=each) for at, each in enumerate(checks)]
    steps = [create_goal_call("g", "e0", "e1", "e2"), create_actions_call("g", *actions)]
    model = add_planner(scenario.cassette(a0=["unused"]), steps)
    file = scenario.home / "tried.yaml"
    done = scenario.scaffold("plan", "greet the world", "--model", model, "-o", str(file), code=0)
    title, *lines = [line for line in file.read_text().splitlines() if line.startswith("# ")]
    head = scenario.git("rev-parse", "HEAD")[:8]
    assert title == f"# Each command was run once at {head}, before the work, in a sandbox (bubblewrap):"
    assert [line.partition(": ")[0] for line in lines[:2]] == [
        "#   fails, as it may before the work",
        "#   passes already, so it shows that nothing breaks, not that the work is done",
    ]
    assert lines[2].startswith("#   cannot run (")
    assert lines[2].endswith("not found): All tests should pass")
    assert lines[2].removeprefix("#   ") in done.stderr
    assert len(scenario.git("worktree", "list").splitlines()) == 1
    scenario.scaffold("plan", "check", str(file), code=0)


@pytest.mark.slow
def test_plan_reads_a_request_from_a_pipe_and_refuses_an_unsound_plan(scenario, model):
    """SC-8, SC-18: only the plan goes to standard output; findings end with exit code 4."""
    done = given(scenario, "greet the world", "plan", "--model", model, "--spec", "-")
    assert yaml.safe_load(done.stdout)["goals"][0]["name"] == "greeting"
    refused = given(scenario, "greet", "plan", "--model", nonsense(scenario, "no"), "--spec", "-")
    expect_refusal(refused, 4, "no-goal")
    assert refused.stdout == ""
