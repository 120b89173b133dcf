"""Which changes of a manifest need another environment, from real commits."""

import pytest

from integration.verify.builders import EnvironmentSetup, write_files
from scaffold.verify.environment.later_commit import dependency_change, names_of

PYPROJECT = "[project]\nname = 'calc'\nversion = '1'\ndependencies = ['left>=1']\n[tool.ruff]\nline-length = 90\n"
BASE = {
    "pyproject.toml": PYPROJECT,
    "requirements.txt": "left\n",
    "setup.cfg": "[metadata]\nname = a\n",
    "uv.lock": "a",
    "package.json": '{"scripts": {}}',
    "package-lock.json": "{}",
    "go.mod": "module a\n",
    "a.py": "",
}


CHANGES = [
    (
        {
            "pyproject.toml": PYPROJECT.replace("90", "99").replace("version = '1'", "version = '2'"),
            "requirements.txt": "# the old one\nleft\n",
            "package.json": '{"scripts": {"a": "b"}}',
            "a.py": "A = 1\n",
        },
        None,
    ),
    ({"pyproject.toml": PYPROJECT.replace("]\n[", ", 'right']\n[")}, ({".venv"}, ("right",))),
    ({"pyproject.toml": PYPROJECT.replace(">=1", ">=2")}, ({".venv"}, ("left",))),
    ({"pyproject.toml": PYPROJECT.replace("'left>=1'", "")}, ({".venv"}, ())),
    ({"pyproject.toml": f"{PYPROJECT}[project.scripts]\ncalc = 'calc:main'\n"}, ({".venv"}, ("calc",))),
    (
        {
            "requirements.txt": "left\nright==2\n",
            "setup.cfg": "[options]\ninstall_requires =\n  more\n",
            "uv.lock": "b",
        },
        ({".venv"}, ("more", "right", "uv.lock")),
    ),
    (
        {"package.json": '{"devDependencies": {"right": "1"}}', "package-lock.json": "[]"},
        ({"node_modules"}, ("package-lock.json", "right")),
    ),
    ({"go.mod": "module a\nrequire b v1.0.0\n"}, ({"other"}, ("go.mod",))),
]
"""Changes of files: the folders that no longer fit, and what was added."""
"""Changes of a file: the folder that no longer fits, and what was added."""
"""A file before and after a change, the folder that no longer fits, and what was added."""


@pytest.mark.slow
async def test_a_change_of_what_is_installed_is_told_from_other_changes_of_a_manifest(harness, tmp_path):
    """AL-10: set-up runs again for the first, never for the second."""
    project = EnvironmentSetup(harness, tmp_path)
    base = await project.commit(BASE)
    found = []
    for files, _ in CHANGES:
        write_files(project.repo, files)
        await harness.sh("git commit -qam change")
        change = await dependency_change(harness.context.git, files, base, await project.head())
        found.append((files, change and (change.folders, names_of(change.added))))
        await harness.sh(f"git reset -q --hard {base}")
    assert found == CHANGES
