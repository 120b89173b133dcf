"""A run that needs a human, by the real commands: paused, decided, and resumed."""

import json
import os
import signal

import pytest

from support.crash_points import SAMPLE, CrashPoint, try_every_point
from support.scenario import COMMAND_S, Scenario, action, plan_of, shell, wait_until, write

MAKE = "echo made > made.txt"
NO_SANDBOX = ("--yes", "--sandbox", "off")
ANY_SANDBOX = ("--yes", "--sandbox", "auto")
"""The default; with it a scenario leaves the approvals to the test, also on a machine without a sandbox."""
WAITS = 3
MOST_STEPS = 8


@pytest.fixture
def scenario(tmp_path):
    made = waiting_briefly(tmp_path)
    yield made
    made.wait_for_end()


def waiting_briefly(folder):
    made = Scenario(folder)
    set_wait_s(made, 0.2)
    return made


def set_wait_s(scenario, seconds):
    """Configure how long workers wait for a human."""
    scenario.configure(inbox={"wait_s": seconds})


def one_that_asks(scenario, *steps):
    scenario.plan(plan_of(g=[action("make", effects=["made"], check="test -s made.txt")]))
    scenario.cassette(make=[*(steps or (shell(MAKE),))])


def decide(scenario, *args):
    done = scenario.scaffold(*args, code=0)
    return done.stdout


def expect_landed(scenario, done, *outcomes):
    assert done.returncode == 0, done.stdout + done.stderr
    assert scenario.outcomes("make") == list(outcomes)
    assert scenario.status()["inbox"] == []


@pytest.mark.slow
def test_a_run_waits_for_an_approval_and_lands_after_it(scenario):
    """BX-13, RA-13: exit code 3, the open items and the exact commands; approved and resumed, it lands."""
    one_that_asks(scenario)
    before = scenario.checkout()
    done = scenario.run(*NO_SANDBOX, code=WAITS)
    (item,) = scenario.inbox()
    assert "waits for a human: 1 item" in done.stdout
    assert f"scaffold approve {item['id']} | scaffold reject {item['id']}" in done.stdout
    assert "scaffold resume" in done.stdout
    assert item["detail"]["subject"] == MAKE
    assert MAKE in scenario.scaffold("inbox").stdout
    assert scenario.scaffold("resume").returncode == WAITS, "nobody has decided yet"
    assert scenario.outcomes("make") == ["waiting"]
    assert "continue with `scaffold resume" in decide(scenario, "approve", item["id"])
    expect_landed(scenario, scenario.scaffold("resume"), "waiting", "landed")
    assert [each["state"] for each in scenario.inbox("--all")] == ["approved"]
    assert scenario.checkout() == before


@pytest.mark.slow
def test_other_goals_land_while_one_waits(scenario):
    """BX-13: other work continues; `status` shows first what needs a human."""
    scenario.plan(
        plan_of(
            asks=[
                action("make", effects=["made"], check="test -s made.txt"),
                action("after", needs=["made"], effects=["used"], check="test -s used.txt"),
            ],
            free=[action("guide", effects=["guided"], check="test -s GUIDE.md")],
        )
    )
    scenario.cassette(make=[shell(MAKE)], after=[write("used.txt", "x\n")], guide=[write("GUIDE.md", "# Guide\n")])
    scenario.run(*NO_SANDBOX, "--agents", "1", code=WAITS)
    status = scenario.status()
    assert {each["key"]: each["status"] for each in status["actions"]} == {
        "make": "blocked",
        "after": "pending",
        "guide": "completed",
    }
    assert [each["action"] for each in status["inbox"]] == ["make"]
    shown = scenario.scaffold("status").stdout
    assert shown.index("Needs you") < shown.index("asks: paused")
    decide(scenario, "approve", status["inbox"][0]["id"])
    scenario.scaffold("resume", code=0)


@pytest.mark.slow
@pytest.mark.postgres
def test_it_works_the_same_on_a_server(scenario, postgres_url):
    """BX-13: two wait for one approval, a third for an answer; both are decided, and everything lands."""
    scenario.environ["SCAFFOLD_DATABASE_URL"] = postgres_url
    keys = ("left", "right")
    made = [action(key, effects=[f"{key}_made"], check=f"test -s {key}.txt") for key in keys]
    scenario.plan(plan_of(g=made, q=[action("make", effects=["made"], check="test -s made.txt")]))
    same = [shell("echo made > $SCAFFOLD_ACTION.txt")]
    ask = {"name": "ask_human", "args": {"question": "Which word?"}}
    scenario.cassette(left=same, right=same, make=[ask, write("made.txt", "made\n")])
    scenario.run(*NO_SANDBOX, code=WAITS)
    ids = {item["kind"]: item["id"] for item in scenario.inbox()}
    assert sorted(ids) == ["approval", "question"]
    decide(scenario, "approve", ids["approval"])
    decide(scenario, "answer", ids["question"], "made")
    expect_landed(scenario, scenario.scaffold("resume"), "waiting", "landed")
    assert [each["state"] for each in scenario.inbox("--all")].count("open") == 0


@pytest.mark.slow
def test_a_run_resumed_by_the_same_input_takes_the_flags_too(scenario):
    """RA-13, AL-27: `run --yes --yolo` on an interrupted run withdraws the open approval, as `resume --yolo` does."""
    set_wait_s(scenario, 600)
    one_that_asks(scenario)
    process = scenario.start(scenario.run_command(*NO_SANDBOX))
    assert wait_until(scenario.inbox)
    process.kill()
    assert process.wait(COMMAND_S) == -signal.SIGKILL
    scenario.wait_for_end()
    expect_landed(scenario, scenario.run(*NO_SANDBOX, "--yolo"), "lost", "landed")
    assert [each["state"] for each in scenario.inbox("--all")] == ["withdrawn"]


@pytest.mark.slow
def test_a_category_denied_by_the_user_is_denied_for_workers(scenario):
    """RA-13: in any sandbox; the run keeps its setting if the configuration has changed since."""
    scenario.scaffold("config", "approvals.shell", "ask", code=0)
    one_that_asks(scenario)
    scenario.run(*ANY_SANDBOX, code=WAITS)
    (item,) = scenario.inbox()
    assert item["detail"]["subject"] == MAKE
    scenario.scaffold("config", "approvals.shell", "allow", code=0)
    assert scenario.scaffold("resume").returncode == WAITS, "it goes on as it began"
    decide(scenario, "approve", item["id"])
    expect_landed(scenario, scenario.scaffold("resume"), "waiting", "landed")


@pytest.mark.slow
def test_a_category_denied_by_a_trusted_project_is_denied_for_its_workers(scenario):
    """RA-13: nothing is asked, and the agent is told."""
    (scenario.repo / ".scaffold.yaml").write_text("approvals: {shell: deny}\n")
    scenario.commit("no commands")
    one_that_asks(scenario, shell(MAKE), write("made.txt", "written\n"))
    expect_landed(scenario, scenario.run("--yes", "--trust-once"), "landed")
    assert "shell is disabled here" in scenario.journal("g", "make")


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["run", "worker"])
def test_nothing_is_asked_twice_after_a_kill_of_run_or_worker(scenario, victim):
    """BX-13, BX-15, BX-17: the question outlives both; decided while both are dead, the decision counts."""
    set_wait_s(scenario, 60)
    one_that_asks(scenario)
    running = scenario.start(scenario.run_command(*NO_SANDBOX))
    assert wait_until(scenario.inbox)
    (item,) = scenario.inbox()
    if victim == "run":
        running.kill()
    else:
        os.kill(worker_of(scenario), signal.SIGKILL)
        assert wait_until(lambda: len(scenario.outcomes("make")) == 2)
        assert [each["id"] for each in scenario.inbox()] == [item["id"]]
        running.kill()
    running.wait()
    scenario.wait_for_end()
    decide(scenario, "approve", item["id"])
    scenario.scaffold("resume", code=0)
    assert len(scenario.inbox("--all")) == 1


def worker_of(scenario):
    """Return the process of the open attempt."""
    ((worker,),) = scenario.stored("SELECT worker FROM attempt WHERE status = 'claimed'")
    return json.loads(worker)["pid"]


def carried_on(scenario, number, **harness):
    """Do whatever the run needs until it has landed, with a kill at the given point; return the points passed.

    `harness` are further variables for the harness.
    """
    point = CrashPoint(scenario, number, **harness)
    for _ in range(MOST_STEPS):
        status = scenario.status()
        if (status["run"] or {}).get("status") == "completed":
            break
        with point.armed():
            if status["run"] is None:
                scenario.run(*NO_SANDBOX)
            elif status["inbox"]:
                scenario.scaffold("approve", status["inbox"][0]["id"])
            else:
                scenario.scaffold("resume")
        scenario.wait_for_end()
    return point.passed()


def expect_asked_once_and_landed(scenario):
    assert scenario.status()["run"]["status"] == "completed", scenario.scaffold("status").stdout
    assert [each["state"] for each in scenario.inbox("--all")] == ["approved"]
    assert scenario.outcomes("make").count("landed") == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [72])
def test_a_kill_on_the_way_to_an_approval_asks_nothing_twice(scenario, number):
    """BX-13, BX-15: run, worker or the deciding command, before or after a commit; a sample of the points."""
    one_that_asks(scenario)
    assert len(carried_on(scenario, number)) >= number, "the point was never passed"
    expect_asked_once_and_landed(scenario)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", SAMPLE)
def test_a_kill_at_any_point_on_the_way_to_an_approval_asks_nothing_twice(tmp_path, share):
    """BX-13, BX-15: after the first change of every place in the source."""

    def trial(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        scenario = waiting_briefly(folder)
        one_that_asks(scenario)
        places = carried_on(scenario, number, CRASH_DISTINCT="after")
        expect_asked_once_and_landed(scenario)
        scenario.wait_for_end()
        return places

    try_every_point(share, trial)
