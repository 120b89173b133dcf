"""Repetitions of checks and new tests that passed: what fails then, and what failed before, too."""

import sys

import pytest
from inline_snapshot import snapshot

from integration.verify.builders import TEST, CandidateRepository, cleaned
from scaffold.core.proof.contract import Check, CheckResult, Contract, Verification
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateResult, GateRun
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.flaky_tests import doubts_about_flaky_tests
from scaffold.verify.regression.stability import unstable_result

UNITTEST = Gate(kind="test", command=f"{sys.executable} -m unittest -q", runner="unittest")
SEED_TEST = "import os\n\n\ndef test_seed():\n    assert os.environ.get('PYTHONHASHSEED') == '0'\n"
STEADY_TEST = "def test_steady():\n    pass\n"


class Project(CandidateRepository):
    """A base and work on it, whose checks have passed."""

    async def unstable(self, base, work, *commands, red=(), gates=(), took=0.01, baseline=None):
        """Return the detail of the blocking result; None if there is none."""
        tree, _ = await self.worked(base, work)
        contract = Contract(commands=tuple(Check(command=each) for each in commands))
        results = tuple(CheckResult(name=each, verdict="pass", duration_s=took) for each in commands)
        passed = Verification(commit=tree.commit, results=results, failed_on_base=red, gates=gates)
        found = await unstable_result(ProofRequest(contract=contract, baseline=baseline), passed, tree, cleaned(tree))
        assert (await tree.git("rev-parse", "HEAD")).line == tree.commit
        return None if found is None else (found.name, found.verdict, found.detail)

    async def flaky(self, base, work, tests):
        """Return the doubts about tests of the gate that were flaky with the work."""
        tree, _ = await self.worked(base, work)
        outcomes = {"test_a.py::test_a": "passed", "test_a.py::test_b": "passed", "test_a.py::test_c": "flaky"}
        run = GateRun(gate=TEST, commit=tree.base, environment="e", exit_code=0, outcomes=outcomes)
        known = Baseline(environment=CheckEnvironment(fingerprint="e"), runs=(run,))
        gates = (GateResult(gate=TEST, verdict="flaky", tests=dict.fromkeys(tests, "flaky"), duration_s=0.1),)
        passed = Verification(commit=tree.commit, results=(), gates=gates)
        found = await doubts_about_flaky_tests(ProofRequest(contract=None, baseline=known), passed, tree, cleaned(tree))
        assert (await tree.git("rev-parse", "HEAD")).line == tree.commit
        return [(doubt.code, doubt.text) for doubt in found]


@pytest.fixture
def project(harness, tmp_path):
    return Project(harness, tmp_path)


async def test_a_check_that_fails_without_a_fixed_seed_blocks(project):
    """BX-4: the detail says how to reproduce it; one that was as unstable before does not block."""
    command = "grep work file && test ${PYTHONHASHSEED-unset} != 2"
    name, verdict, detail = await project.unstable({"file": "base"}, {"file": "work"}, command, red=(command,))
    assert (name, verdict) == ("stability", "fail")
    assert detail.partition(". ")[0] == snapshot(
        "`grep work file && test ${PYTHONHASHSEED-unset} != 2` passed, and failed when repeated with PYTHONHASHSEED=2"
    )
    command = "test ${PYTHONHASHSEED-unset} != 2"
    assert await project.unstable({"file": "base"}, {"file": "work"}, command) is None


@pytest.mark.slow
async def test_an_existing_test_that_was_as_unstable_before_does_not_block(project):
    """Although its check failed before the work for another reason."""
    base = {"test_seed.py": SEED_TEST}
    command = f"{TEST.command} test_seed.py test_new.py"
    assert await project.unstable(base, {"test_new.py": STEADY_TEST}, command, red=(command,)) is None
    found = await project.unstable(
        {"test_seed.py": STEADY_TEST, "test_new.py": None}, {"test_seed.py": SEED_TEST}, TEST.command, red=(command,)
    )
    assert " test_seed.py::test_seed." in found[2]


@pytest.mark.slow
async def test_new_tests_are_repeated_by_their_gate(project):
    """BX-4: those that the contract does not run, too, except for tests that were known to fail."""
    gates = (GateResult(gate=TEST, verdict="pass", duration_s=0.1),)
    found = await project.unstable({"test_a.py": STEADY_TEST}, {"test_seed.py": SEED_TEST}, gates=gates)
    assert found[2].partition(". ")[0] == snapshot(
        "The tests in test_seed.py passed, and failed when repeated without PYTHONHASHSEED, as users run it: "
        "test_seed.py::test_seed"
    )
    run = GateRun(gate=TEST, commit=None, environment="e", exit_code=1, outcomes={"test_seed.py::test_seed": "flaky"})
    known = Baseline(environment=CheckEnvironment(fingerprint="e"), runs=(run,))
    work = {"test_seed.py": f"{SEED_TEST}\n"}
    assert await project.unstable({"b": ""}, work, gates=gates, baseline=known) is None


@pytest.mark.slow
@pytest.mark.parametrize("gate", [TEST, UNITTEST], ids=["pytest", "unittest"])
async def test_a_new_test_that_fails_once_in_five_times_is_found(project, tmp_path, gate):
    """BX-4: its runner repeats it in one process."""
    test = f"import pathlib\nimport unittest\n\nRUNS = pathlib.Path({str(tmp_path / 'runs')!r})\n\n\n"
    test += "class Case(unittest.TestCase):\n    def test_odd(self):\n        RUNS.open('a').write('.')\n"
    test += "        self.assertTrue(len(RUNS.read_text()) % 5)\n"
    gates = (GateResult(gate=gate, verdict="pass", duration_s=20.0),)
    name, _, detail = await project.unstable({"a": "base"}, {"test_odd.py": test}, gates=gates)
    assert (name, "test_odd" in detail.partition(". ")[0]) == ("stability", True)


@pytest.mark.slow
async def test_a_test_that_can_run_only_once_in_a_process_passes(project, tmp_path):
    """BX-4: it is tried alone, and in processes of its own it never fails."""
    test = "RAN = []\n\n\ndef test_once():\n    assert not RAN\n    RAN.append(1)\n"
    gates = (GateResult(gate=TEST, verdict="pass", duration_s=20.0),)
    assert await project.unstable({"a": "base"}, {"test_once.py": test}, gates=gates) is None


async def test_each_repetition_begins_clean_and_runs_the_contract_in_its_order(project):
    """A check may need what the one before leaves, and may not find what it left itself."""
    assert await project.unstable({"a": "base"}, {"a": "work"}, "mkdir out", "test -d out && grep work a") is None


@pytest.mark.parametrize(("took", "times"), [(0.01, 4), (4.5, 0)])
async def test_expensive_checks_are_repeated_less_often(project, tmp_path, took, times):
    """BX-5: a quarter of the time that contract and gates took; at least a second, at most a minute."""
    command = f"echo >> {tmp_path}/log"
    assert await project.unstable({"a": "base"}, {"a": "work"}, command, took=took) is None
    log = tmp_path / "log"
    assert (len(log.read_text()) if log.exists() else 0) == times


@pytest.mark.slow
async def test_tests_that_are_flaky_with_the_work_alone_leave_a_doubt(project, tmp_path):
    """BX-4: one that fails on the base as well, if it runs often enough, says nothing about the work."""
    often = f"import pathlib\n\nRUNS = pathlib.Path({str(tmp_path / 'runs')!r})\n\n\ndef test_b():\n"
    often += "    RUNS.open('a').write('.')\n    assert len(RUNS.read_text()) % 3\n"
    base = {"test_a.py": f"{often}\n\ndef test_a():\n    pass\n"}
    tests = [f"test_a.py::test_{name}" for name in "abc"]
    found = await project.flaky(base, {"work": "work"}, tests)
    assert found == snapshot(
        [("flaky_tests", "failed and then passed unchanged, as never without the work: test_a.py::test_a")]
    )
    assert await project.flaky({"work": "base"}, {"work": "more"}, tests[1:]) == []
