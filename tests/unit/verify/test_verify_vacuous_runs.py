"""Whether a test runner ran any test, by its output."""

from integration.verify.builders import command_result
from scaffold.verify.contract.vacuous_runs import ran_nothing

NODE = "TAP version 13\n{}\n1..1\n# tests 1\n# suites 0\n# pass {}\n# fail 0\n# skipped {}\n# todo 0\n"
CARGO = "running {} tests\n\ntest result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n"


def idle(command, out="", *, err="", exit_code=0):
    return ran_nothing(command, command_result(exit_code, out=out, err=err))


def test_a_runner_without_tests_is_recognised_by_its_output():
    """AL-8, BX-5: skipped tests and expected failures did not run."""
    rows = [
        ("pytest -q", "x\n1 xfailed in 0.01s", ""),
        ("pytest -q", "xs\n1 skipped, 1 xfailed, 1 warning in 0.01s", ""),
        ("python -m unittest", "", "s\n---\nRan 1 test in 0.000s\n\nOK (skipped=1)\n"),
        ("python -m unittest -v", "", "Ran 3 tests in 0.000s\n\nOK (skipped=1, expected failures=2)\n"),
        ("go test ./division", "?   \texample.org/calc/division\t[no test files]\n", ""),
        ("go test -run TestDiv ./...", "ok  \ta.b/c\t0.002s [no tests to run]\n?   \ta.b/d\t[no test files]\n", ""),
        ("cargo test division", CARGO.format(0, 0) + CARGO.format(0, 0), ""),
        ("cargo +nightly test", CARGO.format(0, 0), ""),
        ("npx jest division", "", "Test Suites: 1 skipped, 0 of 1 total\nTests:       2 skipped, 2 total\n"),
        ("jest --passWithNoTests", "No tests found, exiting with code 0\n", ""),
        ("vitest run", " Test Files  1 skipped (1)\n      Tests  1 skipped (1)\n", ""),
        ("vitest run", "No test files found, exiting with code 0\n", ""),
        ("node --test test/a.test.js", NODE.format("ok 1 - div # SKIP", 0, 1), ""),
        ("node --test test/a.test.js", NODE.format("ok 1 - /tmp/x/test/a.test.js", 1, 0), ""),
        ("pytest --color=yes", "\x1b[33mno tests ran\x1b[0m in 0.00s\n", ""),
        ("cargo test x", CARGO.format(0, 0).replace("ok.", "\x1b[32mok\x1b[0m."), ""),
        ("npm test", "\x1b[34m\u2139 tests 1\x1b[39m\n\x1b[34m\u2139 pass 0\x1b[39m\n", ""),
        ("npm test", "\u2139 tests 1\n\u2139 pass 0\n\u2139 fail 0\n\u2139 skipped 1\n", ""),
    ]
    assert [
        (command, out, err)
        for command, out, err in rows
        if not idle(command, out, err=err) or idle("grep -c test a.txt", out, err=err)
    ] == []


def test_a_runner_that_ran_a_test_is_not_vacuous():
    """AL-8: any test that ran counts."""
    rows = [
        ("pytest -q", "x.\n1 passed, 1 xfailed in 0.01s", ""),
        ("pytest -q", "X\n1 xpassed in 0.01s", ""),
        ("python -m unittest", "", "Ran 2 tests in 0.000s\n\nOK (skipped=1)\n"),
        ("go test ./...", "ok  \ta.b/c\t0.002s\n?   \ta.b/d\t[no test files]\n", ""),
        ("go test ./...", "ok  \ta.b/c\t(cached)\n", ""),
        ("cargo test", CARGO.format(3, 3) + CARGO.format(0, 0), ""),
        ("npx jest", "", "Tests:       1 skipped, 1 passed, 2 total\n"),
        ("vitest run", "      Tests  1 passed | 1 skipped (2)\n", ""),
        ("node --test", NODE.format("ok 1 - div", 1, 0), ""),
        ("node --test", NODE.format("ok 1 - div", 2, 0) + "ok 2 - /tmp/x/test/a.test.js\n", ""),
        ("npm test", "it works\n", ""),
        ("go test ./...", "", ""),
    ]
    assert [(command, out, err) for command, out, err in rows if idle(command, out, err=err)] == []


def test_a_failing_go_run_without_tests_has_failed():
    assert not idle("go test ./...", "?   \ta.b/d\t[no test files]\n", exit_code=1)
