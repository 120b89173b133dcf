"""Tests that were written before the code that they import: they stop no run, and are evidence once they pass."""

import shutil

import pytest

from scaffold.core.proof.contract import Check, Contract
from scaffold.core.proof.gates import RED_ANYWAY, Gate
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.proof import prove_candidate
from scaffold.verify.proof_request import ProofRequest

UNITTEST = Gate(kind="test", command="python3 -m unittest", runner="unittest")
AREA = """\
import unittest
from {0} import area
class Area(unittest.TestCase):
    def test_area(self):
        self.assertEqual(area(2, 3), 6)
"""
OTHER = """\
import unittest
from calc import add
class Add(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 1), 2)
"""
BASE = {
    "test_shape.py": AREA.format("shape"),
    "test_calc.py": OTHER,
    "calc.py": "def add(a, b):\n    return a + b\n",
    "notes": "an array has a shape\n",
}
NEW = {"shape.py": "def area(a, b):\n    return a * b\n"}


async def prove(candidates, base, gate, files):
    captured = await candidates.capture(base, gate)
    assert not isinstance(captured, NotReady), captured
    check = Check(command=f"test -s {min(files)}")
    head = await candidates.commit(files)
    contract = Contract(commands=(check,))
    request = ProofRequest(contract=contract, failed_on_base=(check.command,), baseline=captured.baseline)
    return captured, await prove_candidate(request, await candidates.tree(base, head))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "verdict", "tests"),
    [
        (NEW, "pass", {}),
        ({"DOC.md": "none\n"}, "pre_existing", {"test_shape": "pre_existing"}),
        (
            {**NEW, "calc.py": "def add(a, b):\n    return a\n"},
            "new_failure",
            {"test_calc.Add.test_add": "new_failure"},
        ),
        ({"calc.py": "import nothing\n"}, "error", {"test_calc": "new_failure", "test_shape": "pre_existing"}),
    ],
)
async def test_what_the_work_is_to_bring_is_one_red_test_and_the_others_count(candidates, files, verdict, tests):
    """BX-4, AL-10: also for work that does not bring it; what cannot be loaded any more is refused."""
    captured, found = await prove(candidates, await candidates.commit(BASE), UNITTEST, files)
    (run,) = captured.baseline.runs
    assert dict(run.outcomes) == {"test_calc.Add.test_add": "passed", "test_shape": "error"}
    (gate,) = found.gates
    assert gate.verdict == verdict
    assert tests.items() <= gate.tests.items()
    assert not gate.blind


@pytest.mark.slow
async def test_tests_that_all_wait_for_code_are_no_evidence_until_they_can_be_loaded(candidates):
    """BX-4: the work of others lands with a doubt, and the work that brings the code with none."""
    base = await candidates.commit({"test_shape.py": AREA.format("shape"), "list": "one\n"})
    _, other = await prove(candidates, base, UNITTEST, {"list": "two\n"})
    assert [(gate.verdict, gate.blind) for gate in other.gates] == [("pre_existing", RED_ANYWAY)]
    _, found = await prove(candidates, base, UNITTEST, NEW)
    assert [(gate.verdict, gate.counts_for_work) for gate in found.gates] == [("pass", True)]


@pytest.mark.parametrize(
    "files",
    [
        {"requirements.txt": "shape>=2\n"},
        {"pyproject.toml": '[project]\nname = "x"\nversion = "1"\ndependencies = ["Shape"]\n'},
        {"draw.py": "from shape.lines import line\n"},
        {"lib/helpers/shape.py": ""},
    ],
)
async def test_what_code_or_a_manifest_asks_for_is_missing_from_the_environment(candidates, files):
    """AL-10: so is a module that is there and is not found."""
    base = await candidates.commit({"test_shape.py": AREA.format("shape"), **files})
    captured = await candidates.capture(base, UNITTEST)
    assert isinstance(captured, NotReady)
    assert "the Python module `shape` is not installed" in captured.what


NODE = """\
const {area} = require('./shape');
require('node:test')('area', () => require('node:assert').equal(area(2, 3), 6));
"""
GO = 'package x\n\nimport "testing"\n\nfunc TestArea(t *testing.T) {\n\tif Area(2, 3) != 6 {\n\t\tt.Fatal()\n\t}\n}\n'
WRITTEN = {
    "node": (
        Gate(kind="test", command="node --test", runner="node"),
        {"shape.test.js": NODE},
        {"shape.js": "exports.area = (a, b) => a * b;\n"},
    ),
    "go": (
        Gate(kind="test", command="go test ./...", runner="go"),
        {"go.mod": "module example.com/x\n\ngo 1.19\n", "x.go": "package x\n", "x_test.go": GO},
        {"area.go": "package x\n\nfunc Area(a, b int) int { return a * b }\n"},
    ),
    "make": (
        Gate(kind="test", command="make test"),
        {"Makefile": "test:\n\tpython3 -m unittest -q test_shape\n", "test_shape.py": AREA.format("shape")},
        NEW,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("program", WRITTEN)
async def test_tests_written_first_are_worked_on_with_any_runner(candidates, program):
    """BX-4, AL-10."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    gate, files, work = WRITTEN[program]
    _, found = await prove(candidates, await candidates.commit(files), gate, work)
    assert [each.verdict for each in found.gates] in (["pass"], ["fixed"]), found.gates
    assert found.gates[0].counts_for_work
