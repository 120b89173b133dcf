"""What an agent reads when its work is refused, and what it may do about it, by the real command."""

import json
import os
import sys

import pytest

from support.scenario import action, plan_of, write

FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "pyproject.toml": "[project]\nname = 'calc'\nversion = '1'\n\n[tool.pytest.ini_options]\n",
}
SUB = "def sub(a, b):\n    return a - b\n"
BROKEN = "def add(a, b):\n    return a - b\n\n\n" + SUB
RIGHT = FILES["calc.py"] + "\n\n" + SUB
OTHER = FILES["test_calc.py"].replace("== 3", "== -1")
CHECK = "python -c 'from calc import sub; assert sub(3, 1) == 2'"
WAITS = 3


@pytest.fixture
def scenario(scenario):
    scenario.configure(inbox={"wait_s": 0.2})
    scenario.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{scenario.environ['PATH']}"  # noqa: PTH120 - a name
    for path, text in FILES.items():
        (scenario.repo / path).write_text(text)
    scenario.commit("a calculator")
    scenario.plan(plan_of(g=[action("sub", effects=["subtracts"], check=CHECK, files=["calc.py"])]))
    return scenario


def request(*paths):
    return {"name": "request_files", "args": {"paths": list(paths), "reason": "add is to subtract"}}


def read(scenario, kind, key="sub"):
    """Return the texts of one type of entry in an agent's journal."""
    entries = map(json.loads, scenario.journal("g", key).splitlines())
    return [json.dumps(each) if kind == "tool_result" else each["text"] for each in entries if each["type"] == kind]


@pytest.mark.slow
def test_a_refusal_names_tests_and_files_and_what_may_be_done(scenario):
    """AL-5, AL-6, AL-9: a test that fails is sent back; the test itself changed ends the attempt, and is the last."""
    scenario.cassette(sub=[write("calc.py", BROKEN), "done", write("test_calc.py", OTHER), "done"])
    scenario.run("--yes", code=1)
    first, broken = read(scenario, "prompt")
    assert "Ask for others with `request_files` before you change them" in first
    assert ": 1 test is worse than before the work:\n- test_calc.py::test_add fails: assert -1 == 3\n" in broken
    assert "1 failed" in broken
    assert "\n\nWhat you may do:\n- " in broken
    assert "`request_files`" in broken
    assert "change nothing more and say so" in broken
    assert "new_failure" not in broken
    (attempt,) = scenario.status()["actions"][0]["attempts"]
    named, why = attempt["error"].splitlines()
    assert named == "test_calc.py is an existing test or test data"
    assert why.startswith("These files determine check results, and the task does not declare them (they differ from")
    assert why.endswith(". If they are to change, declare them in the `files` of the action.")


@pytest.mark.slow
def test_a_request_for_an_existing_test_waits_for_a_human_and_is_shown(scenario):
    """AL-9, BX-13: a rule grants the rest; approved, the work lands by the wider declaration."""
    scenario.cassette(
        sub=[request("test_calc.py", "README.md"), write("calc.py", BROKEN), write("test_calc.py", OTHER), "done"]
    )
    scenario.run("--yes", code=WAITS)
    (item,) = scenario.inbox()
    assert item["detail"]["files"] == ["test_calc.py"]
    shown = scenario.scaffold("inbox").stdout
    assert "│ test_calc.py is an existing test or test data" in shown
    assert "It asks because add is to subtract." in shown
    scenario.scaffold("approve", item["id"], code=0)
    scenario.scaffold("resume", code=0)
    assert "Declared already: test_calc.py" in read(scenario, "tool_result")[-3]
    (stored,) = scenario.status()["actions"]
    assert stored["files"] == ["calc.py"]
    assert [(each["path"], each["by"]) for each in stored["granted_files"]] == [
        ("README.md", "rule"),
        ("test_calc.py", "human"),
    ]
    held = json.loads(scenario.scaffold("contract", "sub", "--json").stdout)
    assert (held["files"], len(held["granted_files"])) == (["calc.py"], 2)
    page = scenario.scaffold("contract", "sub").stdout
    assert "  README.md  added by rule, except what judges the work: add is to subtract" in page
    assert "  test_calc.py  added by a human: add is to subtract" in page
    assert "== -1" in scenario.git("show", f"{scenario.status()['run']['session_branch']}:test_calc.py")


@pytest.mark.slow
def test_an_action_that_fails_says_why_and_in_which_attempt(scenario):
    """AL-6: attempts after the first change nothing; the reason is still the test that failed."""
    scenario.configure(inbox={"wait_s": 0.2}, tiers={"builder": {"iterations": 1}})
    entries = [
        {"when": {"action": "sub", "attempt": 1, "turn": 1}, "tool_calls": [write("calc.py", BROKEN)]},
        {"when": {"action": "sub"}, "text": "done"},
    ]
    scenario.replies(*entries)
    scenario.run("--yes", code=1)
    (stored,) = scenario.status()["actions"]
    assert [each["outcome"] for each in stored["attempts"]] == ["gate_failed", "contract_failed", "contract_failed"]
    assert stored["reason"].startswith("gate_failed in attempt 1 of 3: The repository's tests (")
    assert "test_calc.py::test_add fails: assert -1 == 3" in stored["reason"]
    assert "gate_failed in attempt 1 of 3" in scenario.scaffold("status").stdout


@pytest.mark.slow
def test_an_agent_that_cannot_do_it_is_quoted_in_the_reason(scenario):
    """AL-6: it may say so, and a human reads why."""
    scenario.cassette(sub=["It cannot be done: there is no number."])
    scenario.run("--yes", code=1)
    reason = scenario.status()["actions"][0]["reason"]
    assert reason.endswith("nothing changed\nThe agent said: It cannot be done: there is no number.")
