"""Tests that did not change and say less: what they read is another, or no runner names them."""

import pytest

from integration.verify.builders import CALC
from scaffold.core.proof.gates import Gate
from scaffold.verify.regression.base_tests import doubts_about_tests


@pytest.mark.parametrize(
    ("code", "asked", "fates"),
    [
        ("add() { echo 3; }\n", "add | grep -q 3\n# another comment\n", {}),
        ("add() { echo 4; }\n", "add | grep -q 4\n", {"exit": "changed"}),
        ("add() { echo 4; }\n", None, {"exit": "changed"}),
    ],
    ids=["still passes", "changed", "gone"],
)
async def test_tests_that_no_runner_names_run_in_their_base_version_too(candidates, code, asked, fates):
    """AL-10, BX-5: of a gate that only has an exit code, it is the exit code that tells."""
    gate = Gate(kind="test", command="for each in tests/*.sh; do . ./lib.sh; . ./$each || exit 1; done", runner="exit")
    tests = {"tests/add.sh": "add | grep -q 3\n", "tests/there.sh": "true\n"}
    await candidates.begin({"lib.sh": "add() { echo 3; }\n", **tests}, gate)
    test = await candidates.after({"lib.sh": code, "tests/add.sh": asked}, files=("lib.sh", "tests/"))
    assert (test.blocks, test.base_tests) == (False, fates)
    named = [doubt.text.partition(": ")[2] for doubt in doubts_about_tests([test])]
    assert named == [gate.command] * len(fates)


READS = """\
import json
from pathlib import Path

from calc import add

EXPECTED = {"sum": 3}
if Path("tests/expected.json").exists():
    EXPECTED |= json.loads(Path("tests/expected.json").read_text())


def test_add():
    assert add(1, 2) == EXPECTED["sum"]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("added", "fates"),
    [
        ({"tests/expected.json": '{"sum": 0}'}, {"tests/test_add.py::test_add": "changed"}),
        ({"conftest.py": "import calc\ncalc.add = lambda a, b: 3\n"}, {"tests/test_add.py::test_add": "changed"}),
        ({"tests/__init__.py": "", "tests/test_more.py": "def test_it(): pass\n"}, {}),
    ],
)
async def test_tests_that_pass_only_with_new_data_or_a_new_conftest_are_doubtful(candidates, added, fates):
    """BX-5: as they were, they would fail. Work without such a file runs no test twice for this."""
    await candidates.begin({"calc.py": CALC, "tests/test_add.py": READS})
    code = CALC.replace("a + b", "0") if fates else CALC + "\n"
    head = await candidates.commit({"calc.py": code, **added})
    tree = await candidates.tree(candidates.base, head)
    test = await candidates.judge_in(tree, candidates.captured)
    assert (test.blocks, test.base_tests) == (False, fates)
    assert (await tree.git("status", "--porcelain")).out == b""


@pytest.mark.slow
async def test_new_data_for_new_tests_leaves_no_doubt(candidates):
    """BX-5: existing tests pass without it."""
    await candidates.begin({"calc.py": CALC, "tests/test_add.py": READS})
    uses = (
        "from pathlib import Path\n\n\ndef test_it(given):\n    assert Path('tests/more.json').read_text() == given\n"
    )
    fixture = "import pytest\n\n\n@pytest.fixture\ndef given():\n    return '3'\n"
    new = {"tests/more.json": "3", "tests/conftest.py": fixture, "tests/test_more.py": uses}
    test = (await candidates.judge(candidates.captured, candidates.base, await candidates.commit(new)))["test"]
    assert (test.verdict, test.base_tests) == ("pass", {})
