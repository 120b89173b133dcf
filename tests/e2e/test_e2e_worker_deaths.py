"""An agent whose work kills its worker each time: its goal waits and says why, others go on, and a human decides."""

import json
import os
import signal
import sqlite3
import sys

import pytest
from inline_snapshot import snapshot

from support.scenario import COMMAND_S, action, plan_of, shell, wait_until, write

pytestmark = pytest.mark.slow
KILL_OWN_WORKER = """
import json, os, signal, sqlite3, sys
attempt = os.environ["SCAFFOLD_ATTEMPT"].rpartition("/")[2]
(worker,) = sqlite3.connect(sys.argv[1]).execute("SELECT worker FROM attempt WHERE id = ?", (attempt,)).fetchone()
os.kill(json.loads(worker)["pid"], signal.SIGKILL)
"""


@pytest.fixture
def scenario(scenario):
    """A goal whose worker is killed by each of six commands until a file says otherwise, and a goal that is honest."""
    (scenario.home / "kill.py").write_text(KILL_OWN_WORKER)
    killing = f"{sys.executable} {scenario.home}/kill.py {scenario.repo}/.git/scaffold/state.db"
    scenario.plan(
        plan_of(
            bad=[action("a", effects=["a_done"], check="test -f a")],
            good=[action(f"g{n}", effects=[f"g{n}_done"], check=f"test -f g{n}") for n in range(3)],
        )
    )
    scenario.cassette(
        a=[*(shell(f"test -e {scenario.home}/mended || {killing} {n}") for n in range(6)), write("a", "1\n")],
        **{f"g{n}": [write(f"g{n}", "1\n")] for n in range(3)},
    )
    return scenario


def goal_named(scenario, name):
    return next(each for each in scenario.status()["goals"] if each["name"] == name)


def reason(scenario):
    return goal_named(scenario, "bad")["reason"] or ""


def skip_the_rest(scenario):
    """Let the time of the goal's rest pass."""
    with sqlite3.connect(scenario.repo / ".git" / "scaffold" / "state.db") as database:
        database.execute("UPDATE goal SET rests_until = rests_from WHERE rests_from IS NOT NULL")


def start_and_wait(scenario, reason_words):
    running = scenario.start(scenario.run_command("--yes", "--sandbox", "off", "--yolo"))
    assert wait_until(lambda: scenario.status()["goals"] and reason_words in reason(scenario))
    return running


def test_a_goal_whose_workers_die_waits_visibly_until_a_human_lets_it_go_on(scenario):
    """SC-16, SC-20, BX-17: after three deaths; the other goal is complete meanwhile; `retry` goes on at once."""
    running = start_and_wait(scenario, "waits: 3 workers died in a row; it is tried again at")
    assert scenario.outcomes("a") == ["lost"] * 3
    assert wait_until(lambda: goal_named(scenario, "good")["status"] == "completed")
    assert "waits: 3 workers died in a row" in scenario.scaffold("status").stdout
    (scenario.home / "mended").write_text("")
    scenario.scaffold("retry", "bad", code=0)
    assert running.wait(COMMAND_S) == 0
    assert scenario.outcomes("a") == ["lost"] * 3 + ["landed"]


def test_the_wait_survives_a_kill_of_the_owner(scenario):
    """SC-16, AL-27: it is in the store; a resumed run neither forgets the deaths nor adds to them."""
    running = start_and_wait(scenario, "3 workers died")
    os.kill(running.pid, signal.SIGKILL)
    running.wait(COMMAND_S)
    assert wait_until(lambda: not scenario.processes())
    before = reason(scenario)
    resumed = scenario.start(scenario.command("resume"))
    assert wait_until(lambda: scenario.status()["run"]["status"] == "active")
    assert reason(scenario) == before
    (scenario.home / "mended").write_text("")
    scenario.scaffold("retry", "a", code=0)
    assert resumed.wait(COMMAND_S) == 0


def test_after_six_deaths_the_run_asks_in_the_inbox_and_exits_for_a_human(scenario):
    """SC-16, SC-20, BX-13: nothing is tried for ever, and nothing fails; the answer reaches the next attempt."""
    running = start_and_wait(scenario, "3 workers died")
    while running.poll() is None:
        skip_the_rest(scenario)
        wait_until(lambda: running.poll() is not None, 1.0)
    assert running.returncode == 3
    status = scenario.status()
    assert status["run"]["reason"] == "waits for a human: 1 item"
    assert reason(scenario) == snapshot("waits for you: 6 workers died in a row")
    (item,) = status["inbox"]
    assert item["kind"] == "question"
    assert "6 workers died in a row, the last at a: the worker exited with signal 9" in item["text"]
    (scenario.home / "mended").write_text("")
    scenario.scaffold("answer", item["id"], "leave other processes alone", code=0)
    scenario.scaffold("resume", code=0)
    assert scenario.outcomes("a") == ["lost"] * 6 + ["landed"]
    assert "leave other processes alone" in json.dumps(scenario.journal("bad", "a"))
