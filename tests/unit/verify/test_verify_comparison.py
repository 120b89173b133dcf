"""A gate compared with its baseline, test by test, without a way to look better than before."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from scaffold.core.proof.gates import BLOCKING_GATE_VERDICTS, Gate, GateRun
from scaffold.verify.regression.comparison import MAX_TESTS, compare_gate_runs, new_failures, with_renamed_files

TEST = Gate(kind="test", command="pytest", runner="pytest")
LINT = Gate(kind="lint", command="ruff check .", runner="findings")

names = st.sampled_from([f"test_{letter}.py::test" for letter in "abcdef"])
outcomes = st.dictionaries(names, st.sampled_from(["passed", "failed", "skipped", "error", "flaky"]))
problems = st.sampled_from([None, "vacuous", "error", "timeout"])


def run(found=None, *, gate=TEST, **fields):
    return GateRun(gate=gate, commit="c0ffee", environment="e", exit_code=0, outcomes=found or {}, **fields)


def test_each_test_has_one_verdict():
    """BX-4, AL-10: by its result before and now; None means that the test is missing."""
    rows = [
        ("passed", "passed", "pass"),
        ("passed", "failed", "new_failure"),
        ("passed", "error", "new_failure"),
        ("passed", "flaky", "flaky"),
        ("passed", "skipped", "new_failure"),
        ("passed", None, "new_failure"),
        ("failed", "passed", "fixed"),
        ("error", "passed", "fixed"),
        ("failed", "error", "pre_existing"),
        ("error", "failed", "pre_existing"),
        ("failed", "skipped", "skipped"),
        ("failed", None, None),
        ("skipped", "passed", "pass"),
        ("skipped", "failed", "new_failure"),
        ("skipped", None, None),
        ("flaky", "failed", "new_failure"),
        ("flaky", "flaky", "flaky"),
        ("flaky", None, "new_failure"),
        (None, "passed", "pass"),
        (None, "failed", "new_failure"),
        (None, "flaky", "flaky"),
        (None, "skipped", "skipped"),
    ]
    for before, now, verdict in rows:
        shown = compare_gate_runs(run({"t": before} if before else {}), run({"t": now} if now else {}))
        assert dict(shown.counts) == ({verdict: 1} if verdict else {}), (before, now)
        assert dict(shown.tests) == ({"t": verdict} if verdict not in {None, "pass"} else {}), (before, now)


def test_a_failed_run_is_judged_only_as_such():
    """BX-4: vacuous and error block, and no test is missing from a run that did not reach it."""
    for problem in ["vacuous", "error", "timeout"]:
        shown = compare_gate_runs(run({"t": "passed"}), run(problem=problem))
        assert (shown.verdict, shown.blocks, dict(shown.tests)) == (problem, True, {})


def test_a_gate_without_a_baseline_has_only_new_failures():
    """AL-10: there was nothing before it."""
    shown = compare_gate_runs(None, run({"a": "failed", "b": "passed"}))
    assert (shown.verdict, dict(shown.counts)) == ("new_failure", {"new_failure": 1, "pass": 1})


def test_more_of_the_same_finding_is_worse():
    """AL-10: an increase blocks, a decrease does not."""
    before = run({"a.py: unused": "failed"}, gate=LINT, counts={"a.py: unused": 2})
    worse = run({"a.py: unused": "failed"}, gate=LINT, counts={"a.py: unused": 3})
    better = run({"a.py: unused": "failed"}, gate=LINT)
    assert compare_gate_runs(before, worse).verdict == "new_failure"
    assert compare_gate_runs(before, better).verdict == "pre_existing"
    assert dict(compare_gate_runs(before, run(gate=LINT)).tests) == {"a.py: unused": "fixed"}
    assert dict(compare_gate_runs(before, run(gate=LINT, problem="error")).tests) == {}


def test_the_new_one_of_several_findings_with_a_code_is_shown():
    """AL-10, BX-4: moved and reworded ones are the same, and the reader sees which one is not."""
    name, old = "a.py: F401", "a.py: F401 `os` imported but unused"
    before = run({name: "failed"}, gate=LINT, messages={name: (old,)})
    reworded = run({name: "failed"}, gate=LINT, messages={name: (f"{old}, remove it",)})
    more = run({name: "failed"}, gate=LINT, counts={name: 3}, messages={name: ("a.py: F401 new", old, old)})
    assert compare_gate_runs(before, reworded).verdict == "pre_existing"
    found = compare_gate_runs(before, more)
    assert (found.verdict, found.detail) == ("new_failure", f"a.py: F401 new\n{old}\n")
    many = run({name: "failed"}, gate=LINT, counts={name: 30}, messages={name: tuple(map(str, range(30)))})
    assert compare_gate_runs(None, many).detail.endswith("19\nand 10 more\n")


def test_a_test_with_changed_parameters_is_still_that_test():
    """AL-10: honest work changes cases, but no fewer may pass."""
    before = run({"t.py::test[1-2]": "passed", "t.py::test[2-3]": "passed"})
    assert compare_gate_runs(before, run({"t.py::test[1-3]": "passed", "t.py::test[2-3]": "passed"})).verdict == "pass"
    assert compare_gate_runs(before, run({"t.py::test[2-3]": "passed"})).verdict == "new_failure"
    assert compare_gate_runs(before, run({"t.py::other": "passed"})).verdict == "new_failure"


def test_a_case_that_does_not_pass_replaces_none():
    """AL-10, BX-4: neither a skipped one, nor any for a test without parameters."""
    before = run({"t.py::test[1-2]": "passed"})
    assert compare_gate_runs(before, run({"t.py::test[1-3]": "skipped"})).verdict == "new_failure"
    assert compare_gate_runs(run({"t.py::test": "passed"}), run({"t.py::test[1]": "passed"})).verdict == "new_failure"


def test_tests_that_were_not_selected_are_not_missing():
    """AL-11: of a focused run only what was asked for."""
    before = run({"a.py::t": "passed", "b.py::t": "passed"})
    shown = compare_gate_runs(before, run({"a.py::t": "passed"}), expected=lambda name: name.startswith("a.py"))
    assert (shown.verdict, dict(shown.tests)) == ("pass", {})


def test_only_some_tests_are_listed_by_name_and_all_are_counted():
    """BX-4: the worst first."""
    many = {f"t{number:04}": "skipped" for number in range(3 * MAX_TESTS)} | {"z": "failed"}
    shown = compare_gate_runs(None, run(many))
    assert (len(shown.tests), shown.tests["z"]) == (MAX_TESTS, "new_failure")
    assert dict(shown.counts) == {"skipped": 3 * MAX_TESTS, "new_failure": 1}


def test_a_renamed_file_keeps_its_results():
    """AL-10: tests by file or module, findings by file."""
    before = run(
        {"t/a.py::x[p::q]": "failed", "t.a.Case.x": "failed", "t/a.py: long": "failed", "t/ab.py::x": "passed"}
    )
    after = with_renamed_files(before, {"t/a.py": "t/b.py"})
    assert list(after.outcomes) == ["t/b.py::x[p::q]", "t.b.Case.x", "t/b.py: long", "t/ab.py::x"]
    twice = run({"t/a.py: long": "failed"}, counts={"t/a.py: long": 2})
    assert dict(with_renamed_files(twice, {"t/a.py": "t/b.py"}).counts) == {"t/b.py: long": 2}


@given(outcomes, outcomes, names)
def test_a_change_that_adds_a_failure_never_passes(before, now, name):
    """AL-9, AL-10: whatever else it fixes."""
    known = {**before, name: "passed"}
    shown = compare_gate_runs(run(known), run({**now, name: "failed"}))
    assert shown.verdict in BLOCKING_GATE_VERDICTS
    assert shown.tests[name] == "new_failure"
    assert name in new_failures(run(known), run({**now, name: "failed"}))


@given(outcomes, problems)
def test_a_run_compared_with_itself_blocks_only_if_it_failed(found, problem):
    """AL-10: earlier failures do not block."""
    same = run(found, problem=problem)
    assert compare_gate_runs(same, same).blocks == (problem is not None)


@given(outcomes, outcomes, st.randoms(use_true_random=False))
def test_the_order_of_tests_does_not_matter(before, now, rng):
    mixed = sorted(now.items(), key=lambda _: rng.random())
    assert compare_gate_runs(run(before), run(now)) == compare_gate_runs(run(before), run(dict(mixed)))


@given(outcomes)
def test_fixing_everything_never_blocks(before):
    """AL-10: including tests that were skipped before."""
    mended = compare_gate_runs(run(before), run(dict.fromkeys(before, "passed")))
    assert not mended.blocks
    assert structs.replace(mended, tests={}, counts={}, verdict="pass") == compare_gate_runs(None, run())
