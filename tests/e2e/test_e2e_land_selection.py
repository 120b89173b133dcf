"""`land --only`: the tree that lands is the tree that was proven, although no landing of the run has made it."""

import json
import signal
import sys

import pytest

from support.landed_run import checkout_bytes
from support.scenario import COMMAND_S, Scenario, action, plan_of, wait_until, write

pytestmark = pytest.mark.slow

TESTS = """\
import pathlib

def test_ours():
    assert not pathlib.Path("BROKEN").exists()
"""


@pytest.fixture
def scenario(tmp_path):
    """`first` and `second` have nothing to do with each other; their checks fail, or last, with files of the user's."""
    made = Scenario(tmp_path)
    made.configure(quality_gates={"test": f"{sys.executable} -m pytest -q"})
    (made.repo / "test_ours.py").write_text(TESTS)
    made.commit("tests")
    check = "test -f {0}.txt && test ! -f BAD && if test -f SLOW; then sleep 60; fi"
    actions = [action(key, effects=[f"{key}_done"], check=check.format(key)) for key in ("first", "second")]
    made.plan(plan_of(both=actions))
    made.cassette(first=[write("first.txt", "1\n")], second=[write("second.txt", "2\n")])
    made.run("--yes", code=0)
    return made


def commit(scenario, name):
    (scenario.repo / name).write_text("theirs\n")
    scenario.commit(name)


def everything(scenario):
    return checkout_bytes(scenario.repo), scenario.git("for-each-ref"), scenario.git("worktree", "list")


@pytest.mark.parametrize(("file", "told"), [("BAD", "the checks of second"), ("BROKEN", "test_ours")])
def test_a_selection_that_does_not_pass_on_its_own_tree_is_refused_with_the_evidence(scenario, file, told):
    """BX-1, BX-2: a contract or a gate fails there; neither a branch, a file nor a fact changes."""
    commit(scenario, file)
    before, goals = everything(scenario), scenario.status()["goals"]
    done = scenario.scaffold("land", "--only", "second")
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr
    assert "scaffold rebase" in done.stderr
    assert (everything(scenario), scenario.status()["goals"]) == (before, goals)
    scenario.git("rm", "-q", file)
    scenario.git("commit", "-q", "-m", "mended")
    work = json.loads(scenario.scaffold("land", "--only", "second", "--json").stdout)
    assert (work["proven"], [each["action"] for each in work["commits"]]) == (True, ["second"])
    assert scenario.git("ls-tree", "--name-only", "main").split() == ["README.md", "second.txt", "test_ours.py"]


def test_the_checks_of_an_action_run_although_no_fact_says_that_it_holds(tmp_path):
    """BX-1: of two actions that make the same fact true only the last has it; one without checks is named."""
    made = Scenario(tmp_path)
    made.configure(quality_gates={"test": "true"})
    actions = [action(key, effects=["done"], check=f"test -f {key}.txt && test ! -f BAD") for key in ("one", "two")]
    actions.append({**action("bare", effects=["bare_done"]), "contract": None})
    made.plan(plan_of(both=actions))
    made.cassette(**{key: [write(f"{key}.txt", "1\n")] for key in ("one", "two", "bare")})
    made.run("--yes", "--agents", "1", code=0)
    commit(made, "BAD")
    done = made.scaffold("land", "--only", "one")
    assert (done.returncode, "the checks of one" in done.stderr) == (1, True), done.stderr
    done = made.scaffold("land", "--only", "bare", "--json")
    assert (json.loads(done.stdout)["proven"], "no check that could show bare" in done.stderr) == (False, True)


def test_an_interrupted_proof_leaves_nothing_behind(scenario):
    """BX-3, SC-16: no worktree, no process, no lease; the same command goes on, and says what it waits for."""
    commit(scenario, "SLOW")
    before = everything(scenario)
    proving = scenario.start(scenario.command("land", "--only", "second"))
    assert wait_until(lambda: "sleep 60" in scenario.said())
    proving.send_signal(signal.SIGINT)
    assert proving.wait(timeout=COMMAND_S) == 130
    assert "Repeat the command" in scenario.said()
    assert everything(scenario) == before
    scenario.scaffold("revert", "first", code=0)
