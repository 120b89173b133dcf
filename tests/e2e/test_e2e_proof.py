"""Gates of a repository around a run, by the real command: before it, while it lands, and at its end."""

import json
import os
import signal
import sys

import pytest

from support.planner_cassettes import actions, add_planner, goal
from support.scenario import Scenario, action, asked, plan_of, said, shell, wait_until, write

TESTS = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "test_old.py": "def test_old():\n    assert False\n",
    "pyproject.toml": "[project]\nname = 'calc'\nversion = '1'\n\n[tool.pytest.ini_options]\n",
}
NEEDS_MORE = {
    **TESTS,
    "test_more.py": "import a_module_nobody_has\n\n\ndef test_more():\n    assert a_module_nobody_has\n",
}
UNHELD = ("--sandbox", "off", "--yolo")
"""In a sandbox a gate would not see the files by which these tests talk to it."""
DOUBLE = "def double(a):\n    return 2 * a\n"


@pytest.fixture
def scenario(tmp_path):
    made = Scenario(tmp_path)
    made.configure()
    made.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{made.environ['PATH']}"  # noqa: PTH120 - a name
    yield made
    assert wait_until(lambda: not made.processes()), "a process was left behind"


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


def told(done):
    """Return the events of a run that was told as JSON."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_tests_of_a_repository_are_known_before_work_and_speak_for_it_after(scenario):
    """AL-10, BX-1: what failed before is allowed, told, and no reason to fail the run."""
    repository(scenario, TESTS)
    one_action(scenario)
    done = scenario.run("--yes", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    types = [event["type"] for event in told(done)]
    baseline = told(done)[types.index("baseline_captured")]
    assert (baseline["gate"], baseline["passed"], baseline["failed"]) == ("test", 1, 1)
    assert types.index("baseline_captured") < types.index("attempt_queued")
    status = scenario.status()
    mirrored = json.loads((scenario.repo / ".scaffold" / "baselines" / f"{status['run']['id']}.json").read_text())
    assert "test_old.py::test_old" in json.dumps(mirrored)
    (fact,) = status["goals"][0]["facts"]
    assert {each["kind"] for each in fact["evidence"]} == {"contract", "gate"}
    assert "gate test: " in scenario.scaffold("contract", "double").stdout


def test_an_environment_that_is_not_ready_stops_a_run_before_anybody_is_asked(scenario):
    """AL-10: it says what is missing and what to do; no model was asked, nothing was spent."""
    repository(scenario, NEEDS_MORE)
    double = action("double", effects=["doubles"], check="test -f more.py")
    add_planner(
        scenario.cassette(double=[write("more.py", DOUBLE)]), [goal("calc", "doubles"), actions("calc", double)]
    )
    done = scenario.request("double it", "--yes")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "environment_not_ready" in done.stderr
    assert "a_module_nobody_has" in done.stderr
    assert "scaffold retry" in done.stderr
    assert "Traceback" not in done.stderr
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
def test_tests_with_a_tag_hold_work_before_it_lands(scenario):
    """AL-11: touching `pay` runs tests tagged `pay`, which nothing else would lead to."""
    for path in TAGGED:
        (scenario.repo / path).parent.mkdir(exist_ok=True)
    repository(scenario, {**TESTS, **TAGGED})
    scenario.configure(quality_gates={"tags": ["pay @pay"]})
    scenario.plan(plan_of(calc=[action("double", effects=["doubles"], check="grep -q 3 pay/rate.txt")]))
    scenario.cassette(double=[write("pay/rate.txt", "3")])
    done = scenario.run("--yes")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "smoke/test_far.py::test_far" in scenario.scaffold("contract", "double").stdout
    (session,) = scenario.git("branch", "--list", "session-*", "--format=%(refname:short)").split()
    assert scenario.git("rev-parse", session) == scenario.git("rev-parse", "main")


@pytest.mark.slow
def test_a_plan_that_is_given_is_stopped_just_the_same_and_its_goals_fail_with_it(scenario):
    """AL-10: retried and resumed it tries again; programs get their result line."""
    tool = scenario.home / "gate-tool"
    scenario.configure(quality_gates={"test": str(tool)})
    one_action(scenario)
    done = scenario.run("--yes", "--json", *UNHELD)
    assert done.returncode == 1, done.stdout + done.stderr
    assert told(done)[-1]["run"]["status"] == "failed"
    assert [each["status"] for each in scenario.status()["goals"]] == ["failed"]
    assert [each["attempts"] for each in scenario.status()["actions"]] == [[]]
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert scenario.scaffold("retry").returncode == 0
    resumed = scenario.scaffold("resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert scenario.status()["run"]["status"] == "completed"


@pytest.mark.slow
def test_what_is_configured_after_an_environment_was_not_ready_counts_when_it_is_tried_again(scenario):
    """AL-10: as it is told to; once there is a baseline, work goes on being held against that."""
    scenario.configure(quality_gates={"test": "no-such-runner"})
    one_action(scenario)
    done = scenario.run("--yes")
    assert (done.returncode, "`quality_gates.test`" in done.stderr) == (1, True), done.stdout + done.stderr
    scenario.configure(quality_gates={"test": "test -f README.md"})
    assert scenario.scaffold("retry").returncode == 0
    resumed = scenario.scaffold("resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert gates_of(scenario) == ["test -f README.md"]


@pytest.mark.slow
def test_who_goes_on_with_a_run_that_was_killed_before_its_baseline_has_what_is_configured_now(scenario):
    """AL-10, AL-27: by `run --yes` with the same input, as by `resume`."""
    begun = scenario.home / "begun"
    scenario.configure(quality_gates={"test": f"touch '{begun}' && sleep 600"})
    one_action(scenario)
    process = scenario.start(scenario.run_command("--yes", *UNHELD))
    assert wait_until(begun.exists, 20)
    process.kill()
    assert process.wait(10) == -signal.SIGKILL
    assert wait_until(lambda: not scenario.processes(), 10)
    scenario.configure(quality_gates={"test": "test -f README.md"})
    done = scenario.run("--yes", *UNHELD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "which was interrupted" in done.stderr
    assert gates_of(scenario) == ["test -f README.md"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mending",
    [[["trust"], ["retry"], ["resume"]], [["retry"], ["resume", "--yes", "--trust-once"]]],
    ids=["trusted", "trusted once"],
)
def test_set_up_that_is_configured_and_not_trusted_is_what_the_user_is_told_to_trust(scenario, mending):
    """AL-10, BX-1: and once that is done, be it for one command alone, the same run goes on."""
    makes_tool = "mkdir node_modules && echo '#!/bin/sh' > node_modules/tool && chmod +x node_modules/tool\n"
    repository(scenario, {".gitignore": "node_modules\n", "deps.sh": makes_tool})
    scenario.configure(setup=["sh deps.sh"], quality_gates={"test": "node_modules/tool"})
    one_action(scenario)
    done = scenario.run("--yes")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Run `scaffold trust` so that `sh deps.sh` may run" in done.stderr
    for mended in mending:
        done = scenario.scaffold(*mended)
        assert done.returncode == 0, done.stdout + done.stderr
    assert scenario.status()["run"]["status"] == "completed"


@pytest.mark.slow
def test_killed_while_its_gates_are_asked_a_run_begins_again(scenario):
    """BX-15, AL-10: nothing is held against half a baseline, and no gate is left behind."""
    go = scenario.home / "go"
    scenario.configure(quality_gates={"test": f"test -f {go} || sleep 57"})
    one_action(scenario)
    running = scenario.start(scenario.run_command("--yes", *UNHELD))
    assert wait_until(lambda: asleep(scenario), 20), "no gate was asked"
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert wait_until(lambda: not asleep(scenario)), "the gate outlived who asked it"
    assert scenario.status()["run"]["status"] == "interrupted"
    go.touch()
    resumed = scenario.scaffold("resume")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert scenario.status()["run"]["status"] == "completed"
    assert len(scenario.git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("planned", [False, True], ids=["given", "planned"])
def test_interrupted_while_its_gates_are_asked_a_run_is_paused(scenario, planned):
    """AL-10: at once, with the gate gone."""
    scenario.configure(quality_gates={"test": "sleep 57"})
    one_action(scenario)
    argv = scenario.request_command("double it", "--yes") if planned else scenario.run_command("--yes")
    running = scenario.start(argv)
    assert wait_until(lambda: asleep(scenario), 20), "no gate was asked"
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(timeout=20) == 130
    assert scenario.status()["run"]["status"] == "paused"


def test_what_would_break_an_earlier_fact_is_refused_and_mended_by_who_made_it(scenario):
    """BX-1, SC-4: its second attempt is told what it breaks, and does better; both facts hold at the tip."""
    scenario.plan(
        plan_of(
            letters=[
                action("a", effects=["has_a"], check="grep -q a letters"),
                action("b", needs=["has_a"], effects=["has_b"], check="grep -q b letters"),
            ]
        )
    )
    scenario.replies(
        asked("implementation", write("letters", "a\n"), action="a", turn=1),
        asked("implementation", read("letters"), write("letters", "b\n"), action="b", attempt=1, turn=1),
        asked("implementation", read("letters"), write("letters", "a\nb\n"), action="b", attempt=2, turn=1),
        said("implementation"),
    )
    done = scenario.run("--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    status = scenario.status()
    attempts = next(each["attempts"] for each in status["actions"] if each["key"] == "b")
    assert [each["outcome"] for each in attempts] == ["gate_failed", "landed"]
    assert attempts[0]["error"].startswith("breaks has_a of a")
    facts = status["goals"][0]["facts"]
    tip = scenario.git("rev-parse", status["run"]["session_branch"]).strip()
    assert [(each["state"], each["commit"]) for each in facts] == [("holds", tip), ("holds", tip)]


def read(path):
    return {"name": "read_file", "args": {"path": path}}


def asleep(scenario):
    """Return the gates of this scenario that are asleep."""
    found = []
    for pid in scenario.processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
                found += [pid] if file.read().startswith(b"sleep\x0057") else []
        except OSError:
            continue
    return found


def test_a_plan_alone_runs_no_command_of_the_repository(scenario):
    """AL-10: gates are run for work, and `plan` does none: what is broken is no reason to give no plan."""
    repository(scenario, {**TESTS, "test_calc.py": "open('ran', 'w').close()\nimport a_module_nobody_has\n"})
    cassette = scenario.cassette(double=[write("more.py", DOUBLE)])
    made = action("double", effects=["doubles"], check="grep -q double more.py")
    model = add_planner(cassette, [goal("calc", "doubles")], [actions("calc", made)])
    done = scenario.scaffold("plan", "double it", "--model", model, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["goals"][0]["name"] == "calc"
    assert "baseline" not in done.stderr


@pytest.mark.slow
def test_a_test_that_goes_with_what_it_tested_is_told_wherever_the_gate_is(scenario):
    """AL-10, BX-5: nothing is lost in silence, though it may be on purpose."""
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
    assert scenario.run("--yes").returncode == 0
    shown = scenario.scaffold("contract", "lean").stdout
    assert "taken out with what it tested: test_twice.py::test_twice" in shown
    assert "test: pre_existing, 1 removed, " in scenario.scaffold("tasks").stdout
