"""Tests that the sandbox keeps from passing, by the real commands: named in baselines and evidence."""

import asyncio
import json

import pytest

from builders import sandbox_or_skip
from support.scenario import Scenario, action, plan_of, write

TESTS = """\
import socket

def test_remote():
    socket.create_connection(("192.0.2.1", 80), timeout=2)

def test_broken():
    assert 1 == 2

def test_fine():
    pass
"""
HOME_TESTS = """\
import os

def test_home():
    os.mkdir(os.path.expanduser("~/made"))
    os.rmdir(os.path.expanduser("~/made"))

def test_fine():
    pass
"""
NAME, REASON = "test_all.py::test_remote", "the sandbox's network is loopback"


@pytest.fixture
def scenario(tmp_path):
    asyncio.run(sandbox_or_skip())
    made = Scenario(tmp_path)
    made.configure(quality_gates={"test": "python3 -m pytest -q"})
    (made.repo / "test_all.py").write_text(TESTS)
    made.commit("tests")
    made.plan(plan_of(docs=[action("guide", effects=["guide_written"], check="test -s GUIDE.md")]))
    made.cassette(guide=[write("GUIDE.md", "# Guide\n")])
    return made


@pytest.mark.slow
def test_what_cannot_be_checked_here_is_named_wherever_the_results_are(scenario):
    """AL-10, AL-11, BX-9: the failure counts as older than the work, and the evidence says that nobody checked."""
    done = scenario.run("--yes", code=0)
    named = f"1 test not checkable here: {NAME} ({REASON})"
    assert named in done.stdout + done.stderr
    gates = json.loads(scenario.scaffold("baseline", "--json").stdout)["gates"]
    assert [gate["not_checkable"] for gate in gates] == [{NAME: REASON}]
    assert sorted(gates[0]["not_passed"]) == ["test_all.py::test_broken", NAME]
    assert f"not checkable here: {REASON}" in scenario.scaffold("baseline").stdout
    (fact,) = scenario.status()["goals"][0]["facts"]
    assert [named in each["detail"] for each in fact["evidence"] if each["kind"] == "gate"] == [True]
    assert named in " ".join(scenario.scaffold("contract", "guide").stdout.split())


@pytest.mark.slow
def test_a_run_that_continues_in_another_sandbox_is_compared_with_results_from_there(scenario):
    """BX-4, AL-10: else a test that only the sandbox kept from passing would look mended, or broken."""
    (scenario.repo / "test_all.py").write_text(HOME_TESTS)
    scenario.commit("needs the home")
    scenario.cassette(guide=["nothing today"])
    assert scenario.run("--yes", "--sandbox", "off", "--yolo").returncode != 0
    (before,) = json.loads(scenario.scaffold("baseline", "--json").stdout)["gates"]
    assert (before["counts"], before["not_checkable"]) == ({"passed": 2}, {})
    scenario.cassette(guide=[write("GUIDE.md", "# Guide\n")])
    scenario.scaffold("retry", code=0)
    model = f"cassette:{scenario.home / 'cassette.yaml'}"
    scenario.scaffold("resume", "--sandbox", "require", "--model", model, code=0)
    (after,) = json.loads(scenario.scaffold("baseline", "--json").stdout)["gates"]
    assert after["counts"] == {"passed": 1, "failed": 1}
    assert list(after["not_checkable"]) == ["test_all.py::test_home"]
