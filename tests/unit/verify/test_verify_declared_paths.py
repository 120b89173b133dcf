"""Which paths an action has declared."""

import pytest

from scaffold.core.plan import ActionSpec
from scaffold.core.proof.contract import Check, Contract
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.verify.paths.declared_paths import (
    is_declared_by_name,
    is_declared_path,
    is_declared_specifically,
    named_tests,
)
from scaffold.verify.proof_request import ProofRequest

PATHS = (
    *("calc.py", "test_calc.py", "src/shop/cart.py", "src/shop/utils.py", "src/web/utils.py", "tests/conftest.py"),
    *("tests/test_cart.py", "tests/deep/test_cart.py", "tests/test_utils.py", "tests/data.json", "tests/tests.py"),
    *("web/button.tsx", "web/button.test.tsx", "web/button.test.ts", "go/sum.go", "go/sum_test.go"),
    *("auth/test_login.py", "Makefile"),
)


def test_files_are_declared_by_path_folder_or_glob():
    """AL-9: a declaration of everything does not count where a file must be declared deliberately."""
    rows = [
        ((), "a.py", False, False, False),
        (("a.py",), "a.py", True, True, True),
        (("./a.py",), "a.py", True, True, True),
        (("a.py",), "b/a.py", False, False, False),
        (("src",), "src/a.py", True, True, False),
        (("src/",), "src/deep/a.py", True, True, False),
        (("src",), "src2/a.py", False, False, False),
        (("tests/**",), "tests/conftest.py", True, True, False),
        (("src/*.py",), "src/a.py", True, True, False),
        (("**/conftest.py",), "tests/conftest.py", True, True, True),
        (("**/*_test.go",), "pkg/a_test.go", True, True, True),
        (("**",), "tests/conftest.py", True, False, False),
        ((".",), "tests/conftest.py", True, False, False),
        (("**/*.py",), "tests/conftest.py", True, False, False),
        (("[!x]*",), "conftest.py", True, False, False),
        (("pages/[id].tsx",), "pages/[id].tsx", True, True, True),
        ((".env",), ".env", True, True, True),
    ]
    assert [
        (files, path, is_declared, is_meant, is_named)
        for files, path, is_declared, is_meant, is_named in rows
        if (is_declared_path(path, files), is_declared_specifically(path, files), is_declared_by_name(path, files))
        != (is_declared, is_meant, is_named)
    ] == []


@pytest.mark.parametrize(
    ("said", "command", "tests"),
    [
        ("Add mul() to calc.py, with a test in `test_calc.py`.", "true", ["test_calc.py"]),
        ("", "python3 -m unittest -q test_calc", ["test_calc.py"]),
        ("", "python -m unittest tests.deep.test_cart.Case.test_one", ["tests/deep/test_cart.py"]),
        ("", "pytest ./tests/test_cart.py::test_one -q", ["tests/test_cart.py"]),
        ("Change calc.py.", "make", ["test_calc.py"]),
        ("See (src/shop/cart.py)", "make", ["tests/deep/test_cart.py", "tests/test_cart.py"]),
        ("cart.py: count", "make", ["tests/deep/test_cart.py", "tests/test_cart.py"]),
        ("web/button.tsx", "make", ["web/button.test.tsx"]),
        ("sum.go", "go test ./...", ["go/sum_test.go"]),
        ("Two files have this name: test_cart.py, utils.py, src/web/utils.py", "make tests", []),
        ("Test the calc; add tests. Not tests/data.json, conftest.py, auth/test_login.py", "make tests", []),
        ("https://example.org/test_calc.py, /tmp/test_calc.py", "pytest --ignore=test_calc.py", []),
    ],
)
def test_a_task_without_files_declares_the_tests_that_it_names_and_those_of_the_files_that_it_names(
    said, command, tests
):
    """AL-9: a name means one file; modules are names for unittest alone; helpers, data and protected areas are not."""
    action = ActionSpec(key="a", description=said, contract=Contract(commands=(Check(command=command),)))
    assert list(named_tests(action, PATHS, ProtectedAreas())) == tests


def test_a_named_test_is_declared_only_if_a_gate_ran_it_on_the_base():
    """AL-9, AL-10: without results nothing shows that it has lost something."""
    task = ActionSpec(key="a", description="test_calc.py, sum.go")
    outcomes = {"pytest": "test_calc.py::test_a", "go": "example.org/sums/go.TestSum", "exit": "exit"}
    found = {}
    for runner, name in outcomes.items():
        gate = Gate(kind="test", command=runner, runner=runner)
        run = GateRun(gate=gate, commit="c", environment="e", exit_code=0, outcomes={name: "passed"})
        baseline = Baseline(environment=CheckEnvironment(fingerprint="e"), runs=(run,))
        found[runner] = ProofRequest(task=task, baseline=baseline).declared_among(PATHS)
    assert found == {"pytest": ("test_calc.py",), "go": ("go/sum_test.go",), "exit": ()}
    assert ProofRequest(task=task).declared_among(PATHS) == ()
    assert ProofRequest(task=task, files=("a.py",)).named_only(["a.py", "test_calc.py"]) == ("test_calc.py",)
    assert ProofRequest(task=ActionSpec(key="a", files=("a.py",))).named_only(["test_calc.py"]) == ()


def test_files_of_a_plan_and_what_must_not_change_count_more_than_names():
    """AL-9: a review declares nothing."""
    contract = Contract(must_not_change=("test_*",))
    for fields in ({"files": ("calc.py",)}, {"contract": contract}, {"role": "code_review"}):
        assert named_tests(ActionSpec(key="a", title="calc.py", **fields), PATHS, ProtectedAreas()) == ()
