"""Which files a candidate may touch, on real commits."""

import msgspec
import pytest

from scaffold.core.contract import Check, Contract
from scaffold.core.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.git import refs, worktree
from scaffold.git.commits import PathChange
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.verify.contract.checks import Tree
from scaffold.verify.guard import check_changed_paths, declared_protected_paths
from scaffold.verify.proof import prove_candidate
from scaffold.verify.request import ProofRequest

PROJECT = """mkdir -p tests calc
echo 'def test_add(): pass' > tests/test_add.py
echo 'def add(): pass' > calc/basic.py; touch calc/__init__.py
printf '[project]\\nname = "calc"\\n\\n[tool.pytest.ini_options]\\ntestpaths = ["tests"]\\n' > pyproject.toml
git add -A; git commit -qm base"""

CHANGES = (PathChange("calc/basic.py", "M"),)


@pytest.fixture
async def changed(harness, tmp_path):
    """Return a function that commits a shell command's changes to a small project, checked out."""
    await harness.sh(PROJECT)
    base = await refs.resolve(harness.context.git, "HEAD")

    async def change(command):
        await harness.sh(f"{command}; git add -A --force; git commit -qm work")
        head = await refs.resolve(harness.context.git, "HEAD")
        git = await worktree.add(harness.context.repository, tmp_path / "tree", head)
        return Tree(git=git, base=base, commit=head, environ=dict(harness.context.environ))

    return change


async def shown(tree, *, contract=None, **standard):
    """Return the results of the verification by name."""
    verification = await prove_candidate(ProofRequest(contract=contract, **standard), tree)
    return {result.name: result for result in verification.results}, verification


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("echo x >> tests/test_add.py", "checks", "tests/test_add.py is an existing test"),
        ("git rm -q tests/test_add.py", "checks", "tests/test_add.py is an existing test"),
        ("git mv tests/test_add.py tests/add.txt", "checks", "tests/test_add.py is an existing test"),
        ("echo x > conftest.py", "checks", "conftest.py controls how tests run"),
        ("echo 'addopts = \"-x\"' >> pyproject.toml", "checks", "[tool.pytest] addopts"),
        ("git rm -q pyproject.toml", "checks", "[tool.pytest] testpaths"),
        ("echo x > sitecustomize.py", "checks", "sitecustomize.py runs whenever a Python interpreter starts"),
        ("echo x > calc.py", "shadowing", "calc.py has the same name as the folder calc/"),
        ("echo x > pytest.py", "shadowing", "pytest.py is imported instead of a test tool's module"),
        ("echo x > login.sql", "protected", "login.sql is in the protected area `.sql`"),
        ("echo x > calc/.npmrc", "protected files", "calc/.npmrc is protected as `.npmrc`"),
        (
            "mkdir -p .ssh .cursor; echo x > .ssh/config; echo x > .cursor/a",
            "protected files",
            ".ssh/config is protected",
        ),
        ("mkdir .vscode; echo {} > .vscode/tasks.json", "protected files", ".vscode/tasks.json is protected"),
        ("mkdir .husky; echo x > .husky/pre-commit", "sealed", ".husky/pre-commit"),
        ("git init -q calc/own; git -C calc/own commit --allow-empty -qm x", "submodules", "calc/own points to"),
        (
            "mkdir -p calc/b/refs calc/b/objects; cd calc/b; touch refs/a objects/a config; echo x > Head",
            "repositories",
            "calc/b/config is in a git repository",
        ),
        ("ln -s /etc/hosts calc/hosts", "links", "calc/hosts points outside the repository"),
        ("ln -s ../../.. calc/up", "links", "calc/up points outside the repository"),
        ("ln -s ../tests/test_add.py calc/t.py", "links", "calc/t.py points to tests/test_add.py"),
        ("ln -s ../calc/basic.py tests/test_b.py", "links", "tests/test_b.py makes calc/basic.py a test"),
        ("rm -r tests; ln -s calc tests", "checks", "tests/test_add.py is an existing test"),
        ("touch pytest.ini", "checks", "pytest.ini changes what determines check results: [pytest]"),
        ("echo ./tools/x.whl > requirements.txt", "checks", "requirements.txt changes what determines check results"),
        ("echo x > calc/Basic.py", "shadowing", "calc/Basic.py is in the place of calc/basic.py"),
        ("echo 1 >> calc/basic.py; echo basic.py > calc/.gitignore", "attributes", "names calc/basic.py"),
        ("echo 1 >> calc/basic.py; echo basic.py > calc/.ignore", "attributes", "names calc/basic.py"),
        (
            "echo 1 > calc/a.py; echo 'prune calc' > MANIFEST.in",
            "attributes",
            "leaves out changed code by `prune calc`",
        ),
        ("echo '# coding: unicode_escape' > calc/a.py", "encodings", "calc/a.py is in `unicode_escape`"),
        ("echo 'import calc' > tests/__init__.py", "checks", "tests/__init__.py runs before the tests in its folder"),
    ],
)
async def test_a_change_of_check_inputs_blocks_before_the_contract_runs(changed, command, name, said):
    """AL-9, BX-5: safety comes first, and if it blocks nothing else runs."""
    results, verification = await shown(await changed(command), contract=Contract(commands=(Check(command="true"),)))
    assert results[name].verdict == "fail"
    assert said in results[name].detail
    assert "true" not in results
    assert not verification.passed


@pytest.mark.parametrize(
    ("recipe", "check"),
    [
        ("printf 'proof:\\n\\t@./tools/run.sh\\n' > Makefile", "make proof"),
        ("printf 'proof:\\n\\tsh -e tools/run.sh\\n' > Makefile", "make proof"),
        ("printf 'proof:\\n\\tsh tools/outer\\n' > Makefile; echo 'bash tools/run.sh' > tools/outer", "make proof"),
        ("echo 'cd tools; . ./run.sh' > proof", "sh proof"),
        ('printf \'{"scripts": {"proof": "bash tools/run.sh"}}\' > package.json', "npm run proof"),
    ],
)
async def test_a_script_that_a_makefile_runs_is_protected_like_the_makefile(harness, changed, recipe, check):
    """AL-9, BX-5: scripts called by `make` or `npm run` cannot be changed to always succeed."""
    await harness.sh(f"mkdir tools; echo false > tools/run.sh; {recipe}; git add -A; git commit -qm recipe")
    tree = await changed("echo true > tools/run.sh")
    tree = msgspec.structs.replace(tree, base=await refs.resolve(harness.context.git, "HEAD~1"))
    results, verification = await shown(tree, contract=Contract(commands=(Check(command=check),)))
    assert "tools/run.sh is used to check the work" in results["checks"].detail
    assert not verification.passed


@pytest.mark.parametrize(
    ("settings", "check", "protected"),
    [
        ('printf \'{"scripts": {"proof": "node -r ./etc/x.js --test"}}\' > package.json', "npm run proof", True),
        ("printf 'proof:\\n\\ttrue --config etc/x.js\\nrun:\\n\\ttrue\\n' > Makefile", "make proof", True),
        ("printf 'proof:\\n\\ttrue\\nrun:\\n\\ttrue --config etc/x.js\\n' > Makefile", "make proof", False),
        (
            'printf \'{"extends": "./etc/a"}\' > .eslintrc.json; printf \'{"extends": "./x"}\' > etc/a.json',
            "true",
            True,
        ),
        ("true", "true --config=etc/x.js", True),
        ("true", "true", False),
    ],
)
async def test_a_file_that_a_command_or_setting_loads_is_protected(harness, changed, settings, check, protected):
    """AL-9, BX-5: whatever its name, also if a file that is loaded names it; not if only other targets do."""
    await harness.sh(f"mkdir etc; echo 1 > etc/x.js; {settings}; git add -A; git commit -qm settings")
    tree = await changed("echo 2 > etc/x.js")
    tree = msgspec.structs.replace(tree, base=await refs.resolve(harness.context.git, "HEAD~1"))
    results, _ = await shown(tree, contract=Contract(commands=(Check(command=check),)))
    assert ("checks" in results and "etc/x.js is loaded" in results["checks"].detail) == protected


async def test_paths_that_must_not_change_are_checked_first(changed):
    """AL-9: no command of the contract runs on a forbidden change."""
    contract = Contract(commands=(Check(command="true"),), must_not_change=("calc/**", "tests/**"))
    results, _ = await shown(await changed("echo x >> calc/basic.py"), contract=contract)
    assert [(name, result.verdict) for name, result in results.items()] == [("must_not_change: calc/**", "fail")]


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("echo x >> calc/basic.py", ()),
        ("echo 'def test_x(): pass' > tests/test_more.py; mkdir tests/data; echo 1 > tests/data/x", ()),
        ("echo 'def test_x(): pass' > tests/test_login.py", ("calc/",)),
        ("sed -i 's/name = .*/&\\ndependencies = [\"click\"]/' pyproject.toml", ()),
        ("echo x >> tests/test_add.py; echo x > tests/conftest.py", ("tests/",)),
        ("echo x > login.py", ("login.py",)),
        ("ln -s basic.py calc/again.py", ()),
        ("touch tests/__init__.py", ()),
        ('echo \'"""Tests."""  # all of them\' > tests/__init__.py', ()),
        ("mkdir tests/new; echo 'import calc' > tests/new/__init__.py", ()),
        ("git mv calc/basic.py calc/sums.py", ()),
        ("echo x > 'calc/data für alle.txt'", ()),
        ("echo x > sitecustomize.py", ("sitecustomize.py",)),
        ("echo x > json.py", ("json.py",)),
        ("echo click > requirements.txt; echo 'x = 1' > setup.cfg.txt", ()),
        ("printf '__pycache__/\\n*.log\\nbuild/\\n' > .gitignore; echo 1 >> calc/basic.py", ()),
        ("echo 'global-exclude *.py[cod]' > MANIFEST.in; echo 'prune tests' >> MANIFEST.in; echo > calc/a.py", ()),
        ("echo 1 >> calc/basic.py; echo basic.py > calc/.gitignore", ("calc/", "calc/.gitignore")),
        ("printf '# coding: gbk\\n# \\xc4\\xe3\\n' > calc/a.py; echo '# coding: latin-1' > calc/b.py", ()),
    ],
)
async def test_honest_work_passes_without_a_warning(changed, command, files):
    """AL-9: new tests, new dependencies, and declared files."""
    results, verification = await shown(await changed(command), files=files)
    assert list(results) == ["change"]
    assert verification.passed


async def test_undeclared_paths_raise_a_warning_that_names_them(changed):
    tree = await changed("echo x > other.py; echo x > 'tests/test_new.py'; echo x >> calc/basic.py")
    results, verification = await shown(tree, files=("calc/",))
    assert (results["files"].verdict, verification.passed) == ("warn", True)
    assert results["files"].detail.endswith("\n- other.py")


@pytest.mark.parametrize("files", [("**",), (".",), ("**/*.py",)])
async def test_declaring_everything_declares_no_test(changed, files):
    results, _ = await shown(await changed("echo x >> tests/test_add.py"), files=files)
    assert results["checks"].verdict == "fail"


async def test_a_declared_folder_does_not_cover_files_that_run_automatically(changed):
    results, _ = await shown(await changed("echo x > calc/evil.pth"), files=("calc/",))
    assert "calc/evil.pth" in results["checks"].detail


async def test_a_module_beside_a_package_of_its_name_is_refused_even_if_declared(changed):
    """BX-5: one of the two could never be imported."""
    results, _ = await shown(await changed("echo x > calc.py"), files=("calc.py",))
    assert "calc.py has the same name as the folder calc/" in results["shadowing"].detail


async def test_configured_protected_areas_count_too(changed):
    """AL-9: a protected area is whatever the user calls one."""
    tree = await changed("echo x >> calc/basic.py")
    areas = ProtectedAreas(words=("basic",))
    assert "protected" in (await shown(tree, areas=areas))[0]
    assert "protected" not in (await shown(tree, areas=areas, files=("calc",)))[0]


def test_declared_protected_paths_need_a_humans_approval():
    """AL-9: a declaration leads to a question, not to a refusal."""
    changed = ("auth/a.py", "calc.py", "db/x.sql")
    assert declared_protected_paths(changed, ("auth/",), ProtectedAreas()) == ("auth/a.py",)
    assert declared_protected_paths(changed, ("**",), ProtectedAreas()) == ()
    assert declared_protected_paths(("x", ".npmrc"), (".npmrc", "x"), ProtectedAreas()) == (".npmrc",)


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("echo x > .envrc", (".envrc",)),
        ("echo x > .env.example", ()),
        ("mkdir -p tests/keys; echo x > tests/keys/server.pem", ()),
    ],
    ids=["declared", "a template", "a certificate of a new test"],
)
async def test_an_expected_change_of_a_protected_file_is_not_refused(changed, command, files):
    """RA-14: a declared one waits for a human instead."""
    assert "protected files" not in (await shown(await changed(command), files=files))[0]


async def test_a_protected_file_inside_a_submodule_is_refused_unless_declared(harness, changed):
    """RA-14: what lands is only a pointer, so the change behind it counts."""
    await harness.sh(
        "git init -q ../lib; cd ../lib; echo l > l; git add .; git commit -qm lib; cd - > /dev/null;"
        "git -c protocol.file.allow=always submodule --quiet add ../lib lib; git commit -qm submodule"
    )
    base = await refs.resolve(harness.context.git, "HEAD")
    tree = await changed("cd lib; echo x > .npmrc; git add .npmrc; git commit -qm x; cd ..")
    tree = msgspec.structs.replace(tree, base=base)
    results, verification = await shown(tree)
    assert "lib/.npmrc is protected as `.npmrc`" in results["protected files"].detail
    assert not verification.passed
    assert "protected files" not in (await shown(tree, files=("lib",)))[0]


async def test_a_long_list_of_paths_is_shortened(changed):
    results, _ = await shown(await changed("for n in $(seq 50); do echo x > x$n.sql; done"))
    assert results["protected"].detail.endswith("- and 30 more")


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("calc/basic.py::test_add", "fail"),
        ("calc/basic.py::TestAll::test_add[1-a::b]", "fail"),
        ("calc/basic.py::calc.basic.add", None),
        ("calc/basic.py::mypy", None),
    ],
)
async def test_a_file_with_a_test_in_the_baseline_is_a_test_file(changed, name, verdict):
    """AL-9: whatever its name; a doctest or a linter result makes no module a test file."""
    tree = await changed("echo x >> calc/basic.py")
    gate = Gate(kind="test", command="python -m pytest -q", runner="pytest")
    run = GateRun(gate=gate, commit=tree.base, environment="e", exit_code=0, outcomes={name: "passed"})
    request = ProofRequest(baseline=Baseline(environment=CheckEnvironment(fingerprint="e"), runs=(run,)))
    results = {each.name: each.verdict for each in await check_changed_paths(request, tree, CHANGES)}
    assert results.get("checks") == verdict


async def test_an_empty_init_file_above_a_checking_module_is_protected(harness, changed):
    """AL-9, BX-5: `python -m tools.accept` runs the `__init__.py` first."""
    await harness.sh("mkdir tools; echo 'assert False' > tools/accept.py; git add -A; git commit -qm judge")
    tree = await changed("echo 'raise SystemExit(0)' > tools/__init__.py")
    tree = msgspec.structs.replace(tree, base=await refs.resolve(harness.context.git, "HEAD~1"))
    ours, _ = await shown(tree, contract=Contract(commands=(Check(command="python -m tools.accept"),)))
    others, _ = await shown(tree, contract=Contract(commands=(Check(command="python -m other"),)))
    assert "tools/__init__.py runs before tools/accept.py" in ours["checks"].detail
    assert "checks" not in others


@pytest.mark.parametrize(
    ("recipe", "check", "added"),
    [
        (
            "printf 'PYTHON = python\\n-include local.mk more.mk\\naccept:\\n\\t$(PYTHON) -V\\n' > Makefile",
            "make accept",
            "more.mk",
        ),
        (
            "mkdir tools; echo 'if [ -f tools/set ]; then . tools/set; fi' > tools/run.sh",
            "sh tools/run.sh",
            "tools/set",
        ),
        ("mkdir tools; echo '[ -f set ] && source set' > tools/run.sh", "cd tools && sh run.sh", "tools/set"),
    ],
)
async def test_a_new_file_that_a_check_would_read_is_protected(harness, changed, recipe, check, added):
    """AL-9, BX-5: a makefile includes it, or a script sources it, once it is there."""
    await harness.sh(f"{recipe}; git add -A; git commit -qm checks")
    base = await refs.resolve(harness.context.git, "HEAD")
    tree = await changed(f"mkdir -p tools; echo PYTHON=true > {added}; echo > tools/other.mk")
    contract = Contract(commands=(Check(command=check),))
    results, _ = await shown(msgspec.structs.replace(tree, base=base), contract=contract)
    assert f"{added} is read by what checks the work" in results["checks"].detail
    assert "other.mk" not in results["checks"].detail
