"""Every runner's report, as it was recorded: two tests of one name stay two, and colours and noise hide nothing."""

import json
from pathlib import Path

import pytest

from scaffold.core.proof.gates import Gate, GateRun
from scaffold.verify.gates.observed_run import ADAPTERS
from scaffold.verify.gates.reports.jest import REPORT
from scaffold.verify.gates.reports.runner_result import RunnerCommand, RunnerEnv, RunnerExit
from scaffold.verify.gates.reports.signed_record import (
    CanaryLine,
    CollectedLine,
    EndLine,
    PhaseReport,
    ReportLine,
    StartedLine,
    judge_record,
    with_occurrences,
)
from scaffold.verify.regression.comparison import compare_gate_runs
from scaffold.verify.regression.test_identity import VaryingNames, matched_runs

GREEN, RED, BOLD, END = "\x1b[32m", "\x1b[31m", "\x1b[1m\x1b[92m", "\x1b[0m"
CARGO_PART = """\
{bold}     Running{end} unittests {source} (target/debug/deps/{name}-81c9f5d764ef8bf2)

running 2 tests
{listed}
{failures}
test result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

"""


def read(runner, folder, *, code, printed="", report=None):
    if report is not None:
        (folder / REPORT).write_text(json.dumps(report))
    env = RunnerEnv(folder=folder, cwd=folder, environ={})
    ended = RunnerExit(env=env, command=RunnerCommand(command=""), exit_code=code, stdout=printed.encode(), stderr=b"")
    return ADAPTERS[runner].read_report(ended)


def compared(runner, before, now):
    """Return the verdict on a result after work."""
    gate = Gate(kind="test", command=runner, runner=runner)
    runs = [
        GateRun(gate=gate, commit="c0ffee", environment="e", exit_code=1, outcomes=each.outcomes)
        for each in (before, now)
    ]
    matched = matched_runs(*runs, VaryingNames())
    return compare_gate_runs(matched.before, matched.now).verdict


def cargo_part(source, failed, *, listed=None):
    """Return what cargo prints of one test program with the tests `it` and `other`; `failed` names those that fail."""
    names = ("tests::it", "tests::other")
    lines = listed or [
        f"test {name} ... {RED}FAILED{END}" if name in failed else f"test {name} ... ok" for name in names
    ]
    shown = "".join(f"---- {name} stdout ----\ntest {name} ... ok\n\n" for name in failed)
    listing = "".join(f"    {name}\n" for name in failed)
    return CARGO_PART.format(
        bold=BOLD,
        end=END,
        source=source,
        name=Path(source).stem,
        listed="\n".join(lines),
        failures=f"\nfailures:\n\n{shown}\nfailures:\n{listing}" if failed else "",
        verdict=f"{RED}FAILED{END}" if failed else f"{GREEN}ok{END}",
        passed=2 - len(failed),
        failed=len(failed),
    )


def cargo(folder, *failed):
    """Return the result of two programs; `failed` are the numbers of those in which the test fails."""
    parts = [cargo_part(f"{name}/src/lib.rs", ["tests::it"] if at in failed else []) for at, name in enumerate("ab")]
    return read("cargo", folder, code=101 if failed else 0, printed="".join(parts))


def doc_tests(folder, *failed):
    names = [f"src/lib.rs - f (line {line})" for line in (4, 12)]
    listed = [f"test {name} ... {'FAILED' if at in failed else 'ok'}" for at, name in enumerate(names)]
    # With several threads they end in any order.
    part = cargo_part("x", [names[at] for at in failed], listed=listed[::-1])
    header = f"{BOLD}   Doc-tests{END} m"
    return read("cargo", folder, code=101 if failed else 0, printed=f"{header}\n{part.partition(chr(10))[2]}")


def jest(runner):
    def result(folder, *failed):
        ends = ["failed" if at in failed else "passed" for at in (0, 1)]
        tests = [{"title": f"{GREEN}works{END}", "ancestorTitles": ["cart"], "status": end} for end in ends]
        suite = {"name": f"{folder}/a.test.js", "status": "failed" if failed else "passed", "assertionResults": tests}
        report = {"numTotalTests": 2, "numFailedTests": len(failed), "testResults": [suite]}
        return read(runner, folder, code=1 if failed else 0, report=report)

    return result


def go_events(*events):
    return "".join(json.dumps({"Package": "example.com/m", **event}) + "\n" for event in events)


def go(folder, *failed):
    """Return the result of `go test -count=2`."""
    events = []
    for at in (0, 1):
        events += [{"Action": "run", "Test": "TestF"}, {"Action": "fail" if at in failed else "pass", "Test": "TestF"}]
    printed = go_events(*events, {"Action": "fail" if failed else "pass"})
    return read("go", folder, code=1 if failed else 0, printed=printed)


def recorded(folder, *failed):
    """Return the result of a plugin of pytest that collects two tests of one name."""
    lines = [CollectedLine(("a.yaml::case", "a.yaml::case"))]
    for at in (0, 1):
        end = "failed" if at in failed else "passed"
        lines += [StartedLine("a.yaml::case"), ReportLine("a.yaml::case", "call", end, False)]
    canaries = [CanaryLine(end, end == "failed", (PhaseReport("call", end, False),)) for end in ("failed", "passed")]
    return judge_record([*with_occurrences(lines), *canaries, EndLine(bool(failed))], bool(failed) + 0, whole=True)


RESULTS = {
    "cargo": cargo,
    "cargo, doc tests": doc_tests,
    "jest": jest("jest"),
    "vitest": jest("vitest"),
    "mocha": jest("mocha"),
    "node": jest("node"),
    "go": go,
    "pytest": recorded,
}


@pytest.mark.parametrize("runner", RESULTS)
def test_one_of_two_tests_of_one_name_does_not_stand_for_the_other(runner, tmp_path):
    """BX-4, AL-10: work that mends one and breaks the other is refused."""
    result, kind = RESULTS[runner], runner.partition(",")[0]
    first, second, both, none = (result(tmp_path, *failed) for failed in ((0,), (1,), (0, 1), ()))
    assert [len(each.outcomes) for each in (first, second, both, none)] == [len(first.outcomes)] * 4, first.outcomes
    assert not any("\x1b" in name or "x1b" in name for name in first.outcomes)
    assert compared(kind, first, second) == "new_failure"
    assert compared(kind, second, first) == "new_failure"
    assert compared(kind, first, both) == "new_failure"
    assert compared(kind, none, first) == "new_failure"
    assert compared(kind, first, first) == "pre_existing"
    assert compared(kind, both, first) == "pre_existing"
    assert compared(kind, first, none) == "fixed"


LISTED = [
    ["test tests::it ... noise", "", "test forged/x.rs ... ok", "ok", "xok", f"test tests::other ... {GREEN}ok{END}"],
    ["progress...test tests::it ... ok", "test tests::other ... ok"],
    ["test tests::it ... test tests::other ... ok", "ok"],
    ["test tests::it ... test tests::it ... ok", "ok", "test tests::other ... ok"],
    ["test tests::it ... ", "running 1 test", "test a/b.rs ... FAILED", "FAILED", "test tests::other ... ok"],
]


@pytest.mark.parametrize("listed", LISTED)
def test_what_rust_tests_print_past_the_harness_decides_nothing(listed, tmp_path):
    """BX-4: with one thread, by a child, without a line break: the program's own list of failures counts."""
    for failed in ([], ["tests::it"]):
        code = 101 if failed else 0
        found = read("cargo", tmp_path, code=code, printed=cargo_part("src/lib.rs", failed, listed=listed))
        assert (found.problem, dict(found.outcomes)) == (
            None,
            {"src/lib.rs: tests::it": "failed" if failed else "passed", "src/lib.rs: tests::other": "passed"},
        ), found.why


def printed(text, test="TestF"):
    return {"Action": "output", "Test": test, "Output": text}


@pytest.mark.parametrize(
    ("events", "code", "outcome"),
    [
        ([printed("progress...--- PASS: TestF (0.00s)\n")], 0, "passed"),
        ([printed("progress...--- SKIP: TestF (0.00s)\n")], 0, "skipped"),
        ([printed("progress...--- FAIL: TestF (0.00s)\n")], 1, "failed"),
        ([printed("progress...\n")], 1, "failed"),
        (
            [
                {"Action": "run", "Test": "TestF"},
                {"Action": "fail", "Test": "TestF"},
                {"Action": "pass", "Test": "TestF"},
            ],
            0,
            "passed",
        ),
        ([{"Action": "fail", "Test": "TestF"}, {"Action": "pass", "Test": "TestF"}], 1, "failed"),
    ],
)
def test_what_go_tests_print_decides_nothing_where_the_package_passed(events, code, outcome, tmp_path):
    """BX-4: before Go 1.20 a line without an end hides a result; a child that is a test prints results of its own."""
    verdict = {"Action": "output", "Output": "FAIL\n" if code else "PASS\n"}
    events = [{"Action": "run", "Test": "TestF"}, *events, {"Action": "run", "Test": "TestG"}]
    events += [{"Action": "pass", "Test": "TestG"}, verdict, {"Action": "fail" if code else "pass"}]
    found = read("go", tmp_path, code=code, printed=go_events(*events))
    assert found.outcomes["example.com/m.TestF"] == outcome
    assert found.problem is None


def test_a_go_package_that_hides_its_failures_has_not_passed(tmp_path):
    """BX-4: `TestMain` may end with 0 after a failure; a test may end the process."""
    failing = [{"Action": "run", "Test": "TestF"}, {"Action": "fail", "Test": "TestF"}]
    rows = [
        [*failing, {"Action": "output", "Output": "FAIL\n"}, {"Action": "pass"}],
        [*failing, {"Action": "pass"}],
        [{"Action": "run", "Test": "TestF"}, {"Action": "pass"}],
    ]
    for events in rows:
        assert read("go", tmp_path, code=0, printed=go_events(*events)).problem == "error", events
