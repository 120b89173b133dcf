"""Other gates on real programs: unittest, linters, commands with only an exit code, missing tools."""

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from integration.verify.builders import UNITTEST_OUTCOMES, run_gate_once, tree_in, write_files
from scaffold.core.proof.contract import Check
from scaffold.core.proof.gates import Gate
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.verify.contract.check_runs import run_check
from scaffold.verify.gates.observed_run import run_gate
from scaffold.verify.regression.comparison import compare_gate_runs

UNITTEST = Gate(kind="test", command="python -m unittest", runner="unittest")
PASSES_ALL = """
def _run(self, result):
    result.startTest(self)
    result.addSuccess(self)


unittest.TestCase.run = _run
"""
ONE = "import unittest\n\n\nclass TestOne(unittest.TestCase):\n    def test_one(self):\n        {}\n"


async def test_every_unittest_outcome_is_reported_under_its_name(tmp_path):
    """BX-4: typed outcomes per test, from the runner's report."""
    shown = await run_gate_once(write_files(tmp_path, {"test_all.py": UNITTEST_OUTCOMES}), UNITTEST)
    assert (shown.problem, shown.exit_code) == (None, 1), shown.detail
    assert dict(shown.outcomes) == {
        "test_all.TestAll.test_passes": "passed",
        "test_all.TestAll.test_fails": "failed",
        "test_all.TestAll.test_breaks": "failed",
        "test_all.TestAll.test_skipped": "skipped",
        "test_all.TestAll.test_foreseen": "skipped",
        "test_all.TestAll.test_unforeseen": "failed",
        "test_all.TestAll.test_parts": "failed",
        "test_all.TestAll.test_parts > (number=2)": "failed",
        "setUpClass (test_all.TestUnprepared)": "error",
        "test_all.TestUnprepared.test_never": "error",
    }


@pytest.mark.slow
async def test_unusable_runs_are_classified(tmp_path):
    """BX-4: a run without tests is vacuous; an early end, a false report or a failing import is an error."""
    bodies = {
        None: ("vacuous", "no test"),
        "import nothing_like_it": ("error", "test_one"),
        ONE.format("import os; os._exit(0)"): ("error", "in test_one.TestOne.test_one"),
        f"import os\nos._exit(0)\n{ONE}": ("error", "before its report was complete"),
        f"{ONE.format('self.fail()')}\nimport atexit, os\natexit.register(os._exit, 0)": ("error", "exit code is 0"),
        f"{ONE.format('self.fail()')}\n{PASSES_ALL}": ("error", "cannot be trusted"),
        f"{ONE.format('pass')}\nclass TestTwo(TestOne):\n    def setUp(self):\n        self.skipTest('')": (None, ""),
    }
    found = {}
    for number, (body, (_, word)) in enumerate(bodies.items()):
        files = {"test_one.py": body} if body else {"a": ""}
        shown = await run_gate_once(write_files(tmp_path / str(number), files), UNITTEST)
        found[body] = (shown.problem, word if word in shown.detail else shown.detail)
    assert found == bodies


async def test_only_selected_unittest_tests_run(tmp_path):
    """AL-11: by name or by file."""
    write_files(tmp_path, {"test_one.py": ONE.format("pass"), "test_two.py": ONE.format("self.fail()")})
    by_name = await run_gate_once(tmp_path, UNITTEST, only=("test_one.TestOne.test_one",))
    assert (by_name.problem, dict(by_name.outcomes)) == (None, {"test_one.TestOne.test_one": "passed"})
    by_file = await run_gate_once(tmp_path, UNITTEST, only=("test_two.py",))
    assert dict(by_file.outcomes) == {"test_two.TestOne.test_one": "failed"}
    (tmp_path / "test_one.py").write_text("raise SystemExit('loaded')\n")
    alone = await run_gate_once(tmp_path, UNITTEST, only=("test_two.py",))
    assert dict(alone.outcomes) == dict(by_file.outcomes)


DOCTESTED = 'def double(x):\n    """Twice x.\n\n    >>> double(2)\n    4\n    """\n    return 2 * x\n'
LOADS_DOCTESTS = """\
import doctest

import calc


def load_tests(loader, tests, pattern):
    return doctest.DocTestSuite(calc)
"""


async def test_doctests_that_another_file_loads_belong_to_their_source(tmp_path):
    """BX-4: selected by it, they run; otherwise they would count as lost."""
    write_files(tmp_path, {"calc.py": DOCTESTED, "test_calc.py": LOADS_DOCTESTS})
    whole = await run_gate_once(tmp_path, UNITTEST)
    of_source = await run_gate_once(tmp_path, UNITTEST, only=("calc.py",))
    assert dict(whole.outcomes) == dict(of_source.outcomes) == {"calc.double": "passed"}


async def test_findings_are_reported_without_line_numbers(tmp_path):
    """AL-9: findings are compared with earlier ones, wherever they have moved."""
    lines = "a.py:1:8: F401 os unused\\na.py:9:1: F401 os unused\\nsrc/b.py:3: error: no\\nFound 3 errors.\\n"
    gate = Gate(kind="lint", command=f"printf '{lines}'; exit 1", runner="findings")
    shown = await run_gate_once(tmp_path, gate)
    assert (shown.problem, shown.exit_code) == (None, 1)
    assert dict(shown.outcomes) == {"a.py: F401": "failed", "src/b.py: error: no": "failed"}
    assert dict(shown.counts) == {"a.py: F401": 2}
    clean = await run_gate_once(tmp_path, Gate(kind="lint", command="echo a.py:1:1: warned", runner="findings"))
    assert (clean.problem, clean.exit_code, dict(clean.outcomes)) == (None, 0, {})


@pytest.mark.slow
async def test_ruff_and_mypy_report_their_findings(tmp_path):
    write_files(tmp_path, {"a.py": "import os\nimport sys\n", "b.py": "number: int = 'one'\n"})
    ruff = await run_gate_once(tmp_path, Gate(kind="lint", command="ruff check --no-cache .", runner="findings"))
    assert dict(ruff.counts) == {"a.py: F401": 2}
    assert [said.replace("[*] ", "") for said in ruff.messages["a.py: F401"]] == snapshot(
        ["a.py: F401 `os` imported but unused", "a.py: F401 `sys` imported but unused"]
    )
    mypy = await run_gate_once(
        tmp_path, Gate(kind="typecheck", command="mypy --cache-dir=/dev/null b.py", runner="findings")
    )
    assert list(mypy.outcomes) == ["b.py: assignment"]


@pytest.mark.slow
async def test_a_finding_that_mypy_prints_over_several_lines_is_known_by_its_code(tmp_path):
    long = "a_function_with_a_name_that_leaves_no_room_for_the_code_in_the_same_line_of_a_terminal"
    write_files(
        tmp_path, {"b.py": f"def {long}(a: int) -> str:\n    return a\n", "mypy.ini": "[mypy]\npretty = True\n"}
    )
    gate = Gate(kind="typecheck", command="mypy --cache-dir=/dev/null b.py", runner="findings")
    shown = await run_gate_once(write_files(tmp_path, {"c.py": f"from b import {long}\n{long}('text', 5)\n"}), gate)
    assert list(shown.outcomes) == ["b.py: return-value"]
    gate = Gate(kind="typecheck", command="mypy --cache-dir=/dev/null c.py", runner="findings")
    assert "c.py: call-arg" in (await run_gate_once(tmp_path, gate)).outcomes


async def test_a_command_is_judged_by_its_exit(tmp_path):
    """BX-4: a missing tool and a killed command are errors, not failures."""
    write_files(tmp_path, {"not-executable": "#!/bin/sh\n"})
    results = {
        "true": (None, {"exit": "passed"}),
        "exit 3": (None, {"exit": "failed"}),
        "nosuchcommand": ("error", {}),
        "./not-executable": ("error", {}),
        "kill -9 $$": ("error", {}),
        "sh -c 'kill -15 $$'; exit $?": ("error", {}),
    }
    found = {command: await run_gate_once(tmp_path, Gate(kind="build", command=command)) for command in results}
    assert {command: (shown.problem, dict(shown.outcomes)) for command, shown in found.items()} == results


async def test_a_gate_runs_in_its_folder_and_a_missing_folder_is_an_error(tmp_path):
    write_files(tmp_path, {"part/made": ""})
    assert (await run_gate_once(tmp_path, Gate(kind="build", command="test -f made", folder="part"))).exit_code == 0
    gone = await run_gate_once(tmp_path, Gate(kind="build", command="true", folder="gone"))
    assert (gone.problem, gone.exit_code) == ("error", 127)


async def test_nothing_of_ours_is_left_behind(tmp_path):
    temporary = tmp_path / "temporary"
    tree = tree_in(write_files(tmp_path / "tree", {"test_one.py": ONE.format("pass")}))
    tree = structs.replace(tree, sandbox=SandboxSpec("none", Confinement(writable=(), temporary=temporary)))
    shown = await run_gate(UNITTEST, tree, environment="here", timeout_s=60)
    assert dict(shown.outcomes) == {"test_one.TestOne.test_one": "passed"}
    assert list(temporary.glob("gate-*")) == []


@pytest.mark.slow
async def test_output_above_the_limit_is_an_error(tmp_path):
    gate = Gate(kind="lint", command="yes a.py:1:1: no | head -c 50000001; exit 1", runner="findings")
    shown = await run_gate_once(tmp_path, gate)
    assert (shown.problem, "more than 50000000 bytes" in shown.detail) == ("error", True)


async def test_assertions_that_a_unittest_replaced_are_recorded(tmp_path):
    """BX-4: those of every test case."""
    code = (
        "import unittest\n\nclass Test(unittest.TestCase):\n    def test_a(self):\n"
        "        unittest.TestCase.assertEqual = lambda *_: None\n        self.assertEqual(1, 2)\n"
    )
    shown = await run_gate_once(write_files(tmp_path, {"test_a.py": code}), UNITTEST)
    assert (shown.problem, shown.replaced) == (None, ("unittest.case.TestCase.assertEqual",)), shown.detail


@pytest.fixture
def logged(tmp_path):
    """A tree that keeps logs, and what it has kept."""
    kept = {}

    def keep(name, text):
        kept[name] = text
        return f"logs/{name}.log"

    return structs.replace(tree_in(write_files(tmp_path, {"a": ""})), keep_log=keep), kept


async def test_of_a_gate_that_cannot_judge_the_last_lines_are_shown_and_all_of_it_is_kept(logged):
    """AL-10: 30 lines, and the path of the log; nothing is kept of gates that pass."""
    tree, kept = logged
    many = Gate(kind="build", command="seq 100; exit 127")
    broken = await run_gate(many, tree, environment="here", timeout_s=60)
    assert broken.detail.splitlines()[1:] == [str(number) for number in range(71, 101)]
    ((name, text),) = kept.items()
    assert name.startswith(f"build-{tree.commit[:12]}-")
    assert text == "\n".join(["$ seq 100; exit 127", *map(str, range(1, 101)), ""])
    assert broken.log == f"logs/{name}.log"
    assert compare_gate_runs(None, broken).log == broken.log
    kept.clear()
    passed = await run_gate(Gate(kind="build", command="seq 100"), tree, environment="here", timeout_s=60)
    assert (passed.log, kept) == ("", {})


async def test_the_whole_output_of_a_failed_gate_and_of_a_long_failed_check_is_kept(logged):
    """AL-10, SC-19: each in a file of its own, so that a later run does not replace it."""
    tree, kept = logged
    gate = await run_gate(Gate(kind="build", command="echo no; exit 1"), tree, environment="here", timeout_s=60)
    long, again, short, passed = [
        await run_check(Check(command=command), tree)
        for command in ("seq 9000; exit 1", "seq 8000; exit 1", "seq 9; exit 1", "seq 9000")
    ]
    assert [kept[Path(each.log).stem] for each in (gate, long, again)] == [
        "$ echo no; exit 1\nno\n",
        *("\n".join([f"$ seq {n}; exit 1", *map(str, range(1, n + 1)), ""]) for n in (9000, 8000)),
    ]
    assert (short.log, passed.log, len(kept)) == ("", "", 3)
    assert short.detail.endswith("\n".join(map(str, range(1, 10))))
