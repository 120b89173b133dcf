"""The module names that installed distributions take, listed by real interpreters."""

import pytest

from integration.verify.builders import EnvironmentSetup, add_venv, write_files
from scaffold.verify.environment.import_proof import with_installed_names

INSTALLED = {
    "yaml/__init__.py": "",
    "yaml/nodes.py": "",
    "only_here.py": "",
    "fast.cpython-399-x86_64-linux-gnu.so": "",
    "google/cloud/storage/__init__.py": "",
    "google/auth.py": "",
    "tests/__init__.py": "",
    "data/readme.txt": "",
    "yaml-6.0.dist-info/METADATA": "",
    "__editable___x.py": "",
    "not-a-name/x.py": "",
}


@pytest.fixture
async def project(harness, tmp_path):
    """A repository whose user has a virtual environment with distributions in it."""
    made = EnvironmentSetup(harness, tmp_path)
    await made.commit({"calc.py": "", "setup.py": "", ".gitignore": ".venv\n"})
    write_files(add_venv(made.repo), INSTALLED)
    return made


async def test_every_importable_name_of_the_projects_environment_is_known(project):
    """BX-5: by what an import would find, whatever the metadata says; a namespace package with its parts."""
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        found = await with_installed_names(environment, tree)
    assert set(found.installed) >= {
        "yaml",
        "only_here",
        "google",
        "google.cloud",
        "google.cloud.storage",
        "google.auth",
    }
    assert {"tests", "data", "yaml.nodes", "calc", "json", "__editable___x"}.isdisjoint(found.installed)
    assert found.fingerprint == environment.fingerprint


async def test_an_interpreter_that_prints_nothing_has_no_names(project):
    python = project.repo / ".venv" / "bin" / "python3"
    python.unlink()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    (project.repo / ".venv" / "bin" / "python").unlink()
    environment = await project.prepared()
    async with project.tree(environment) as tree:
        found = await with_installed_names(environment, tree)
    assert "only_here" not in found.installed
