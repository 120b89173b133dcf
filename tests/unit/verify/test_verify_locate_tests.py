"""Which files the results of runners make test files."""

from scaffold.core.proof.gates import Gate, GateRun
from scaffold.verify.locate_tests import files_with_tests

TEST = Gate(kind="test", command="pytest", runner="pytest")


def test_doctests_make_a_text_a_test_file_but_no_python_module():
    """BX-5, AL-9: what the doctests of a text expect stands nowhere else."""
    rows = [
        ("specs/check_a.py::Some::test_a[1-x]", True),
        ("calc/basic.py::calc.basic.add", False),
        ("calc/basic.py::ruff", False),
        ("README.md::README.md", True),
        ("docs/use.rst::use.rst", True),
        ("README.md::codespell", False),
        ("::mypy-status", False),
    ]
    for name, found in rows:
        path = name.partition("::")[0]
        run = GateRun(gate=TEST, commit="c", environment="e", exit_code=0, outcomes={name: "passed"})
        assert files_with_tests([run], {path}) == ({path} if found else set()), name
