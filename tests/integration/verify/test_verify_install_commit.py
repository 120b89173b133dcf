"""What the packages of unlanded work are installed from, by real commits."""

import json
import shutil

import pytest

from integration.verify.builders import EnvironmentSetup
from scaffold.core.proof.gates import CheckEnvironment, CopiedFolder
from scaffold.git import commits
from scaffold.verify.environment.install_commit import code_in_manifests, code_of_packages, install_commit

PYPROJECT = "[project]\nname = 'calc'\nversion = '1'\n"
SETUP_CFG = "[options]\ninstall_requires =\n  left\n"
PACKAGE = {"name": "calc", "scripts": {"test": "node --test", "prepare": "husky"}}
BASE = {
    "pyproject.toml": PYPROJECT,
    "setup.cfg": SETUP_CFG,
    "package.json": json.dumps(PACKAGE),
    "requirements.txt": "left\n",
    "calc/version.py": "VERSION = '1'\n",
    "calc/old.py": "OLD = 1\n",
    "Makefile": "deps:\n\ttrue\n",
}
NEW = """'Builds.'

import evil

__version__ = '2' + evil.X
VERSION = '3'


class A:
    B = ''
"""


@pytest.fixture
def project(harness, tmp_path):
    return EnvironmentSetup(harness, tmp_path)


async def test_what_is_installed_has_the_works_paths_and_manifests_and_none_of_its_code(project, tmp_path):
    """BX-9: whatever an installer executes, it is not the work, which it would let judge itself."""
    base = await project.commit(BASE)
    await project.harness.sh("git mv calc/old.py calc/new.py; ln -s version.py calc/link.py; chmod +x Makefile")
    work = await project.commit(
        {
            "requirements.txt": "right\n",
            "calc/version.py": "import evil\n",
            "more/pyproject.toml": PYPROJECT,
            "more/build.py": NEW,
            "more/build.sh": NEW,
            "package.json": json.dumps({**PACKAGE, "scripts": {"test": "evil", "prepare": "husky"}, "bin": "a.js"}),
            "more/package.json": json.dumps({"name": "more", "scripts": {"test": "evil"}}),
            "rust-toolchain-evil.py": "import evil\n",
            "Makefile": "deps:\n\tevil\n",
        }
    )
    await project.harness.sh("git add --all; ln -sf calc/version.py constraints.txt; git add .; git commit -qm links")
    work = await project.head()
    git = project.harness.context.git
    found = await install_commit(git, base, work, folder=tmp_path / "index")
    texts = {
        path: (await commits.file_contents(git, found, path) or b"").decode()
        for path in await commits.listed_paths(git, found)
        if path not in await commits.listed_paths(git, base)
        or path in {"requirements.txt", "Makefile", "calc/version.py"}
    }
    assert texts == {
        "Makefile": BASE["Makefile"],
        "calc/link.py": "",
        "calc/new.py": "",
        "calc/version.py": BASE["calc/version.py"],
        "constraints.txt": "",
        "more/build.py": "'Builds.'\nVERSION = '3'\n",
        "more/build.sh": "",
        "more/package.json": '{"name":"more","scripts":{}}',
        "more/pyproject.toml": PYPROJECT,
        "requirements.txt": "right\n",
        "rust-toolchain-evil.py": "",
    }
    manifest = json.loads(await commits.file_contents(git, found, "package.json") or "")
    assert manifest == {**PACKAGE, "bin": "a.js"}
    assert not await commits.listed_links(git, found)
    assert (await commits.read_commit(git, found)).parents == (base,), "so that its tags give the version"


CODE = [
    {"setup.py": "import evil\n"},
    {".npmrc": "script-shell=./evil\n"},
    {"package.json": json.dumps({**PACKAGE, "scripts": {"postinstall": "evil"}})},
    {"package.json": json.dumps({**PACKAGE, "scripts": {"prepare": "evil"}})},
    {"packages/own/package.json": json.dumps({"name": "@own/sh", "bin": "./evil.js"})},
    {"packages/own/package.json": json.dumps({"name": "own", "bin": {"sh": "./evil.js"}})},
    {"pyproject.toml": f"{PYPROJECT}[tool.pdm.scripts]\npost_install = 'evil'\n"},
]
NONE = {
    "pyproject.toml": f"{PYPROJECT}dependencies = ['right']\n[project.scripts]\nown-calc = 'calc:main'\n",
    "setup.cfg": f"{SETUP_CFG}  right\n[options.entry_points]\nconsole_scripts =\n  own-calc = calc:main\n",
    "package.json": json.dumps(
        {**PACKAGE, "bin": {"own-calc": "a.js"}, "scripts": {**PACKAGE["scripts"], "lint": "eslint"}}
    ),
    "requirements.txt": "right\n",
    "calc/version.py": "VERSION = '2'\n",
}


async def test_a_manifest_that_brings_code_is_told_from_others(project):
    """BX-9, BX-5: an installation runs it, or it takes the place of a program."""
    base = await project.commit(BASE)
    found = []
    for files in (*CODE, NONE):
        await project.harness.sh(f"git reset --quiet --hard {base}")
        work = await project.commit(files)
        found.append(await code_in_manifests(project.harness.context.git, base, work, programs="/usr/bin:/bin"))
    assert found == [*map(tuple, CODE), ()]


BROUGHT = {
    "../../../bin/sh": "",
    "../../../bin/own-calc": "",
    "../../../pyvenv.cfg": "",
    "../../../share/man/own-calc.1": "",
    "_calc.pth": "/nowhere/calc\n",
    "__editable__.calc.pth": "import __editable___calc_finder\n",
    "zz.pth": "import os\n",
    "sitecustomize.py": "",
    "usercustomize/__init__.py": "",
    "calc/sitecustomize_of_ours.py": "",
    "left/__init__.py": "",
    "right.py": "",
    "six/__init__.py": "",
    "calc.dist-info/entry_points.txt": "[console_scripts]\nown-calc = calc:main\n[pytest11]\ncalc = calc.plugin\n",
}
"""What the repository's own package installs, by its path in the folder of packages."""


def test_what_an_installed_package_brings_to_other_programs_is_seen(tmp_path):
    """BX-9: by what it installed; a manifest can name any file for any place."""
    packages = tmp_path / ".venv/lib/python3.11/site-packages"
    texts = {
        **BROUGHT,
        "calc.dist-info/direct_url.json": '{"url": "file:///a/checkout", "dir_info": {"editable": true}}',
        "calc.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: setuptools (80.9.0)\n",
        "calc.dist-info/RECORD": "".join(f"{path},sha256=x,1\n" for path in BROUGHT),
        "left.dist-info/RECORD": "left/__init__.py,,\nleft.pth,,\nsix.py,,\n../../../bin/left,,\n",
        "left.pth": "import left\n",
    }
    for path, text in texts.items():
        (packages / path).parent.mkdir(parents=True, exist_ok=True)
        (packages / path).write_text(text)
    copied = CopiedFolder(source=str(tmp_path / ".venv"), target=".venv", made_for="/a/checkout")
    made, none = CheckEnvironment(fingerprint="", copies=(copied,)), CheckEnvironment(fingerprint="")
    site = "lib/python3.11/site-packages"
    expected = (
        *("bin/sh", f"{site}/left/__init__.py", f"{site}/sitecustomize.py", f"{site}/usercustomize/__init__.py"),
        *(f"{site}/six/__init__.py", f"{site}/zz.pth", "pytest11 calc", "pyvenv.cfg"),
    )
    found = code_of_packages(made, none, programs="/usr/bin:/bin")
    assert found == tuple(sorted(expected))
    assert code_of_packages(made, made, programs="/usr/bin:/bin") == (), "the base brought them already"
    assert code_of_packages(none, made, programs="/usr/bin:/bin") == ()


def test_what_takes_the_place_of_another_distribution_is_seen(tmp_path):
    """BX-9: a manifest may name a folder of the repository for what checks use, and any backend may write `.pth`."""
    site = "lib/python3.11/site-packages"
    envs = []
    for name in ("before", "after"):
        packages = tmp_path / name / ".venv" / site
        (packages / "Ini_Config-2.0.dist-info").mkdir(parents=True)
        (packages / "Ini_Config-2.0.dist-info/RECORD").write_text("iniconfig.py,,\n")
        copied = CopiedFolder(source=str(packages.parents[2]), target=".venv", made_for="/a/checkout")
        envs.append(CheckEnvironment(fingerprint="", copies=(copied,)))
    before, after = envs
    shutil.move(packages / "Ini_Config-2.0.dist-info", packages / "ini_config-3.0.dist-info")
    for path, text in {
        "ini_config-3.0.dist-info/direct_url.json": '{"url": "file:///a/checkout/vendor"}',
        "calc-1.0.dist-info/direct_url.json": '{"url": "file:///a/checkout"}',
        "calc-1.0.dist-info/WHEEL": "Generator: hatchling 1.27.0\n",
        "calc-1.0.dist-info/RECORD": "__editable__calc.pth,,\niniconfig/__init__.py,,\ncalc/__init__.py,,\n",
        "__editable__calc.pth": "import os\n",
    }.items():
        (packages / path).parent.mkdir(exist_ok=True)
        (packages / path).write_text(text)
    assert code_of_packages(after, before, programs="/usr/bin:/bin") == (
        *("ini_config-3.0.dist-info", f"{site}/__editable__calc.pth", f"{site}/iniconfig.py"),
        f"{site}/iniconfig/__init__.py",
    )


def test_a_package_of_node_that_takes_the_place_of_another_is_seen(tmp_path):
    """BX-9: by a workspace or an override; what checks load under that name would be the work's."""
    envs = []
    for name, own in (("before", ("left",)), ("after", ("left", "right", "expect", "jest/node_modules/@jest/core"))):
        top = tmp_path / name / "node_modules"
        (top / ".pnpm/glob/node_modules/glob").mkdir(parents=True)
        (top / "glob").symlink_to(".pnpm/glob/node_modules/glob")
        for package in ("expect", "jest/node_modules/@jest/core"):
            (top / package).parent.mkdir(parents=True, exist_ok=True)
            package in own or (top / package).mkdir()
        for package in own:
            (top / package).symlink_to(f"../packages/{package.replace('/', '-')}")
        copied = CopiedFolder(source=str(top), target="node_modules", made_for="/a/checkout")
        envs.append(CheckEnvironment(fingerprint="", copies=(copied,)))
    assert code_of_packages(envs[1], envs[0], programs="") == ("@jest/core", "expect")
    assert code_of_packages(envs[0], envs[1], programs="") == ()


async def test_what_the_work_took_part_in_making_serves_that_commit_alone(project):
    """BX-9: another run with the same lock files would otherwise be judged by it."""
    await project.commit({"package-lock.json": "one", ".gitignore": "node_modules\n"})
    install = "mkdir -p node_modules/left; echo >> '{log}'".format(log=project.cache / "log")
    project.cache.mkdir()
    own = await project.prepared(install, made_by_work="setup.py")
    again = await project.prepared(install, made_by_work="setup.py")
    other = await project.prepared(install)
    await project.commit({"a.py": ""})
    later = await project.prepared(install, made_by_work="setup.py")
    assert (own.made_by_work, other.made_by_work, own) == ("setup.py", "", again)
    assert len({own.fingerprint, other.fingerprint, later.fingerprint}) == 3
    assert len((project.cache / "log").read_text().splitlines()) == 3
