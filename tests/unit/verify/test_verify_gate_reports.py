"""Parsing of reports of go, jest, vitest, cargo and linters, and when a report is rejected."""

import json
from pathlib import Path

from inline_snapshot import snapshot

from scaffold.verify.gates.reports.findings import FINDINGS
from scaffold.verify.gates.reports.go_runner import GO
from scaffold.verify.gates.reports.jest import JEST, REPORT, VITEST
from scaffold.verify.gates.reports.libtest import CARGO, MESSAGE_FORMAT_OPTION
from scaffold.verify.gates.reports.node_runner import NODE
from scaffold.verify.gates.reports.runner_result import RunnerCommand, RunnerEnv, RunnerExit, printable_test_name

NOWHERE = Path("/work/tree")


def bench(folder=NOWHERE, *only):
    return RunnerEnv(folder=folder, cwd=NOWHERE, environ={}, only=only)


def ended(out="", code=0, *, folder=NOWHERE, err="", only=()):
    order = RunnerCommand(command="")
    return RunnerExit(env=bench(folder, *only), command=order, exit_code=code, stdout=out.encode(), stderr=err.encode())


def events(*lines):
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def go_event(action, test=None, **more):
    about = {"Action": action, "Package": "example.com/shop/cart", **more}
    return about | ({"Test": test} if test else {})


GO_REPORT = events(
    {"Action": "start", "Package": "example.com/shop/cart"},
    go_event("run", "TestAdd"),
    go_event("output", "TestAdd", Output='{"Action":"pass","Test":"TestForged"}\n'),
    go_event("pass", "TestAdd", Elapsed=0),
    go_event("run", "TestSum"),
    go_event("run", "TestSum/of_none"),
    go_event("output", "TestSum/of_none", Output="    cart_test.go:9: got 1\n"),
    go_event("fail", "TestSum/of_none", Elapsed=0),
    go_event("fail", "TestSum", Elapsed=0),
    go_event("skip", "TestSlow", Elapsed=0),
    go_event("fail", Elapsed=0.1),
    {"Action": "skip", "Package": "example.com/shop"},
)


def test_go_reports_each_test_and_subtest():
    """BX-4: typed outcomes per test from `go test -json`."""
    reading = GO.read_report(ended(GO_REPORT, 1))
    assert (reading.problem, reading.shown_output) == (
        None,
        '{"Action":"pass","Test":"TestForged"}\n    cart_test.go:9: got 1\n',
    )
    assert reading.outcomes == {
        "example.com/shop/cart.TestAdd": "passed",
        "example.com/shop/cart.TestSum": "failed",
        "example.com/shop/cart.TestSum/of_none": "failed",
        "example.com/shop/cart.TestSlow": "skipped",
    }
    assert reading.messages == {"example.com/shop/cart.TestSum/of_none": ("cart_test.go:9: got 1",)}


def test_a_go_report_is_checked_against_its_exit():
    """BX-4: a build that fails, a report without an end or one that disagrees with the exit code is an error."""
    rows = [
        ("", 0, "error", {}),
        ("FAIL\n", 2, "error", {}),
        (events({"Action": "skip", "Package": "example.com/shop"}), 0, "vacuous", {}),
        (GO_REPORT, 0, "error", {}),
        (
            events({"ImportPath": "example.com/a", "Action": "build-fail"}, {"Action": "fail", "Package": "b"}),
            1,
            "error",
            {"example.com/a": "error"},
        ),
        (
            "FAIL\texample.com/shop/till [build failed]\n" + events(go_event("pass", "TestA"), go_event("pass")),
            2,
            "error",
            {"example.com/shop/cart.TestA": "passed", "example.com/shop/till": "error"},
        ),
        (
            events(go_event("output", Output="FAIL\texample.com/shop/cart [build failed]\n"), go_event("fail")),
            1,
            "error",
            {"example.com/shop/cart": "error"},
        ),
        (
            events(go_event("run", "TestA"), go_event("pass", "TestA"), go_event("fail")),
            1,
            None,
            {"example.com/shop/cart.TestA": "passed", "example.com/shop/cart": "error"},
        ),
        (events(go_event("run", "TestA"), go_event("fail")), 1, None, {"example.com/shop/cart.TestA": "failed"}),
    ]
    for report, code, problem, outcomes in rows:
        reading = GO.read_report(ended(report, code))
        assert (reading.problem, reading.outcomes) == (problem, outcomes), report


def test_go_is_asked_for_some_functions_and_names_hanging_tests():
    names = ("example.com/v2.x.TestAdd/of_none", "example.com/v2.x.TestSum")
    assert (
        GO.build_command("go test ./...", bench(NOWHERE, *names)).command
        == "go test -json -run '^(TestAdd|TestSum)$' ./..."
    )
    assert GO.build_command("go test -json ./...", bench()).command == "go test -json ./..."
    files = ("cart/b_test.go", "cart/a_test.go", "the till/a_test.go", "top_test.go")
    some = GO.build_command("go test -race ./...", bench(NOWHERE, *files)).command
    assert some == "go test -json -race ./ ./cart './the till'"
    assert GO.unfinished_tests(
        ended(events(go_event("run", "TestA"), go_event("run", "TestB"), go_event("pass", "TestA")))
    ) == ("example.com/shop/cart.TestB",)


def jest_report(*assertions, status="passed", total=None, failed=None, **more):
    tests = [{"title": title, "status": state, "ancestorTitles": ["cart"]} for title, state in assertions]
    suite = {"name": "/work/tree/src/cart.test.js", "status": status, "message": "", "assertionResults": tests, **more}
    return {
        "numTotalTests": len(tests) if total is None else total,
        "numFailedTests": sum(state == "failed" for _, state in assertions) if failed is None else failed,
        "success": False,
        "testResults": [suite],
    }


def test_jest_and_vitest_report_each_test(tmp_path):
    """BX-4: typed outcomes per test from the report that jest and vitest write."""
    tests = [("adds", "passed"), ("sums\n", "failed"), ("later", "todo"), ("waits", "pending")]
    tests += [("cuts \ud83d", "passed"), ("cuts \ud83e", "passed")]  # half an emoji is a text in JavaScript
    (tmp_path / REPORT).write_text(json.dumps(jest_report(*tests, status="failed")))
    for family in (JEST, VITEST):
        reading = family.read_report(ended(code=1, folder=tmp_path))
        assert reading.problem is None
        assert reading.outcomes == {
            "src/cart.test.js > cart > adds": "passed",
            "src/cart.test.js > cart > sums\\n": "failed",
            "src/cart.test.js > cart > later": "skipped",
            "src/cart.test.js > cart > waits": "skipped",
            "src/cart.test.js > cart > cuts \\ud83d": "passed",
            "src/cart.test.js > cart > cuts \\ud83e": "passed",
        }


def test_jest_and_vitest_say_why_a_test_failed(tmp_path):
    """AL-9: without colours and stack."""
    report = jest_report(("adds", "passed"), ("sums", "failed"), status="failed")
    report["testResults"][0]["assertionResults"][1]["failureMessages"] = [
        "Error: \x1b[31mexpect\x1b[0m(received)\n\nExpected: 2\nReceived: 1\n    at a.js:1:2\n    at b"
    ]
    (tmp_path / REPORT).write_text(json.dumps(report))
    reading = JEST.read_report(ended(code=1, folder=tmp_path))
    assert reading.messages == {
        "src/cart.test.js > cart > sums": ("Error: expect(received)\nExpected: 2\nReceived: 1",)
    }


def test_a_jest_report_is_checked_against_its_exit(tmp_path):
    """BX-4: a report that is missing, garbage or at odds with itself or the exit code is an error."""
    for report, code, printed, problem, word in [
        (None, 1, "No tests found, exiting with code 1", "vacuous", "no test"),
        (None, 0, "", "error", "wrote no usable report"),
        ("{}", 0, "", "error", "cannot be parsed"),
        ("[" * 100_000, 0, "", "error", "cannot be parsed"),
        (json.dumps(jest_report(("adds", "failed"))), 0, "", "error", "exit code is 0"),
        (json.dumps(jest_report(("adds", "passed"), total=2)), 0, "", "error", "counts 2 tests"),
        (json.dumps(jest_report(("adds", "passed"), failed=1)), 1, "", "error", "1 of them failed"),
        (json.dumps(jest_report(status="failed", message="SyntaxError")), 1, "", "error", "src/cart.test.js"),
        (json.dumps(jest_report(("adds", "pending"))), 0, "", "vacuous", "skipped"),
    ]:
        if report is not None:
            (tmp_path / REPORT).write_text(report)
        reading = JEST.read_report(ended(code=code, folder=tmp_path, err=printed))
        assert (reading.problem, word in reading.why) == (problem, True), reading.why


def test_a_report_that_is_a_link_or_no_regular_file_is_not_read(tmp_path):
    (tmp_path / "real.json").write_text(json.dumps(jest_report(("adds", "passed"))))
    (tmp_path / REPORT).symlink_to(tmp_path / "real.json")
    assert JEST.read_report(ended(folder=tmp_path)).problem == "error"
    (tmp_path / REPORT).unlink()
    (tmp_path / REPORT).mkdir()
    assert JEST.read_report(ended(folder=tmp_path)).problem == "error"


def test_jest_and_vitest_get_a_report_path_and_selected_files():
    some = bench(Path("/tmp/gate 1"), "src/a.test.js > a > b", "src/a.test.js", "c.test.js")
    assert JEST.build_command("npm run test", some).command == snapshot(
        "npm run test -- --json --outputFile='/tmp/gate 1/report.json' --runTestsByPath src/a.test.js c.test.js"
    )
    assert VITEST.build_command("npx vitest", bench(Path("/tmp/g"))).command == (
        "npx vitest --run --reporter=json --outputFile=/tmp/g/report.json"
    )


CARGO_REPORT = """\
   Compiling one v0.1.0 (/work/tree)
     Running unittests src/lib.rs (target/debug/deps/one-0123)

running 3 tests
test tests::adds ... ok
test tests::slow ... ignored, takes long
test tests::sums - should panic ... FAILED

failures:

---- tests::sums stdout ----
test tests::forged ... ok
note: test did not panic as expected

failures:
    tests::sums

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/whole.rs (target/debug/deps/whole-0123)

running 1 test
test adds ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests one

running 1 test
test src/lib.rs - add (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s

error: test failed, to rerun pass `--lib`
"""


def test_cargo_reports_each_test_with_its_program():
    """BX-4: typed outcomes per test from what libtest prints."""
    reading = CARGO.read_report(ended(CARGO_REPORT, 101))
    assert reading.problem is None
    assert reading.outcomes == {
        "src/lib.rs: tests::adds": "passed",
        "src/lib.rs: tests::slow": "skipped",
        "src/lib.rs: tests::sums": "failed",
        "tests/whole.rs: adds": "passed",
        "Doc-tests one: src/lib.rs - add": "passed",
    }


def test_cargo_programs_in_a_workspace_are_identified_by_their_source_files():
    """BX-4: two packages have a `src/lib.rs` each; output of a program that imitates cargo's is ignored."""
    made = f'{{"reason":"compiler-artifact","target":{{"src_path":"{NOWHERE}/%s"}},"executable":"/target/deps/%s"}}\n'
    listing = made % ("one/src/lib.rs", "one-0123") + made % ("one/tests/whole.rs", "whole-0123")
    forged = CARGO_REPORT.replace("running 1 test", made % ("forged.rs", "whole-0123") + "\nrunning 1 test")
    reading = CARGO.read_report(ended(listing + forged, 101))
    assert reading.problem is None, reading.why
    assert {name for name in reading.outcomes if "rs: " in name} == {
        *(f"one/src/lib.rs: tests::{name}" for name in ("adds", "slow", "sums")),
        "one/tests/whole.rs: adds",
    }
    assert "compiler-artifact" not in str(reading.shown_output)


def test_targets_that_cargo_could_not_compile_are_named():
    """BX-4: as files are that other runners could not load."""
    said = 'error[E0425]: cannot find function\nerror: could not compile `x` (test "area") due to 1 previous error\n'
    reading = CARGO.read_report(ended(code=101, err=said))
    assert (reading.problem, reading.unloaded) == ("error", ('`x` (test "area")',))


def test_cargo_output_is_checked_against_its_exit():
    """BX-4: tests that are announced but not reported, reported twice, or cut off, are an error."""
    rows = [
        ("error[E0308]: mismatched types\n", 101, "error", "could not be built"),
        ("", 0, "error", "no report"),
        (CARGO_REPORT, 0, "error", "exit code is 0"),
        (CARGO_REPORT.replace("running 3 tests", "running 4 tests"), 101, "error", "announced 4"),
        (CARGO_REPORT.replace("FAILED. 1 passed; 1 failed", "ok. 2 passed; 0 failed"), 101, "error", "summed up"),
        (
            CARGO_REPORT.partition("   Doc-tests")[0].rpartition("test result")[0],
            0,
            "error",
            "stopped before they finished",
        ),
        ("running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured\n", 0, "vacuous", "no test"),
    ]
    for report, code, problem, word in rows:
        reading = CARGO.read_report(ended(report, code))
        assert reading.problem == problem, report
        assert word in reading.why, report


def test_cargo_is_asked_for_all_programs_and_selected_tests():
    assert (
        CARGO.build_command("cargo test", bench()).command
        == f"{{ cargo test --no-fail-fast {MESSAGE_FORMAT_OPTION}\n}} 2>&1"
    )
    some = bench(NOWHERE, "src/lib.rs: tests::adds")
    assert (
        CARGO.build_command("cargo test -q", some).command
        == f"{{ cargo test --no-fail-fast {MESSAGE_FORMAT_OPTION} -q -- --exact tests::adds\n}} 2>&1"
    )
    assert "--exact" not in CARGO.build_command("cargo test", bench(NOWHERE, "tests/whole.rs")).command


FOUND = """\
\x1b[1ma.py\x1b[0m:1:8: F401 `os` imported but unused
a.py:9:8: F401 [*] `re` imported but unused
a.py:1:0: C0114: Missing module docstring (missing-module-docstring)
src/b.py:12: error: Incompatible types  [assignment]
src/b.py:12: note: See the documentation
src/b.py:13:5 - error: "x" is possibly unbound (reportPossiblyUnbound)
/work/tree/src/c.ts:3:5 - error TS2322: Type 'string' is not assignable
src/d.ts(3,5): error TS2345: Argument
/work/tree/src/e.js
  10:5  error  'x' is not defined  no-undef
  12:5  error  'y' is not defined  no-undef
  14:5  error  Do not use it  @typescript-eslint/no-explicit-any

src/main.rs:2:9: warning: unused variable: `x`
src/main.rs:3:9: error[E0308]: mismatched types
vet: ./main.go:5:2: x declared and not used
main.go:6:2: Error return value of `f` is not checked (errcheck)
Found 7 errors.
"""


def test_findings_of_many_tools_are_named_by_file_and_code():
    """AL-9: lint and type check fail on new findings; lines shift, and messages are reworded."""
    reading = FINDINGS.read_report(ended(FOUND, 1))
    assert list(reading.outcomes) == snapshot(
        [
            "a.py: F401",
            "a.py: C0114",
            "src/b.py: assignment",
            "src/b.py: reportPossiblyUnbound",
            "src/c.ts: TS2322",
            "src/d.ts: TS2345",
            "src/e.js: no-undef",
            "src/e.js: @typescript-eslint/no-explicit-any",
            "src/main.rs: warning: unused variable: `x`",
            "src/main.rs: E0308",
            "main.go: x declared and not used",
            "main.go: errcheck",
        ]
    )
    assert reading.counts == {"a.py: F401": 2, "src/e.js: no-undef": 2}
    assert reading.messages["src/e.js: no-undef"] == snapshot(
        ("src/e.js: error 'x' is not defined no-undef", "src/e.js: error 'y' is not defined no-undef")
    )


def test_without_a_location_the_exit_code_is_the_finding():
    expected = {("a.py:1:1: bad\n", 0): {}, ("it broke\n", 2): {"exit 2": "failed"}}
    assert {(text, code): FINDINGS.read_report(ended(text, code)).outcomes for text, code in expected} == expected


def test_long_names_are_shortened_to_one_printable_line_and_stay_distinct():
    long = [printable_test_name("x" * 1_000_000 + end) for end in "ab"]
    assert [len(name) < 300 for name in long] == [True, True]
    assert long[0] != long[1]
    assert (printable_test_name("a\nb\x1b[0mc\x1b\udc80"), printable_test_name(printable_test_name("x" * 999))) == (
        "a\\nbc\\x1b\\udc80",
        printable_test_name("x" * 999),
    )


def test_too_many_tests_are_an_error():
    event = json.dumps(go_event("pass", "Test#"))
    lines = "\n".join(event.replace("#", str(number)) for number in range(20_001))
    assert GO.read_report(ended(lines)).problem == "error"


def node_report(*tests):
    """Return what our reporter writes of tests like `failed a.test.js > cart > adds`; a file alone is one, too."""
    suites = {}
    for test in tests:
        status, _, name = test.partition(" ")
        file, *titles = name.split(" > ")
        said = ["1 == 2\nat a.test.js:3:1"] if status == "failed" else []
        one = {"title": titles[-1] if titles else "", "ancestorTitles": titles[:-1]}
        suites.setdefault(file, []).append({**one, "status": status, "failureMessages": said})
    failed = sum(test.startswith("failed") for test in tests)
    results = [
        {"name": f"{NOWHERE}/{file}", "status": "passed", "assertionResults": each} for file, each in suites.items()
    ]
    return json.dumps({"numTotalTests": len(tests), "numFailedTests": failed, "testResults": results})


def test_node_tests_are_identified_by_file_titles_and_number(tmp_path):
    """BX-4: nested tests, tests of the same name, and files that are a test of their own."""
    tests = ("passed a.js > cart > adds", "failed a.js > cart > adds", "passed b.js > adds", "failed c.js")
    (tmp_path / REPORT).write_text(node_report(*tests))
    reading = NODE.read_report(ended(code=1, folder=tmp_path))
    assert (reading.problem, dict(reading.outcomes)) == (
        None,
        {"a.js > cart > adds": "passed", "a.js > cart > adds (2)": "failed", "b.js > adds": "passed", "c.js": "failed"},
    )
    assert reading.messages["a.js > cart > adds (2)"] == ("1 == 2\nat a.test.js:3:1",)


def test_a_node_report_is_checked_against_its_exit(tmp_path):
    """BX-4: it hides a failure, ends before its report, stops in the middle of it, or runs nothing."""
    assert NODE.read_report(ended(folder=tmp_path)).problem == "error"
    report = node_report("passed a.js > adds", "failed a.js > sums")
    for text, code, problem in [(report, 0, "error"), (report[:60], 1, "error"), (node_report(), 0, "vacuous")]:
        (tmp_path / REPORT).write_text(text)
        assert NODE.read_report(ended(code=code, folder=tmp_path)).problem == problem, text
