"""What commands see of the user's home, with the real commands."""

import asyncio
import json
import sys

import pytest

from builders import sandbox_or_skip
from support.scenario import Scenario, action, calls_entry, plan_of, shell, text_entry, write

TESTS = "import unittest, calc\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(calc.ONE, 1)\n"


@pytest.fixture
def scenario(tmp_path):
    asyncio.run(sandbox_or_skip())
    made = Scenario(tmp_path)
    (made.home / "data").mkdir()
    (made.home / "data" / "x.csv").write_text("from the home")
    (made.home / "data" / ".env").write_text("API_KEY=hunter2hunter2\n")
    return made


def results(scenario, *commands):
    """Return what an agent is answered for these commands."""
    cassette = scenario.replies(calls_entry("agent", *map(shell, commands), turn=1), text_entry("agent"))
    command = scenario.command(
        "ralph", "go", "--yolo", "--model", f"cassette:{cassette}", "--output-format", "stream-json"
    )
    events = map(json.loads, scenario.call(command, code=0).stdout.splitlines())
    return [event["content"] for event in events if event["type"] == "tool_result"]


@pytest.mark.slow
def test_a_hidden_path_is_told_and_shown_once_the_user_says_so(scenario):
    """BX-9: and not because the repository says so; its secrets stay hidden."""
    reading = "cat ~/data/x.csv; python3 -c \"import os; print(open(os.environ['HOME'] + '/data/.' + 'env').read())\""
    (scenario.repo / ".scaffold.yaml").write_text("sandbox:\n  read: [~/data]\n")
    scenario.commit("a repository that wants more")
    scenario.scaffold("trust", "--yes", code=0)
    (said,) = results(scenario, "cat ~/data/x.csv")
    assert "from the home" not in said
    assert said.endswith("notice: ~/data is hidden from commands; to show it: sandbox.read: [~/data] in your settings")
    scenario.scaffold("config", "sandbox.read", "~/data", code=0)
    (said,) = results(scenario, reading)
    assert "from the home" in said
    assert "hunter2" not in said
    assert "redacted" not in said


@pytest.mark.slow
def test_a_run_whose_interpreter_is_hidden_says_so_and_goes_on_once_it_is_shown(scenario):
    """AL-10, BX-9: the same run, resumed."""
    base = scenario.home / "odd" / "bin"
    base.mkdir(parents=True)
    (base / "python3").write_text(f'#!/bin/sh\nexec {sys.base_prefix}/bin/python3 "$@"\n')
    (base / "python3").chmod(0o755)
    venv = scenario.repo / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text(f"home = {base}\n")
    for name in ("python", "python3"):
        (venv / "bin" / name).symlink_to(base / "python3")
    scenario.plan(plan_of(g=[action("a", effects=["done"], check="test -f done.txt")]))
    scenario.cassette(a=[write("done.txt", "x")])
    scenario.git("rm", "-rq", ".")
    for name, text in {"calc.py": "ONE = 1\n", "tests/test_calc.py": TESTS, ".gitignore": ".venv\nout\n"}.items():
        (scenario.repo / name).parent.mkdir(exist_ok=True)
        (scenario.repo / name).write_text(text)
    scenario.commit("tests that any Python runs")
    failed = scenario.run("--yes", code=1)
    assert "leads into ~/odd, which the sandbox hides from checks" in failed.stderr
    assert "~/odd is hidden from commands; to show it: sandbox.read: [~/odd] in your settings, then" in failed.stderr
    scenario.scaffold("config", "sandbox.read", "~/odd", code=0)
    run = scenario.status()["run"]["id"]
    scenario.scaffold("retry", run, code=0)
    scenario.scaffold("resume", run, "--yes", code=0)
