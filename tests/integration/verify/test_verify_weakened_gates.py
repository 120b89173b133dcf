"""Work after which detection finds weaker gates, on real commits."""

import pytest

from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate
from scaffold.verify.guard import check_changed_paths
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.weakened_gates import weakened_gates

CI = ".github/workflows/ci.yml"
STEPS = "jobs:\n  check:\n    steps:\n      - run: ruff check .\n      - run: pytest\n"
BASE = {
    CI: STEPS,
    "pyproject.toml": "[project]\nname = 'calc'\n\n[tool.ruff]\nline-length = 100\n",
    "tests/test_a.py": "def test_a():\n    pass\n",
    "a.py": "pass\n",
}
NO_GATES = Baseline(environment=CheckEnvironment(fingerprint="env"), runs=())
ONLY_WARNS, GONE = "lint would only warn", "lint would be gone"
FEWER = "test would be `python3 -m pytest -q -k a` instead of `python3 -m pytest -q`"


async def found(candidates, work, **terms):
    """Return what weakens gates: by undeclared files, and by declared ones alone; and the blocking results."""
    tree, changes = await candidates.worked({"number": str(len(candidates.reported)), **BASE}, work)
    candidates.reported.append(work)
    request = ProofRequest(baseline=NO_GATES, **terms)
    weakened = await weakened_gates(request, tree, changes)
    blocking = [each.detail for each in await check_changed_paths(request, tree, changes) if each.verdict == "fail"]
    await candidates.harness.sh("git reset -q --hard HEAD~1")
    return weakened, "\n".join(blocking)


async def test_work_that_disarms_the_projects_own_checks_has_to_be_declared(candidates):
    """AL-9, AL-10, BX-5: later runs would take its version for what the project checks."""
    for work, why in (
        ({CI: STEPS.replace("pytest", "pytest -k a")}, FEWER),
        ({CI: STEPS.replace("      - run: ruff check .\n", "")}, ONLY_WARNS),
        ({CI: STEPS.replace("ruff check .", "ruff check . || true")}, ONLY_WARNS),
        ({CI: None, "noxfile.py": "def test(session):\n    session.run('pytest')\n"}, ONLY_WARNS),
    ):
        weakened, blocking = await found(candidates, work)
        assert {each.partition(": ")[2] for _, each in weakened.undeclared} == {why}
        assert why in blocking
        assert not weakened.doubts


async def test_declared_work_that_disarms_the_projects_own_checks_leaves_a_doubt(candidates):
    """BX-1: even if a file that weakens nothing is not declared."""
    work = {CI: STEPS.replace("pytest", "pytest -k a"), "Makefile": "style:\n\truff format .\n", "b.py": ""}
    weakened, blocking = await found(candidates, work, files=(".github/",))
    ((code, text),) = [(each.code, each.text) for each in weakened.doubts]
    assert (code, text.endswith(FEWER), FEWER in blocking) == ("gates_weakened", True, False)


async def test_only_the_file_that_weakens_a_gate_is_named(candidates):
    work = {CI: STEPS.replace("      - run: ruff check .\n", ""), "Makefile": "test:\n\tpytest\n"}
    weakened, _ = await found(candidates, work)
    assert [path for path, _ in weakened.undeclared] == [CI]


async def test_settings_that_are_taken_away_are_taken_away_from_later_runs(candidates):
    work = {CI: None, "pyproject.toml": BASE["pyproject.toml"].partition("\n\n")[0]}
    weakened, _ = await found(candidates, work, files=("pyproject.toml", CI))
    assert weakened.declared == (GONE,)


@pytest.mark.slow
async def test_edits_that_change_no_gate_are_free(candidates):
    """AL-9: so are those of kinds of gates that the settings decide."""
    for work, terms in (
        ({CI: STEPS + "  docs:\n    steps:\n      - run: mkdocs build\n"}, {}),
        ({CI: STEPS.replace("ruff check .", "ruff check . --output-format github")}, {}),
        ({CI: None, "tox.ini": "[testenv]\ncommands =\n    ruff check .\n    pytest {posargs}\n"}, {}),
        ({"Makefile": "lint:\n\truff check tests\n"}, {}),
        ({".pre-commit-config.yaml": "repos:\n- hooks:\n  - id: mypy\n"}, {}),
        ({CI: STEPS.replace("ruff check .", "true")}, {"gates_off": ("lint",)}),
        ({CI: STEPS.replace("ruff check .", "true")}, {"gates_given": (Gate(kind="lint", command="ruff check"),)}),
        ({CI: STEPS.replace("jobs", "jobs ")}, {}),
    ):
        weakened, blocking = await found(candidates, work, **terms)
        assert (weakened.undeclared, weakened.declared, "in later runs" in blocking) == ((), (), False), work
