"""Why checks are unusable before any work: what is missing, and how to fix it."""

from inline_snapshot import snapshot

from scaffold.core.proof.gates import Gate, GateRun
from scaffold.verify.locate_tests import path_of_test
from scaffold.verify.regression.baseline_capture import missing_dependency, unready_reason

TEST = Gate(kind="test", command="pytest -q", runner="pytest")


def run(gate=TEST, **fields):
    return GateRun(**({"gate": gate, "commit": "c", "environment": "e", "exit_code": 1} | fields))


def test_the_missing_dependency_is_named_if_the_output_shows_it():
    """AL-10: the missing module, file, service or tool."""
    outputs = [
        "E   ModuleNotFoundError: No module named 'flask'",
        "/usr/bin/python: No module named pytest",
        "ImportError: cannot import name 'shop' from 'app'",
        "Error: Cannot find module 'express'\nRequire stack:",
        "a.go:3:8: missing go.sum entry for module providing package golang.org/x/text; to add:",
        "connect ECONNREFUSED 127.0.0.1:5432",
        "could not connect: localhost:6379: Connection refused.",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.csv'",
        "/bin/sh: 1: npm: not found",
        "bash: cargo: command not found",
        "error: rustup could not choose a version of cargo to run, because one wasn't specified explicitly",
    ]
    assert missing_dependency("assert 1 == 2\nAssertionError") is None
    assert [missing_dependency(f"collected\n{output}\n1 error") for output in outputs] == snapshot(
        [
            "the Python module `flask` is not installed",
            "the Python module `pytest` is not installed",
            "the Python name `shop` cannot be imported",
            "the Node module `express` is not installed",
            "go.sum has no entry for `golang.org/x/text`",
            "no service answers at 127.0.0.1:5432",
            "no service answers at localhost:6379",
            "a required service does not answer (connection refused)",
            "the file data/x.csv is missing",
            "the program `npm` was not found",
            "the program `cargo` was not found",
            "rustup has no default toolchain, so there is no `cargo`",
        ]
    )


def test_a_vacuous_test_run_is_no_baseline():
    """AL-10: the run stops before spending money, with the reason."""
    runs = [
        run(problem="error", detail="2 files could not be collected: a.py.\nboom"),
        run(problem="timeout", duration_s=600.2),
        run(problem="vacuous"),
        run(problem="error", exit_code=127),
        run(outcomes={"a": "failed", "b": "skipped"}),
        run(outcomes={"a": "error"}, messages={"a": ("AssertionError: no server",)}),
        run(Gate(kind="test", command="make test"), detail="No module named x"),
    ]
    found = [unready_reason(shown, given=False) for shown in runs]
    assert [problem.what for problem in found] == snapshot(
        [
            "the gate `test` (pytest -q) cannot judge any work: 2 files could not be collected: a.py",
            "the gate `test` (pytest -q) cannot judge any work: it timed out after 600 s",
            "the gate `test` (pytest -q) cannot judge any work: it ran no tests although tests exist",
            "the gate `test` (pytest -q) cannot judge any work: its command could not be run (exit code 127)",
            "the gate `test` (pytest -q) cannot judge any work: none of its tests pass (2 ran)",
            "the gate `test` (pytest -q) cannot judge any work: none of its tests pass (1 ran)",
            "the gate `test` (make test) cannot judge any work: the Python module `x` is not installed",
        ]
    )
    assert [each for each in found if "`quality_gates.test`" not in each.fix or "\n" in each.fix] == []


def test_a_run_that_distinguishes_good_from_bad_is_a_baseline():
    """AL-10: failures are allowed; a detected linter that cannot run does not stop the run."""
    runs = [
        run(outcomes={"a": "failed", "b": "passed"}, detail="No module named x"),
        run(outcomes={"a": "flaky"}),
        run(outcomes={"a": "failed"}, messages={"a": ("AssertionError: 2 != 6",)}),
        run(outcomes={"a": "failed"}, messages={"a": ("AttributeError: module 'calc' has no attribute 'mul'",)}),
        run(Gate(kind="test", command="make test"), outcomes={"exit": "failed"}, detail="1 of 9 tests failed"),
        run(Gate(kind="lint", command="ruff"), problem="error"),
        run(Gate(kind="build", command="make"), outcomes={"exit": "failed"}),
    ]
    assert [shown for shown in runs if unready_reason(shown, given=False) is not None] == []


def test_code_that_is_to_come_is_no_missing_dependency():
    """AL-10: unless something else is missing, too."""
    said = "ImportError: cannot import name 'area' from 'shape'\nNo module named 'colour'\n"
    red = run(problem="error", unloaded=("test_shape.py",), detail=said)
    assert unready_reason(red, given=False, to_come={"shape.area", "colour"}) is None
    for more, named in (("", "`colour` is not installed"), ("ECONNREFUSED 127.0.0.1:5432", "no service answers")):
        known = {"shape.area"} if not more else {"shape.area", "colour"}
        problem = unready_reason(run(problem="error", unloaded=("a",), detail=said + more), given=False, to_come=known)
        assert problem is not None
        assert named in problem.what


def test_a_configured_gate_must_work_and_setup_commands_are_named():
    """AL-10: a configured gate is meant to run."""
    problem = unready_reason(run(Gate(kind="lint", command="ruff"), problem="error"), given=True, setup=("npm ci",))
    assert problem is not None
    assert problem.fix == snapshot(
        "Run `scaffold trust` so that `npm ci` may run; or set another command in `quality_gates.lint`, or turn it "
        "off with `off`."
    )


def test_a_missing_service_is_named_instead_of_the_check_that_needs_it():
    """AL-10: name the missing service, and where it is mended."""
    details = [
        "The service `db @x` ended with exit code 127 before it was ready.\n/bin/sh: 1: db: not found",
        "The service `db` did not listen on 80 within 60 s.\n",
        "The service `db` was not started: port 80 is already in use.\n",
    ]
    runs = [run(problem="error", exit_code=126, detail=detail) for detail in details]
    found = [unready_reason(each, given=False, setup=("npm ci",)) for each in runs]
    assert [problem.what for problem in found] == snapshot(
        [
            (
                "the gate `test` (pytest -q) cannot judge any work: the service `db @x` ended with exit code 127 "
                "before it was ready, because the program `db` was not found"
            ),
            "the gate `test` (pytest -q) cannot judge any work: the service `db` did not listen on 80 within 60 s",
            (
                "the gate `test` (pytest -q) cannot judge any work: the service `db` was not started: port 80 is "
                "already in use"
            ),
        ]
    )
    assert {problem.fix for problem in found} == snapshot(
        {"Fix it in `services`; or set another command in `quality_gates.test`, or turn it off with `off`."}
    )


def test_a_test_is_found_in_its_file():
    expected = {
        ("pytest", "", "tests/test_a.py::TestX::test_y[a::b]"): "tests/test_a.py",
        ("pytest", "api", "test_b.py::test"): "api/test_b.py",
        ("pytest", "", "exit"): None,
        ("unittest", "", "tests.test_a.Case.test_y"): "tests/test_a.py",
        ("unittest", "", "nowhere.Case.test_y"): None,
        ("jest", "web", "src/a.test.js > sums > adds"): "web/src/a.test.js",
        ("go", "", "example.org/shop/cart.TestSum/with.dots/and_slashes"): "cart",
        ("go", "", "example.org/shop.TestTop"): "",
        ("cargo", "", "src/lib.rs: tests::adds"): "src/lib.rs",
        ("findings", "", "src/a.py: F401 unused"): "src/a.py",
        ("exit", "", "exit"): None,
    }
    paths = {"tests/test_a.py", "api/test_b.py", "web/src/a.test.js", "cart/cart_test.go", "top_test.go", "src/lib.rs"}
    assert {
        (runner, folder, name): path_of_test(Gate(kind="test", command="x", runner=runner, folder=folder), name, paths)
        for runner, folder, name in expected
    } == expected
