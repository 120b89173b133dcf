"""Environments made by real installers without a network: pip, npm, cargo, and uv and pnpm if installed."""

import os
import site
from pathlib import Path

import pytest

from builders import needs
from integration.verify.builders import EnvironmentSetup, check_output
from scaffold.host.child_environment import child_environment
from scaffold.verify.environment.check_env import check_environ
from scaffold.verify.environment.import_proof import prove_imports

pytestmark = pytest.mark.slow

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "calc"
version = "1"
[project.scripts]
calc = "calc:say"
"""
LEGACY = "from setuptools import setup\nsetup(name='calc', version='1', package_dir={'': 'src'}, packages=['calc'])\n"
PLACES = ("packages/own", "vendored/left")
CALC = "def say():\n    print(__file__)\n"
INSTALL = "python -m pip install --quiet --no-index --no-deps --ignore-installed --no-build-isolation -e ."


@pytest.fixture(params=[False, True], ids=["free", "in a sandbox"])
def project(harness, tmp_path, request):
    return EnvironmentSetup(harness, tmp_path, sandboxed=request.param)


async def proven(project, tree, environment):
    found = await prove_imports(environment, tree)
    assert found == environment
    return check_environ(environment, tree.git.cwd, child_environment(project.environ))


async def test_an_editable_installation_leads_to_the_checkout_it_was_copied_to(project):
    """AL-9: the golden environment of a run tests the worktree."""
    await project.commit({"pyproject.toml": PROJECT, "src/calc/__init__.py": CALC})
    backend = f"PYTHONPATH='{site.getsitepackages()[0]}' {INSTALL}"
    environment = await project.prepared(backend)
    async with project.tree(environment) as tree:
        await proven(project, tree, environment)
        inside = f"{tree.git.cwd}/src/calc/__init__.py"
        assert await check_output(tree, "calc", cwd=tree.git.cwd.parent) == inside
        assert await check_output(tree, "git status --porcelain") == ""
        assert "/cache/runs/a tree/" in await check_output(tree, "pip --version")


async def test_a_setuptools_development_link_does_too(project):
    await project.commit({"setup.py": LEGACY, "src/calc/__init__.py": CALC, ".gitignore": "*.egg-info\n"})
    environment = await project.prepared("python3 -m venv .venv", "python setup.py --quiet develop")
    async with project.tree(environment) as tree:
        await proven(project, tree, environment)
        output = await check_output(tree, "python -c 'import calc; calc.say()'", cwd=tree.git.cwd.parent)
        assert output == f"{tree.git.cwd}/src/calc/__init__.py"
        assert {copied.target for copied in environment.copies} == {".venv", "src/calc.egg-info"}


@needs("node", "npm")
async def test_npm_workspaces_and_local_packages_are_the_checkouts_own(project):
    manifest = '{"name": "top", "workspaces": ["packages/*"], "dependencies": {"left": "file:vendored/left"}}'
    await project.commit(
        {
            "package.json": manifest,
            **{
                f"{place}/package.json": f'{{"name": "{place.rpartition("/")[2]}", "main": "i.js"}}' for place in PLACES
            },
            **{f"{place}/i.js": "module.exports = __filename" for place in PLACES},
        }
    )
    environment = await project.prepared("npm install --no-package-lock")
    async with project.tree(environment) as tree:
        await proven(project, tree, environment)
        for place in PLACES:
            name = place.rpartition("/")[2]
            assert (
                await check_output(tree, f"node -e 'console.log(require(\"{name}\"))'")
                == f"{tree.git.cwd}/{place}/i.js"
            )
        assert await check_output(tree, "git status --porcelain") == ""


@needs("cargo", "rustc")
async def test_cargo_builds_without_a_network_in_a_read_only_home(project):
    await project.commit(
        {
            "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\n[dependencies]\ninner = { path = "inner" }\n',
            "src/lib.rs": "#[test]\nfn adds() { assert_eq!(inner::two(), 2) }\n",
            "inner/Cargo.toml": '[package]\nname = "inner"\nversion = "0.1.0"\n',
            "inner/src/lib.rs": "pub fn two() -> u8 { 2 }\n",
        }
    )
    toolchain = f"RUSTUP_HOME='{os.environ.get('RUSTUP_HOME', Path.home() / '.rustup')}'"
    environment = await project.prepared(f"{toolchain} cargo fetch")
    async with project.tree(environment) as tree:
        assert environment.variables["CARGO_HOME"].startswith(f"{project.cache}/environments/")
        assert "1 passed" in await check_output(tree, f"{toolchain} cargo test 2>&1")


@pytest.mark.timeout(150)
@needs("uv")
async def test_uv_installs_its_lock_file_and_is_not_run_again(project):
    """AL-9: an editable package of the repository is the checkout's own; `uv run` needs no network."""
    backend = '[build-system]\nrequires = ["uv_build"]\nbuild-backend = "uv_build"\n'
    inner = f'{backend}[project]\nname = "inner"\nversion = "1"\n'
    top = '[project]\nname = "calc"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["inner"]\n'
    sources = '[tool.uv]\npackage = false\n[tool.uv.sources]\ninner = { path = "inner", editable = true }\n'
    await project.commit(
        {"pyproject.toml": top + sources, "inner/pyproject.toml": inner, "inner/src/inner/__init__.py": CALC}
    )
    await project.harness.sh("uv lock --quiet; git add uv.lock")
    await project.commit({".gitignore": ".venv\n"})
    environment = await project.prepared("uv sync --locked")
    async with project.tree(environment) as tree:
        await proven(project, tree, environment)
        inside = f"{tree.git.cwd}/inner/src/inner/__init__.py"
        for python in ("python", "uv run python"):
            assert await check_output(tree, f"{python} -c 'import inner; inner.say()'") == inside
        assert await check_output(tree, "git status --porcelain") == ""


@pytest.mark.timeout(150)
@needs("node", "pnpm")
async def test_pnpm_links_workspace_packages_within_the_checkout(project):
    """AL-9: as its lock file says, without a network."""
    manifest = '{"name": "top", "dependencies": {"own": "workspace:*"}, "scripts": {"test": "node try.js"}}'
    own = {
        "packages/own/package.json": '{"name": "own", "main": "i.js"}',
        "packages/own/i.js": "exports.at = __filename",
    }
    files = {"package.json": manifest, "pnpm-workspace.yaml": "packages:\n  - packages/*\n", **own}
    await project.commit({**files, "try.js": "console.log(require('own').at)", ".gitignore": "node_modules\n"})
    await project.harness.sh("pnpm install --lockfile-only --offline; git add pnpm-lock.yaml")
    await project.commit({})
    environment = await project.prepared("pnpm install --frozen-lockfile --offline")
    async with project.tree(environment) as tree:
        await proven(project, tree, environment)
        assert (await check_output(tree, "pnpm run test")).endswith(f"{tree.git.cwd}/packages/own/i.js")
        assert await check_output(tree, "git status --porcelain") == ""
