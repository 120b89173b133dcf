"""Which files a candidate may touch, on real commits."""

import itertools
import re

import pytest
from inline_snapshot import snapshot

from scaffold.core.proof.contract import Check, Contract
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.git.commits import PathChange
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.verify.contract.check_runs import Tree
from scaffold.verify.guard import check_changed_paths, declared_protected_paths
from scaffold.verify.proof import prove_candidate
from scaffold.verify.proof_request import ProofRequest

PROJECT = """mkdir -p tests calc
echo 'def test_add(): pass' > tests/test_add.py
echo 'def add(): pass' > calc/basic.py; touch calc/__init__.py
printf '[project]\\nname = "calc"\\n\\n[tool.pytest.ini_options]\\ntestpaths = ["tests"]\\n' > pyproject.toml
git add -A; git commit -qm base"""

CHANGES = (PathChange("calc/basic.py", "M"),)


@pytest.fixture
async def changed(harness, tmp_path):
    """Return a function that commits shell commands' changes to a small project, checked out.

    The first commands, if there are any, make files of the base.
    """
    await harness.sh(PROJECT)
    project = await refs.resolve(harness.context.git, "HEAD")
    numbers = itertools.count()

    async def change(*commands, base=()):
        await harness.sh(f"git reset -q --hard {project}; git clean -qffdx")
        await harness.sh("\n".join([*base, "git add -A; git commit -q --allow-empty -m base"]))
        before = await refs.resolve(harness.context.git, "HEAD")
        await harness.sh("\n".join([*commands, "git add -A --force; git commit -qm work"]))
        head = await refs.resolve(harness.context.git, "HEAD")
        git = await worktree.add(harness.context.repository, tmp_path / f"tree-{next(numbers)}", head)
        return Tree(git=git, base=before, commit=head, environ=dict(harness.context.environ))

    return change


async def shown(tree, *checks, **standard):
    """Return the results of the verification by name."""
    if checks:
        standard["contract"] = Contract(commands=tuple(Check(command=each) for each in checks))
    verification = await prove_candidate(ProofRequest(**{"contract": None, **standard}), tree)
    return {result.name: result for result in verification.results}, verification


REFUSED = [
    [
        "echo x >> tests/test_add.py",
        "echo x > conftest.py",
        "echo 'addopts = \"-x\"' >> pyproject.toml",
        "echo x > sitecustomize.py",
        "echo ./tools/x.whl > requirements.txt",
        "echo 'import calc' > tests/__init__.py",
        "echo x > calc.py; echo x > pytest.py; echo x > calc/Basic.py",
        "echo x > login.sql; echo x > calc/.npmrc",
        "mkdir -p .ssh .cursor; echo x > .ssh/config; echo x > .cursor/a",
        "mkdir .vscode; echo {} > .vscode/tasks.json",
        "git init -q calc/own; git -C calc/own commit --allow-empty -qm x",
        "mkdir -p calc/b/refs calc/b/objects; (cd calc/b; touch refs/a objects/a config; echo x > Head)",
        "ln -s /etc/hosts calc/hosts; ln -s ../../.. calc/up",
        "ln -s ../tests/test_add.py calc/t.py; ln -s ../calc/basic.py tests/test_b.py",
        "echo 1 >> calc/basic.py; echo basic.py > calc/.gitignore",
        "echo 1 > calc/a.py; echo 'prune calc' > MANIFEST.in",
        "echo '# coding: unicode_escape' > calc/c.py",
    ],
    ["git rm -q tests/test_add.py", "touch pytest.ini", "echo 1 >> calc/basic.py; echo basic.py > calc/.ignore"],
    ["git mv tests/test_add.py tests/add.txt", "git rm -q pyproject.toml"],
    ["rm -r tests; ln -s calc tests"],
]
"""Changes, of which those of a list stand in one commit."""


async def test_a_change_of_check_inputs_blocks_before_the_contract_runs(changed):
    """AL-9, BX-5: safety comes first, and if it blocks nothing else runs."""
    said = []
    for commands in REFUSED:
        results, verification = await shown(await changed(*commands), "true")
        assert "true" not in results
        assert not verification.passed
        lines = {
            name: [re.sub("[0-9a-f]{12}", "COMMIT", line[2:]) for line in each.detail.splitlines() if line[:2] == "- "]
            for name, each in results.items()
            if each.verdict == "fail"
        }
        said.append(lines)
    assert said == snapshot(
        [
            {
                "protected files": [
                    ".cursor/a is protected as `.cursor`",
                    ".ssh/config is protected as `.ssh`",
                    ".vscode/tasks.json is protected as `.vscode/tasks.json`",
                    "calc/.npmrc is protected as `.npmrc`",
                ],
                "protected": ["login.sql is in the protected area `.sql`"],
                "repositories": [
                    "calc/b/Head is in a git repository",
                    "calc/b/config is in a git repository",
                    "calc/b/objects/a is in a git repository",
                    "calc/b/refs/a is in a git repository",
                ],
                "submodules": ["calc/own points to COMMIT, which is not a commit of that submodule here"],
                "checks": [
                    "calc/.npmrc configures how the work is checked",
                    "conftest.py controls how tests run",
                    "pyproject.toml changes what determines check results: [tool.pytest] addopts",
                    "requirements.txt changes what determines check results: dependencies from the repository itself",
                    "sitecustomize.py runs whenever a Python interpreter starts",
                    "tests/__init__.py runs before the tests in its folder",
                    "tests/test_add.py is an existing test or test data",
                ],
                "shadowing": [
                    "calc.py has the same name as the folder calc/",
                    "pytest.py is imported instead of a test tool's module `pytest`",
                    "calc/Basic.py replaces calc/basic.py on case-insensitive file systems",
                ],
                "links": [
                    "calc/hosts points outside the repository",
                    "calc/t.py points to tests/test_add.py, which determines check results",
                    "calc/up points outside the repository",
                    "tests/test_b.py makes calc/basic.py a test, although that file may be changed freely",
                ],
                "attributes": [
                    "MANIFEST.in leaves out changed code by `prune calc`",
                    "calc/.gitignore names calc/basic.py, which is changed code",
                ],
                "encodings": ["calc/c.py is in `unicode_escape`"],
            },
            {
                "checks": [
                    "pytest.ini changes what determines check results: [pytest]",
                    "tests/test_add.py is an existing test or test data",
                ],
                "attributes": ["calc/.ignore names calc/basic.py, which is changed code"],
            },
            {
                "checks": [
                    "pyproject.toml changes what determines check results: [tool.pytest], [tool.pytest] testpaths",
                    "tests/test_add.py is an existing test or test data",
                ]
            },
            {"checks": ["tests/test_add.py is an existing test or test data"]},
        ]
    )


MAKEFILE = """\
direct:
	@./tools/direct.sh
by_shell:
	sh -e tools/by_shell.sh
nested:
	sh tools/outer
"""


async def test_a_script_that_a_makefile_runs_is_protected_like_the_makefile(changed):
    """AL-9, BX-5: scripts called by `make` or `npm run` cannot be changed to always succeed."""
    names = ("direct", "by_shell", "nested", "in_folder", "by_npm", "unused")
    base = (
        f"mkdir tools; cd tools; for n in {' '.join(names)}; do echo false > $n.sh; done; cd ..",
        f"printf '%s' '{MAKEFILE}' > Makefile; echo 'bash tools/nested.sh' > tools/outer",
        "echo 'cd tools; . ./in_folder.sh' > proof",
        'printf \'{"scripts": {"proof": "bash tools/by_npm.sh"}}\' > package.json',
    )
    tree = await changed("for each in tools/*.sh; do echo true > $each; done", base=base)
    checks = ("make direct", "make by_shell", "make nested", "sh proof", "npm run proof")
    results, verification = await shown(tree, *checks)
    said = results["checks"].detail
    assert [name for name in names if f"- tools/{name}.sh " in said] == [*names[:-1]]
    assert not verification.passed


async def test_a_file_that_a_command_or_setting_loads_is_protected(changed):
    """AL-9, BX-5: whatever its name, also if a file that is loaded names it; not if only other targets do."""
    names = ("by_script", "by_target", "by_settings", "by_check", "by_other_target", "unused")
    base = (
        f"mkdir etc; for n in {' '.join(names)}; do echo 1 > etc/$n.js; done",
        'printf \'{"scripts": {"proof": "node -r ./etc/by_script.js --test"}}\' > package.json',
        "printf 'proof:\\n\\ttrue --config etc/by_target.js\\n' > Makefile",
        "printf 'other:\\n\\ttrue --config etc/by_other_target.js\\n' >> Makefile",
        'printf \'{"extends": "./etc/a"}\' > .eslintrc.json; printf \'{"extends": "./by_settings"}\' > etc/a.json',
    )
    tree = await changed("for each in etc/*.js; do echo 2 > $each; done", base=base)
    results, _ = await shown(tree, "npm run proof", "make proof", "true --config=etc/by_check.js")
    said = results["checks"].detail
    assert [name for name in names if f"- etc/{name}.js " in said] == [*names[:4]]


async def test_paths_that_must_not_change_are_checked_first(changed):
    """AL-9: no command of the contract runs on a forbidden change; a file that git obeys is always one."""
    results, _ = await shown(await changed("mkdir .husky; echo x > .husky/pre-commit"), "true")
    assert ("true" in results, ".husky/pre-commit" in results["sealed"].detail) == (False, True)
    contract = Contract(commands=(Check(command="true"),), must_not_change=("calc/**", "tests/**"))
    results, _ = await shown(await changed("echo x >> calc/basic.py"), contract=contract)
    assert [(name, result.verdict) for name, result in results.items()] == [("must_not_change: calc/**", "fail")]


HONEST = [
    (
        (),
        "echo x >> calc/basic.py",
        "echo 'def test_x(): pass' > tests/test_more.py; mkdir tests/data; echo 1 > tests/data/x",
        "sed -i 's/name = .*/&\\ndependencies = [\"click\"]/' pyproject.toml",
        "ln -s basic.py calc/again.py",
        "touch tests/__init__.py",
        "mkdir tests/new; echo 'import calc' > tests/new/__init__.py",
        "echo x > 'calc/data für alle.txt'",
        "echo click > requirements.txt; echo 'x = 1' > setup.cfg.txt",
        "printf '__pycache__/\\n*.log\\nbuild/\\n' > .gitignore",
        "echo 'global-exclude *.py[cod]' > MANIFEST.in; echo 'prune tests' >> MANIFEST.in; echo > calc/a.py",
        "printf '# coding: gbk\\n# \\xc4\\xe3\\n' > calc/c.py; echo '# coding: latin-1' > calc/b.py",
    ),
    ((), 'echo \'"""Tests."""  # all of them\' > tests/__init__.py', "git mv calc/basic.py calc/sums.py"),
    (
        ("calc/", "calc/.gitignore", "tests/", "login.py", "sitecustomize.py", "json.py"),
        "echo 1 >> calc/basic.py; echo basic.py > calc/.gitignore",
        "echo x >> tests/test_add.py; echo x > tests/conftest.py",
        "echo x > login.py; echo x > sitecustomize.py; echo x > json.py",
    ),
    (("calc/",), "echo 'def test_x(): pass' > tests/test_login.py"),
]
"""What the action declares, and changes that stand in one commit."""


async def test_honest_work_passes_without_a_warning(changed):
    """AL-9: new tests, new dependencies, and declared files."""
    for files, *commands in HONEST:
        results, verification = await shown(await changed(*commands), files=files)
        assert {name: result.detail for name, result in results.items() if name != "change"} == {}
        assert verification.passed


async def test_undeclared_paths_raise_a_warning_that_names_them(changed):
    tree = await changed("echo x > other.py; echo x > 'tests/test_new.py'; echo x >> calc/basic.py")
    results, verification = await shown(tree, files=("calc/",))
    assert (results["files"].verdict, verification.passed) == ("warn", True)
    assert results["files"].detail.endswith("\n- other.py")


async def test_declaring_everything_declares_no_test_and_a_folder_nothing_that_runs_automatically(changed):
    tree = await changed("echo x >> tests/test_add.py; echo x > calc/evil.pth")
    for files in (("**",), (".",), ("**/*.py",), ("calc/",)):
        said = (await shown(tree, files=files))[0]["checks"].detail
        assert ("tests/test_add.py" in said, "calc/evil.pth" in said) == (True, True), files


async def test_a_module_beside_a_package_of_its_name_is_refused_even_if_declared(changed):
    """BX-5: one of the two could never be imported."""
    results, _ = await shown(await changed("echo x > calc.py"), files=("calc.py",))
    assert "calc.py" in results["shadowing"].detail


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


async def test_an_expected_change_of_a_protected_file_is_not_refused(changed):
    """RA-14: a declared one waits for a human instead; a template and a certificate of a new test are free."""
    tree = await changed("echo x > .envrc; echo x > .env.example; mkdir -p tests/keys; echo x > tests/keys/server.pem")
    assert "protected files" not in (await shown(tree, files=(".envrc",)))[0]


async def test_a_protected_file_inside_a_submodule_is_refused_unless_declared(changed):
    """RA-14: what lands is only a pointer, so the change behind it counts."""
    submodule = (
        "git init -q ../lib; cd ../lib; echo l > l; git add .; git commit -qm lib; cd - > /dev/null;"
        "git -c protocol.file.allow=always submodule --quiet add ../lib lib"
    )
    tree = await changed("cd lib; echo x > .npmrc; git add .npmrc; git commit -qm x; cd ..", base=(submodule,))
    results, verification = await shown(tree)
    assert "lib/.npmrc" in results["protected files"].detail
    assert not verification.passed
    assert "protected files" not in (await shown(tree, files=("lib",)))[0]


async def test_a_long_list_of_paths_is_shortened(changed):
    results, _ = await shown(await changed("for n in $(seq 50); do echo x > x$n.sql; done"))
    assert results["protected"].detail.endswith("- and 30 more")


async def test_a_file_with_a_test_in_the_baseline_is_a_test_file(changed):
    """AL-9: whatever its name; a doctest or a linter result makes no module a test file."""
    verdicts = {"test_add": "fail", "TestAll::test_add[1-a::b]": "fail", "calc.basic.add": None, "mypy": None}
    tree = await changed("echo x >> calc/basic.py")
    gate = Gate(kind="test", command="python -m pytest -q", runner="pytest")
    found = {}
    for name in verdicts:
        run = GateRun(
            gate=gate, commit="c", environment="e", exit_code=0, outcomes={f"calc/basic.py::{name}": "passed"}
        )
        request = ProofRequest(baseline=Baseline(environment=CheckEnvironment(fingerprint="e"), runs=(run,)))
        results = {each.name: each.verdict for each in await check_changed_paths(request, tree, CHANGES)}
        found[name] = results.get("checks")
    assert found == verdicts


async def test_an_empty_init_file_above_a_checking_module_is_protected(changed):
    """AL-9, BX-5: `python -m tools.accept` runs the `__init__.py` first."""
    base = ("mkdir tools; echo 'assert False' > tools/accept.py",)
    tree = await changed("echo 'raise SystemExit(0)' > tools/__init__.py", base=base)
    ours, _ = await shown(tree, "python -m tools.accept")
    others, _ = await shown(tree, "python -m other")
    assert "- tools/__init__.py " in ours["checks"].detail
    assert "checks" not in others
