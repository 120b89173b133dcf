"""Test files that the tested code changes while they run."""

import pytest
from inline_snapshot import snapshot

from integration.verify.builders import run_gate_once, tree_in, write_files
from scaffold.core.proof.contract import Check
from scaffold.core.proof.gates import Gate
from scaffold.verify.contract.check_runs import run_check
from scaffold.verify.contract.tamper_detection import runs_tests

REWRITES = """
import os
import pathlib

HELD = pathlib.Path("tests/test_sums.py")
HONEST = HELD.read_bytes()
WHEN = HELD.stat()
HELD.write_text("import unittest\\n\\n\\nclass Sums(unittest.TestCase):\\n    def test_add(self):\\n        pass\\n")


def put_back():
    HELD.write_bytes(HONEST)
    os.utime(HELD, ns=(WHEN.st_atime_ns, WHEN.st_mtime_ns))
"""
FIRST = """
import unittest

import sums


class First(unittest.TestCase):
    def test_first(self):
        self.assertTrue(sums.add)
"""
LAST = """
import unittest

import sums


class Last(unittest.TestCase):
    def test_last(self):
        getattr(sums, "put_back", print)()
"""
FAILS = (
    FIRST.replace("First", "Sums")
    .replace("test_first", "test_add")
    .replace("True(sums.add)", "Equal(sums.add(1, 2), 3)")
)
TESTS = {"tests/__init__.py": "", "tests/test_a.py": FIRST, "tests/test_sums.py": FAILS, "tests/test_z.py": LAST}
WRONG = "def add(a, b):\n    return 0\n"
RUNNERS = {"pytest": "python -m pytest -q", "unittest": "python -m unittest discover -t . tests"}


@pytest.mark.parametrize("runner", [pytest.param("pytest", marks=pytest.mark.slow), "unittest"])
async def test_tests_rewritten_during_import_prove_nothing_even_if_restored(tmp_path, runner):
    """BX-4, BX-5: as a gate, and as a check of a contract."""
    write_files(tmp_path, {"sums.py": WRONG + REWRITES, **TESTS})
    gate = Gate(kind="test", command=RUNNERS[runner], runner=runner)
    run = await run_gate_once(tmp_path, gate)
    assert set(run.outcomes.values()) == {"passed"}, "all is well, as it seems"
    result = await run_check(Check(command=gate.command), tree_in(tmp_path))
    assert (run.problem, result.verdict) == ("error", "error")
    said = [each.detail.partition("\n")[0] for each in (run, result)]
    text = snapshot("Test files changed during the run, so the result is invalid: tests/test_sums.py.")
    assert said == [text, text]
    assert (tmp_path / "tests/test_sums.py").read_text() == FAILS


PLANTS = """
import importlib.util
import marshal
import pathlib

import _pytest.assertion.rewrite as rewriting

HELD = pathlib.Path("tests/test_sums.py").resolve()
TEXT = "import unittest\\nclass Sums(unittest.TestCase):\\n    def test_add(self):\\n        pass\\n"
CODE = compile(TEXT, str(HELD), "exec")
FOLDER = HELD.parent / "__pycache__"
FOLDER.mkdir(exist_ok=True)
HEAD = importlib.util.MAGIC_NUMBER + bytes([3, 0, 0, 0]) + importlib.util.source_hash(HELD.read_bytes())[:8]
(FOLDER / f"{HELD.stem}{rewriting.PYC_TAIL}").write_bytes(HEAD + marshal.dumps(CODE))
"""


async def test_tests_compiled_by_the_tested_code_prove_nothing(tmp_path):
    """BX-4, BX-5: a runner would take the byte code for the source."""
    write_files(tmp_path, {"sums.py": WRONG + PLANTS, **TESTS})
    run = await run_gate_once(tmp_path, Gate(kind="test", command=RUNNERS["pytest"], runner="pytest"))
    assert (set(run.outcomes.values()), run.problem) == ({"passed"}, "error")
    assert "tests/__pycache__/test_sums." in run.detail.partition("\n")[0]


@pytest.mark.slow
async def test_files_that_tests_write_themselves_are_allowed(tmp_path):
    """BX-4: their data, and a generated test file that git does not track."""
    makes = "import pathlib\n\n\ndef test_makes():\n    {}\n    {}\n    {}\n".format(
        'pathlib.Path("tests/data.txt").write_text("new")',
        'pathlib.Path("tests/test_made.py").write_text("def test_made():\\n    pass\\n")',
        "pathlib.Path(__file__).read_text()",
    )
    write_files(tmp_path, {"tests/test_a.py": makes, "tests/data.txt": "old", ".gitignore": "test_made.py\n"})
    tree, gate = tree_in(tmp_path), Gate(kind="test", command=RUNNERS["pytest"], runner="pytest")
    assert (await run_check(Check(command=gate.command), tree)).verdict == "pass"
    assert (await run_check(Check(command=gate.command), tree)).verdict == "pass"
    assert (await run_gate_once(tmp_path, gate)).problem is None


def test_a_command_runs_tests_if_it_names_a_runner():
    runs = {
        "python -m pytest -q": True,
        "cd web && npx vitest run": True,
        "node --test": True,
        "node --import tsx --test test/": True,
        "go test ./...": True,
        "cargo test --workspace": True,
        "python -m unittest": True,
        "make test": True,
        "npm run test:unit": True,
        "sh tools/run-tests.sh": True,
        "make contest": False,
        "go vet ./...": False,
        "ruff format .": False,
        "node -e 'require(1)'": False,
        "test -f README.md": False,
    }
    assert {command: runs_tests(command) for command in runs} == runs
