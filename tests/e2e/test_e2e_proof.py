"""Gates of a repository before a run, while it lands, and at its end, by the real command."""

import json
import os
import signal
import sys

import pytest

from support.planner_cassettes import add_planner, create_actions_call, create_goal_call
from support.scenario import COMMAND_S, action, calls_entry, plan_of, shell, text_entry, wait_until, write

TESTS = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "test_old.py": "def test_old():\n    assert False\n",
    "pyproject.toml": "[project]\nname = 'calc'\nversion = '1'\n\n[tool.pytest.ini_options]\n",
}
NEEDS_MORE = {
    **TESTS,
    "rates.py": "import a_module_nobody_has\n\nRATES = a_module_nobody_has.rates()\n",
    "test_more.py": "from rates import RATES\n\n\ndef test_more():\n    assert RATES\n",
}
"""A module that only a test asks for may be what the work is to write; one that the code asks for is missing."""
UNHELD = ("--sandbox", "off", "--yolo")
"""In a sandbox a gate would not see the files by which these tests talk to it."""
DOUBLE = "def double(a):\n    return 2 * a\n"


@pytest.fixture
def scenario(scenario):
    scenario.configure()
    scenario.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{scenario.environ['PATH']}"  # noqa: PTH120 - a name
    return scenario


def repository(scenario, files):
    for path, text in files.items():
        (scenario.repo / path).write_text(text)
    scenario.commit("a calculator")


def one_action(scenario, check="grep -q double more.py"):
    scenario.plan(plan_of(calc=[action("double", effects=["doubles"], check=check)]))
    scenario.cassette(double=[write("more.py", DOUBLE)])


def gates_of(scenario):
    """Return the commands of the gates in the baseline."""
    return [each["command"] for each in json.loads(scenario.scaffold("baseline", "--json").stdout)["gates"]]


def events_of(done):
    """Return the events of a run with --json."""
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_test_results_are_known_before_work_and_are_evidence_after_it(scenario):
    """AL-10, BX-1: earlier failures are allowed, reported, and do not fail the run."""
    repository(scenario, TESTS)
    one_action(scenario)
    done = scenario.run("--yes", "--json", code=0)
    types = [event["type"] for event in events_of(done)]
    baseline = events_of(done)[types.index("baseline_captured")]
    assert (baseline["gate"], baseline["passed"], baseline["failed"]) == ("test", 1, 1)
    assert types.index("baseline_captured") < types.index("attempt_queued")
    status = scenario.status()
    mirrored = json.loads((scenario.repo / ".scaffold" / "baselines" / f"{status['run']['id']}.json").read_text())
    assert "test_old.py::test_old" in json.dumps(mirrored)
    (fact,) = status["goals"][0]["facts"]
    assert {each["kind"] for each in fact["evidence"]} == {"contract", "gate"}
    assert "gate test: " in scenario.scaffold("contract", "double").stdout


@pytest.mark.slow
def test_an_environment_that_is_not_ready_stops_a_run_before_any_request(scenario):
    """AL-10: it says what is missing and how to fix it; no model was called, nothing was spent."""
    repository(scenario, NEEDS_MORE)
    double = action("double", effects=["doubles"], check="test -f more.py")
    add_planner(
        scenario.cassette(double=[write("more.py", DOUBLE)]),
        [create_goal_call("calc", "doubles"), create_actions_call("calc", double)],
    )
    done = scenario.request("double it", "--yes", code=1)
    assert "environment_not_ready" in done.stderr
    assert "a_module_nobody_has" in done.stderr
    # AL-10: the end of the output, and the path of all of it, which `baseline` names as well.
    assert "    E   ModuleNotFoundError: No module named 'a_module_nobody_has'\n" in done.stderr
    [log] = (scenario.repo / ".scaffold" / "logs" / "gates").glob("*/test-*.log")
    assert str(log.relative_to(scenario.repo)) in done.stderr
    assert str(log.relative_to(scenario.repo)) in scenario.scaffold("baseline").stdout
    assert log.read_text().startswith("$ python3 -m pytest -q\n")
    assert "scaffold retry" in done.stderr
    assert "Traceback (most recent call last)" not in done.stderr
    status = scenario.status()
    assert status["run"]["status"] == "failed"
    assert status["run"]["reason"].startswith("environment_not_ready: ")
    assert status["run"]["budget"]["tokens"] == 0
    assert status["goals"] == []
    assert list((scenario.repo / ".scaffold" / "logs").rglob("*.jsonl")) == []


TAGGED = {
    "pay/rate.txt": "2",
    "pay/test_near.py": "import pytest\n\n\n@pytest.mark.parametrize('n', range(6))\ndef test_near(n): pass\n",
    "smoke/test_far.py": (
        "import pathlib\n\nimport pytest\n\n\n@pytest.mark.pay\ndef test_far():\n"
        "    assert next(pathlib.Path().glob('pay/*.txt')).read_text() == '2'\n"
    ),
}


@pytest.mark.slow
def test_tests_with_a_tag_check_work_before_it_lands(scenario):
    """AL-11: a change of `pay` runs tests tagged `pay`, which nothing else would select."""
    for path in TAGGED:
        (scenario.repo / path).parent.mkdir(exist_ok=True)
    repository(scenario, {**TESTS, **TAGGED})
    scenario.configure(quality_gates={"tags": ["pay @pay"]})
    scenario.plan(plan_of(calc=[action("double", effects=["doubles"], check="grep -q 3 pay/rate.txt")]))
    scenario.cassette(double=[write("pay/rate.txt", "3")])
    scenario.run("--yes", code=1)
    assert "smoke/test_far.py::test_far" in scenario.scaffold("contract", "double").stdout
    (session,) = scenario.git("branch", "--list", "session-*", "--format=%(refname:short)").split()
    assert scenario.git("rev-parse", session) == scenario.git("rev-parse", "main")


@pytest.mark.slow
def test_a_given_plan_is_stopped_likewise_and_its_goals_fail(scenario):
    """AL-10: retried and resumed it tries again, with the configuration of then; programs get their result line."""
    scenario.configure(quality_gates={"test": "no-such-runner"})
    one_action(scenario)
    done = scenario.run("--yes", "--json", code=1)
    assert "`quality_gates.test`" in done.stderr
    assert events_of(done)[-1]["run"]["status"] == "failed"
    assert [each["status"] for each in scenario.status()["goals"]] == ["failed"]
    assert [each["attempts"] for each in scenario.status()["actions"]] == [[]]
    scenario.configure(quality_gates={"test": "test -f README.md"})
    scenario.scaffold("retry", code=0)
    scenario.scaffold("resume", code=0)
    assert scenario.status()["run"]["status"] == "completed"
    assert gates_of(scenario) == ["test -f README.md"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mending",
    [[["trust", "--yes"], ["retry"], ["resume"]], [["retry"], ["resume", "--yes", "--trust-once"]]],
    ids=["trusted", "trusted once"],
)
def test_untrusted_setup_commands_are_reported_with_the_trust_command(scenario, mending):
    """AL-10, BX-1: after that, even for one command alone, the same run continues."""
    makes_tool = "mkdir node_modules && echo '#!/bin/sh' > node_modules/tool && chmod +x node_modules/tool\n"
    repository(scenario, {".gitignore": "node_modules\n", "deps.sh": makes_tool})
    scenario.configure(setup=["sh deps.sh"], quality_gates={"test": "node_modules/tool"})
    one_action(scenario)
    done = scenario.run("--yes", code=1)
    assert "Run `scaffold trust` so that `sh deps.sh` may run" in done.stderr
    for mended in mending:
        scenario.scaffold(*mended, code=0)
    assert scenario.status()["run"]["status"] == "completed"


@pytest.mark.slow
def test_a_run_killed_during_its_baseline_starts_again(scenario):
    """BX-15, AL-10, AL-27: with the configuration of then, by the same input; no gate is left running."""
    scenario.configure(quality_gates={"test": "sleep 57"})
    one_action(scenario)
    running = scenario.start(scenario.run_command("--yes", *UNHELD))
    assert wait_until(lambda: asleep(scenario)), "no gate was asked"
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert wait_until(lambda: not asleep(scenario)), "the gate outlived who asked it"
    assert scenario.status()["run"]["status"] == "interrupted"
    scenario.configure(quality_gates={"test": "test -f README.md"})
    resumed = scenario.run("--yes", *UNHELD, code=0)
    assert "which was interrupted" in resumed.stderr
    assert scenario.status()["run"]["status"] == "completed"
    assert gates_of(scenario) == ["test -f README.md"]
    assert len(scenario.git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("planned", [False, True], ids=["given", "planned"])
def test_a_run_interrupted_during_its_baseline_is_paused(scenario, planned):
    """AL-10: at once, with the gate ended."""
    scenario.configure(quality_gates={"test": "sleep 57"})
    one_action(scenario)
    argv = scenario.request_command("double it", "--yes") if planned else scenario.run_command("--yes")
    running = scenario.start(argv)
    assert wait_until(lambda: asleep(scenario)), "no gate was asked"
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(timeout=COMMAND_S) == 130
    assert scenario.status()["run"]["status"] == "paused"


@pytest.mark.slow
def test_work_that_would_break_an_earlier_fact_is_refused_and_fixed_by_its_action(scenario):
    """BX-1, SC-4: its second attempt gets the reason, and does better; both facts hold at the tip."""
    scenario.plan(
        plan_of(
            letters=[
                action("a", effects=["has_a"], check="grep -q a letters"),
                action("b", needs=["has_a"], effects=["has_b"], check="grep -q b letters"),
            ]
        )
    )
    scenario.replies(
        calls_entry("implementation", write("letters", "a\n"), action="a", turn=1),
        calls_entry("implementation", read("letters"), write("letters", "b\n"), action="b", attempt=1, turn=1),
        calls_entry("implementation", read("letters"), write("letters", "a\nb\n"), action="b", attempt=2, turn=1),
        text_entry("implementation"),
    )
    scenario.run("--yes", code=0)
    status = scenario.status()
    attempts = next(each["attempts"] for each in status["actions"] if each["key"] == "b")
    assert [each["outcome"] for each in attempts] == ["gate_failed", "landed"]
    assert attempts[0]["error"].startswith("It breaks what `a` had shown (has_a).")
    facts = status["goals"][0]["facts"]
    tip = scenario.git("rev-parse", status["run"]["session_branch"]).strip()
    assert [(each["state"], each["commit"]) for each in facts] == [("holds", tip), ("holds", tip)]


def read(path):
    return {"name": "read_file", "args": {"path": path}}


def asleep(scenario):
    """Return the gates of this scenario that are sleeping."""
    found = []
    for pid in scenario.processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
                found += [pid] if file.read().startswith(b"sleep\x0057") else []
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_plan_runs_no_command_of_the_repository(scenario):
    """AL-10: gates run only for work: a broken environment is no reason to refuse a plan."""
    repository(scenario, {**TESTS, "test_calc.py": "open('ran', 'w').close()\nimport a_module_nobody_has\n"})
    cassette = scenario.cassette(double=[write("more.py", DOUBLE)])
    made = action("double", effects=["doubles"], check="grep -q double more.py")
    model = add_planner(cassette, [create_goal_call("calc", "doubles")], [create_actions_call("calc", made)])
    done = scenario.scaffold("plan", "double it", "--model", model, "--json", code=0)
    assert json.loads(done.stdout)["goals"][0]["name"] == "calc"
    assert "baseline" not in done.stderr


@pytest.mark.slow
def test_a_test_removed_with_its_subject_is_reported_wherever_the_gate_runs(scenario):
    """AL-10, BX-5: nothing is lost silently, even if on purpose."""
    repository(
        scenario,
        {
            **TESTS,
            "calc.py": TESTS["calc.py"] + "\n\ndef twice(a):\n    return 2 * a\n",
            "test_twice.py": "from calc import twice\n\n\ndef test_twice():\n    assert twice(1) == 2\n",
        },
    )
    files = ["calc.py", "test_twice.py"]
    scenario.plan(plan_of(calc=[action("lean", effects=["lean"], check="! grep twice calc.py", files=files)]))
    scenario.cassette(lean=[write("calc.py", TESTS["calc.py"]), shell("rm test_twice.py")])
    scenario.run("--yes", code=0)
    shown = scenario.scaffold("contract", "lean").stdout
    assert "removed with what it tested: test_twice.py::test_twice" in shown
    assert "test: pre_existing, 1 removed, " in scenario.scaffold("tasks").stdout
