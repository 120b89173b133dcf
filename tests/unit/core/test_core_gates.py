"""Gates as values."""

from typing import get_args

from scaffold.core.proof.gates import GREEN_ANYWAY, RED_ANYWAY, Gate, GateResult, GateRun, GateVerdict

TEST = Gate(kind="test", command="pytest")


def test_a_gate_of_a_package_is_named_after_it():
    assert TEST.name == "test"
    assert Gate(kind="test", command="pytest", folder="packages/api").name == "test (packages/api)"


def test_a_worse_or_vacuous_result_blocks():
    """BX-4: an old failure, a fixed or flaky test and a missing gate do not."""
    verdicts = get_args(GateVerdict)
    blocking = {verdict for verdict in verdicts if GateResult(gate=TEST, verdict=verdict).blocks}
    assert blocking == {"new_failure", "vacuous", "error", "timeout"}


def test_a_gate_that_only_warns_blocks_nothing_and_is_no_evidence_once_it_would():
    """BX-4: the project's own set-up never runs it."""
    advisory = Gate(kind="lint", command="ruff check .", advisory=True)
    broken, clean = GateResult(gate=advisory, verdict="new_failure"), GateResult(gate=advisory, verdict="pass")
    assert (broken.blocks, broken.warns, broken.counts_for_work) == (False, True, False)
    assert (clean.blocks, clean.warns, clean.counts_for_work) == (False, False, True)
    assert not GateResult(gate=TEST, verdict="not_applicable").counts_for_work


def test_a_gate_of_which_all_failed_before_the_work_is_no_evidence():
    """BX-4: it could not fail; a test that passes, or findings by name, can become worse."""
    by_exit_code = GateResult(
        gate=Gate(kind="test", command="make check"),
        verdict="pre_existing",
        tests={"exit": "pre_existing"},
        counts={"pre_existing": 1},
    )
    lint = Gate(kind="lint", command="ruff check .", runner="findings")
    tests = Gate(kind="test", command="pytest", runner="pytest")
    all_red = GateResult(gate=tests, verdict="pre_existing", counts={"pre_existing": 2, "skipped": 1})
    one_green = GateResult(gate=tests, verdict="pre_existing", counts={"pre_existing": 2, "pass": 1})
    one_fixed = GateResult(gate=tests, verdict="pre_existing", counts={"pre_existing": 2, "fixed": 1})
    findings = GateResult(
        gate=lint, verdict="pre_existing", tests={"a.py: F401": "pre_existing"}, counts={"pre_existing": 1}
    )
    crashed = GateResult(gate=lint, verdict="pre_existing", tests={"exit": "pre_existing"}, counts={"pre_existing": 1})
    results = (by_exit_code, all_red, crashed, one_green, one_fixed, findings)
    assert [each.counts_for_work for each in results] == [False, False, False, True, True, True]
    assert not any(each.blocks for each in results)


def test_a_run_on_the_base_says_why_no_work_could_make_it_worse():
    """BX-4: all that ran is red; one that passes on code that nothing can read looks at none."""
    tests = Gate(kind="test", command="pytest", runner="pytest")

    def blind(gate, problem=None, **outcomes):
        run = GateRun(gate=gate, commit="c" * 40, environment="here", exit_code=1, problem=problem, outcomes=outcomes)
        return run.blind

    assert blind(tests, a="failed", b="skipped") == blind(TEST, exit="failed") == RED_ANYWAY
    open_ones = [blind(tests, a="failed", b="passed"), blind(tests, a="passed"), blind(tests, "error", a="failed")]
    lint = Gate(kind="lint", command="ruff check .", runner="findings")
    assert [*open_ones, blind(lint, F401="failed")] == [""] * 4
    assert GateResult(gate=TEST, verdict="pass", passes_unread=True).blind == GREEN_ANYWAY
