"""Real pytest: every outcome from its own report, and tampered runners."""

import os

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from integration.verify.builders import PYTEST_OUTCOMES, run_gate_once, tree_in, write_files
from scaffold.core.proof.gates import Gate
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.host.sandbox.level import detect_level
from scaffold.verify.gates.observed_run import run_gate

PYTEST = Gate(kind="test", command="python -m pytest -q", runner="pytest")
ADDS = "def add(a, b):\n    return 0\n"
TEST_B = "def test_b(): pass\n"
TESTS_ADD = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
PASS_ALL = "report.outcome = 'passed'; report.longrepr = None"
PASSING_HOOK = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    f"    outcome = yield\n    report = outcome.get_result()\n    {PASS_ALL}\n"
)
SELECTIVE_HOOK = PASSING_HOOK.replace("    report.outcome", "    if 'test_add' in item.nodeid: report.outcome")
PATCHED_REPORT = (
    "import _pytest.runner as runner\n_real = runner.TestReport.from_item_and_call\n\n\n"
    f"def _well(item, call):\n    report = _real(item, call)\n    {PASS_ALL}\n    return report\n\n\n"
    "runner.TestReport.from_item_and_call = _well\n"
)
PATCHED_CALL = "import _pytest.python as python\npython.Function.runtest = lambda self: None\n"
# Its own run's record alone: others may lie beside it, of tests that run at the same time.
FORGED = (
    "import os\n\n\ndef test_forges():\n    open_files = [os.path.realpath(f'/proc/self/fd/{n}') for n in range(99)]\n"
    "    [path] = [each for each in open_files if each.endswith('/record')]\n"
    "    text = open(path).read().replace('failed', 'passed')\n    open(path, 'w').write(text)\n"
)


async def test_every_outcome_is_reported_under_pytests_names(tmp_path):
    """BX-4: typed outcomes per test, from the runner's report."""
    shown = await run_gate_once(write_files(tmp_path, {"tests/test_all.py": PYTEST_OUTCOMES}), PYTEST)
    assert (shown.problem, shown.exit_code) == (None, 1)
    names = {name.removeprefix("tests/test_all.py::"): outcome for name, outcome in shown.outcomes.items()}
    assert names == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skipped": "skipped",
        "test_foreseen": "skipped",
        "test_unforeseen": "passed",
        "test_strictly_foreseen": "failed",
        "test_unprepared": "error",
        "test_untidy": "error",
        "test_each[a\\nb]": "passed",
        "test_each[\\xe9]": "failed",
        f"test_each[{'x' * 90}]": "passed",
        "TestOld::test_fails": "failed",
        "TestOld::test_passes": "passed",
    }


SLOWLY = pytest.mark.slow
CRASHES = "import os\ndef test_a(): os.{}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "problem", "word"),
    [
        ({}, "vacuous", "no test"),
        pytest.param(
            {"test_a.py": "import pytest\n@pytest.mark.skip\ndef test_a(): pass\n"}, "vacuous", "", marks=SLOWLY
        ),
        pytest.param({"test_a.py": "import nowhere\n", "test_b.py": TEST_B}, "error", "test_a.py", marks=SLOWLY),
        pytest.param({"conftest.py": "import nowhere\n", "test_b.py": TEST_B}, "error", "conftest.py", marks=SLOWLY),
        pytest.param({"test_a.py": CRASHES.format("abort()")}, "error", "Signal 6", marks=SLOWLY),
        pytest.param({"test_a.py": "import os\nos._exit(0)\n"}, "error", "", marks=SLOWLY),
        ({"test_a.py": CRASHES.format("_exit(0)")}, "error", "in test_a.py::test_a"),
        pytest.param(
            {"test_a.py": "import pytest\ndef test_a(): pytest.exit('enough', 0)\ndef test_b(): pass\n"},
            *("error", "Collected tests did not run"),
            marks=SLOWLY,
        ),
        pytest.param(
            {"pytest.py": "print('12 passed')\n", "test_a.py": "def test_a(): assert 0\n"},
            "error",
            "record",
            marks=SLOWLY,
        ),
        pytest.param({"pytest.ini": "[pytest]\naddopts = --nonsense\n"}, "error", "code 4", marks=SLOWLY),
    ],
)
async def test_unusable_runs_are_classified(tmp_path, files, problem, word):
    """BX-4: a run without tests is vacuous; a crash, an early end or a failing import is an error."""
    shown = await run_gate_once(write_files(tmp_path, files), PYTEST)
    # Of a file beside one that cannot be loaded the tests are told, but the run counts for nothing.
    told = word == "test_a.py"
    assert (shown.problem, "passed" in shown.outcomes.values()) == (problem, told)
    assert word in shown.detail
    assert shown.outcomes.get(word, "error") == "error", "a file that cannot be loaded"


@pytest.mark.slow
async def test_a_hanging_test_is_named_at_the_timeout(tmp_path):
    """BX-4: a deadline is a timeout, and not a failure."""
    hangs = "import threading\n\n\ndef test_quick(): pass\n\n\ndef test_hangs(): threading.Event().wait()\n"
    shown = await run_gate_once(write_files(tmp_path, {"test_a.py": hangs}), PYTEST, timeout_s=6)
    assert (shown.problem, shown.exit_code) == ("timeout", None)
    assert "test_a.py::test_hangs" in shown.detail


async def test_without_pytest_the_gate_is_an_error(tmp_path):
    gate = Gate(kind="test", command="python -S -m pytest", runner="pytest")
    shown = await run_gate_once(write_files(tmp_path, {"test_a.py": "def test_a(): pass\n"}), gate)
    assert (shown.problem, shown.detail.splitlines()[0]) == snapshot(("error", "pytest is not installed here."))


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"conftest.py": PASSING_HOOK}, id="conftest"),
        pytest.param({"tests/test_new.py": PATCHED_REPORT}, id="patched report", marks=SLOWLY),
        pytest.param({"tests/test_new.py": PATCHED_CALL}, id="patched call", marks=SLOWLY),
        pytest.param({"calc.py": f"{PATCHED_REPORT}{ADDS}"}, id="patching product", marks=SLOWLY),
        pytest.param(
            {"tests/test_new.py": "import atexit, os\natexit.register(os._exit, 0)\n"}, id="late exit", marks=SLOWLY
        ),
        pytest.param({"tests/test_new.py": FORGED}, id="forged record", marks=SLOWLY),
        pytest.param({"conftest.py": SELECTIVE_HOOK}, id="selective hook", marks=SLOWLY),
    ],
)
async def test_a_runner_that_hides_failures_is_detected(tmp_path, files):
    """BX-4: a report counts only with a failing canary test of ours, signed line by line; who raised has failed."""
    shown = await run_gate_once(
        write_files(tmp_path, {"calc.py": ADDS, "tests/test_add.py": TESTS_ADD, **files}),
        PYTEST,
        PYTHONPATH=str(tmp_path),
    )
    assert shown.problem == "error"
    assert shown.outcomes.get("tests/test_add.py::test_add") != "passed"


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [
        {"conftest.py": "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef gone():\n    raise OSError\n"},
        {
            "conftest.py": "def pytest_runtest_setup(item):\n    item.module, item.function, item.fixturenames\n"
            "def pytest_collection_modifyitems(items):\n    items.reverse()\n    assert len(items) == 2\n"
        },
        {"pytest.ini": "[pytest]\naddopts = -x -p no:cacheprovider --strict-markers --strict-config -W error\n"},
        {"pytest.ini": "[pytest]\naddopts = --import-mode=importlib -p no:terminal\n"},
        {"pytest.ini": "[pytest]\naddopts = --junit-xml=build/report.xml --maxfail=1 -v\n"},
    ],
    ids=["broken fixture", "hooks on items", "strict", "importlib", "junit"],
)
async def test_honest_projects_are_not_affected_by_the_recorder(tmp_path, files):
    tests = {"tests/test_a.py": "def test_a(): assert 0\ndef test_b(): pass\n"}
    shown = await run_gate_once(write_files(tmp_path, {**tests, **files}), PYTEST)
    assert (shown.problem, shown.exit_code, len(shown.outcomes)) == (None, 1, 2), shown.detail
    assert "canar" not in shown.detail + "".join(path.read_text() for path in tmp_path.glob("build/*"))


@pytest.mark.slow
async def test_the_recorder_works_in_xdist_workers_and_beside_other_plugins(tmp_path):
    files = {
        "tests/test_add.py": TESTS_ADD,
        "tests/test_more.py": "import pytest\n@pytest.mark.parametrize('n', range(20))\ndef test_n(n): pass\n",
        "calc.py": ADDS,
    }
    gate = Gate(kind="test", command="python -m pytest -q -n 2", runner="pytest")
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "", "PYTHONPATH": str(tmp_path)}
    honest = await run_gate_once(write_files(tmp_path, files), gate, **plain)
    assert (honest.problem, len(honest.outcomes)) == (None, 21), honest.detail
    assert [name for name, outcome in honest.outcomes.items() if outcome == "failed"] == ["tests/test_add.py::test_add"]
    lying = await run_gate_once(write_files(tmp_path, {"calc.py": f"{PATCHED_REPORT}{ADDS}"}), gate, **plain)
    assert (lying.problem, "cannot be trusted" in lying.detail) == ("error", True)


@pytest.mark.slow
async def test_only_selected_tests_run(tmp_path):
    """AL-11: by name or by file; others are not even imported."""
    files = {
        "tests/test_a.py": "def test_a(): pass\ndef test_b(): pass\n",
        "tests/test_c.py": "def test_c(): assert 0\n",
        "tests/test_broken.py": "import nothing_like_it\n",
    }
    write_files(tmp_path, files)
    one = await run_gate_once(tmp_path, PYTEST, only=("tests/test_a.py::test_b",))
    assert (one.problem, dict(one.outcomes)) == (None, {"tests/test_a.py::test_b": "passed"})
    some = await run_gate_once(tmp_path, PYTEST, only=("tests/test_c.py", "tests/test_a.py::test_a"))
    assert dict(some.outcomes) == {"tests/test_c.py::test_c": "failed", "tests/test_a.py::test_a": "passed"}
    none = await run_gate_once(tmp_path, PYTEST, only=("tests/test_a.py::test_gone",))
    assert none.problem == "vacuous"


@pytest.mark.slow
async def test_an_exit_code_without_a_failing_test_is_a_separate_outcome(tmp_path):
    """BX-4: exit code and report must agree; a missed threshold is neither a test's failure nor a pass."""
    fails = "def pytest_sessionfinish(session):\n    session.exitstatus = 1\n"
    write_files(tmp_path, {"test_a.py": "def test_a(): pass\n", "conftest.py": fails})
    whole = await run_gate_once(tmp_path, PYTEST)
    assert (whole.problem, dict(whole.outcomes)) == (None, {"test_a.py::test_a": "passed", "exit": "failed"})
    some = await run_gate_once(tmp_path, PYTEST, only=("test_a.py",))
    assert dict(some.outcomes) == {"test_a.py::test_a": "passed"}


async def test_processes_started_by_tests_inherit_nothing_of_ours(tmp_path):
    code = "import os\n\n\ndef test_a():\n    assert not [n for n in os.environ if 'SCAFFOLD' in n]\n"
    code += "    assert 'scribe' not in os.environ.get('PYTEST_ADDOPTS', '') + os.environ.get('PYTHONPATH', '')\n"
    shown = await run_gate_once(write_files(tmp_path, {"test_a.py": code}), PYTEST)
    assert dict(shown.outcomes) == {"test_a.py::test_a": "passed"}, shown.detail
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith((".", "_"))) == ["test_a.py"]


@pytest.mark.slow
async def test_in_the_sandbox_the_report_is_written_to_its_temporary_folder(tmp_path):
    """BX-4: gates run in the sandbox, and their report is not in the checkout."""
    finding = await detect_level(os.environ)
    if finding.level == "none":
        pytest.skip(f"{finding.problem}; {finding.fix}")
    top, temporary = tmp_path.resolve() / "tree", tmp_path.resolve() / "temporary"
    write_files(top, {"test_a.py": "def test_a(): pass\ndef test_b(): assert 0\n"})
    sandbox = SandboxSpec(finding.level, Confinement(writable=(top,), temporary=temporary))
    tree = structs.replace(tree_in(top), sandbox=sandbox)
    shown = await run_gate(PYTEST, tree, environment="here", timeout_s=60)
    assert (shown.problem, dict(shown.outcomes)) == (
        None,
        {"test_a.py::test_a": "passed", "test_a.py::test_b": "failed"},
    )
    assert list(temporary.glob("gate-*")) == []


REPLACING = """\
import unittest
import pytest

class Test(unittest.TestCase):
    def test_a(self):
        unittest.TestCase.assertEqual = lambda *_: None
        self.assertEqual(1, 2)

def test_b(monkeypatch):
    monkeypatch.setattr(pytest, "raises", None)

@pytest.fixture(scope="module")
def held():
    patch = pytest.MonkeyPatch()
    patch.setattr(pytest, "approx", float)
    yield
    patch.undo()

def test_c(held):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["", " -n 1"])
async def test_assertions_that_outlive_a_test_are_recorded_as_replaced(tmp_path, workers):
    """BX-4: not those that the test restores itself."""
    gate = structs.replace(PYTEST, command=f"python -m pytest -q -p no:randomly{workers}")
    shown = await run_gate_once(
        write_files(tmp_path, {"test_a.py": REPLACING}), gate, PYTEST_DISABLE_PLUGIN_AUTOLOAD=""
    )
    assert (shown.problem, shown.replaced) == (None, ("pytest.approx", "unittest.case.TestCase.assertEqual")), shown


@pytest.mark.slow
async def test_pytest_and_its_plugins_replace_nothing_of_what_is_compared(tmp_path):
    shown = await run_gate_once(
        write_files(tmp_path, {"test_a.py": PYTEST_OUTCOMES}), PYTEST, PYTEST_DISABLE_PLUGIN_AUTOLOAD=""
    )
    assert shown.replaced == ()


@pytest.mark.slow
async def test_tests_run_in_their_order_whatever_shuffles_them(tmp_path):
    """AL-9: with pytest-randomly, tests that need their order would fail with one tree and pass with another."""
    later = "".join(f"def test_{n}():\n    assert DONE == list(range({n}))\n    DONE.append({n})\n" for n in range(12))
    gate = structs.replace(PYTEST, command="python -m pytest -q -p pytest_randomly")
    shown = await run_gate_once(write_files(tmp_path, {"test_order.py": f"DONE = []\n\n\n{later}"}), gate)
    assert (len(shown.outcomes), set(shown.outcomes.values())) == (12, {"passed"})
