"""Which requested paths a rule may grant: the guard's classification, asked before anything changes."""

import pytest
from inline_snapshot import snapshot

from scaffold.core.proof.contract import Check, Contract
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.git import refs
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.requested_paths import classify_requested

FILES = {
    "calc/__init__.py": "",
    "calc/basic.py": "def add(a, b):\n    return a + b\n",
    "calc/tests/test_inner.py": "def test_inner(): pass\n",
    "tests/test_add.py": "def test_add(): pass\n",
    "tests/data.json": "{}\n",
    "tests/__init__.py": "",
    "spec/oddly_named.py": "def test_odd(): pass\n",
    "docs/guide.md": "x\n",
    "auth/login.py": "x = 1\n",
    "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']\n",
    "Makefile": "proof:\n\tsh tools/run.sh\n",
    "tools/run.sh": "true\n",
    "tools/other.py": "x = 1\n",
    "must/stay.py": "x = 1\n",
}
TEST = Gate(kind="test", command="pytest", runner="pytest")
CONTRACT = Contract(commands=(Check(command="make proof"),), must_not_change=("must/**",))


@pytest.fixture
async def classify(harness):
    """Return a function that classifies entries on a commit of the files above."""
    for name, text in FILES.items():
        path = harness.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    await harness.sh("git add --all; git commit -qm files")
    base = await refs.resolve(harness.context.git, "HEAD")
    run = GateRun(
        gate=TEST, commit=base, environment="e", exit_code=0, outcomes={"spec/oddly_named.py::test_odd": "passed"}
    )
    baseline = Baseline(environment=CheckEnvironment(fingerprint="e"), runs=(run,))

    async def classified(*entries, **declared):
        request = ProofRequest(contract=CONTRACT, baseline=baseline, **declared)
        return await classify_requested(request, harness.context.git, base, entries)

    return classified


async def test_an_ordinary_path_is_free(classify):
    """AL-9: whether it exists or not."""
    paths = (
        *("calc/basic.py", "docs/guide.md", "new.py", "new/", "docs/**", "tests/test_new.py", "tests/new_data.json"),
        *("tools/other.py", "calc/__init__.py", "./docs/guide.md", "notes/*.md"),
    )
    found = await classify(*paths)
    assert {path: (each.kind, dict(each.judging)) for path, each in zip(paths, found, strict=True)} == dict.fromkeys(
        paths, ("free", {})
    )


async def test_a_path_that_judges_the_work_takes_more_than_a_rule(classify):
    """AL-9, BX-5: by the guard's own classification."""
    paths = (
        *("tests/test_add.py", "tests/data.json", "spec/oddly_named.py", "conftest.py", "tests/conftest.py"),
        *("pytest.ini", "pyproject.toml", "ruff.toml", ".gitattributes", "Makefile", "tools/run.sh"),
        *("sitecustomize.py", ".env", "auth/login.py", "auth/new.py", ".npmrc", "json.py", "pytest.py"),
        "calc/tests/__init__.py",
    )
    found = await classify(*paths)
    assert {each.kind for each in found} == {"judges"}
    assert {path: each.judging[path] for path, each in zip(paths, found, strict=True)} == snapshot(
        {
            "tests/test_add.py": "is an existing test or test data",
            "tests/data.json": "is an existing test or test data",
            "spec/oddly_named.py": "is an existing test or test data",
            "conftest.py": "controls how tests run",
            "tests/conftest.py": "controls how tests run",
            "pytest.ini": "has settings that determine check results",
            "pyproject.toml": "has settings that determine check results",
            "ruff.toml": "configures how the work is checked",
            ".gitattributes": "decides which files users get",
            "Makefile": "configures `make`, which checks the work",
            "tools/run.sh": "is used to check the work",
            "sitecustomize.py": "runs whenever a Python interpreter starts",
            ".env": "is protected as `.env*`",
            "auth/login.py": "is in the protected area `**/auth/**`",
            "auth/new.py": "is in the protected area `**/auth/**`",
            ".npmrc": "is protected as `.npmrc`",
            "json.py": "is imported instead of the standard library's module `json`",
            "pytest.py": "is imported instead of a test tool's module `pytest`",
            "calc/tests/__init__.py": "runs before the tests in its folder",
        }
    )


async def test_a_path_that_could_never_land_is_not_asked_for(classify):
    """AL-9: no approval would help."""
    found = await classify(".git/hooks/pre-commit", ".scaffold/contracts/a.json", "must/stay.py", "calc.py")
    assert {each.kind for each in found} == {"forbidden"}
    assert [each.why for each in found] == snapshot(
        [
            "is obeyed by git, Scaffold or other agents, so no task may change it",
            "is obeyed by git, Scaffold or other agents, so no task may change it",
            "must stay as it is: the task is done only if it does",
            "has the same name as the folder calc/",
        ]
    )


async def test_of_a_folder_only_what_judges_nothing_is_granted(classify):
    """AL-9: the tests in it stay, and are named."""
    for found in await classify("calc/", "calc", "calc/**", "**", ".", "**/*.py"):
        assert found.kind == "free"
        assert "calc/tests/test_inner.py" in found.judging
        assert "calc/basic.py" not in found.judging


async def test_a_folder_in_which_everything_judges_is_asked_for_like_a_file(classify):
    entries = ("tests/", "tests", "tests/**", "tests/*.py", "spec/", "auth")
    found = await classify(*entries)
    assert {entry: each.kind for entry, each in zip(entries, found, strict=True)} == dict.fromkeys(entries, "judges")


async def test_what_is_declared_is_not_asked_for(classify):
    """AL-9: in full by the plan or an approval, in part by a rule."""
    found = await classify(
        *(
            "tests/test_add.py",
            "docs/guide.md",
            "calc/basic.py",
            "calc/tests/test_inner.py",
            "calc/",
            "sitecustomize.py",
        ),
        files=("tests/", "."),
        granted=("calc/",),
    )
    assert [each.kind for each in found] == ["declared", "declared", "declared", "judges", "declared", "judges"]
