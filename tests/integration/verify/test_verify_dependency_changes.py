"""Which changes of a manifest need another environment, from real commits."""

import pytest

from integration.verify.builders import EnvironmentSetup
from scaffold.verify.environment.dependency_changes import dependency_change, names_of

PYPROJECT = "[project]\nname = 'calc'\nversion = '1'\ndependencies = ['left>=1']\n[tool.ruff]\nline-length = 90\n"


@pytest.mark.parametrize(
    ("before", "after", "folders", "added"),
    [
        ({"pyproject.toml": PYPROJECT}, {"pyproject.toml": PYPROJECT.replace("90", "99")}, None, ()),
        (
            {"pyproject.toml": PYPROJECT},
            {"pyproject.toml": PYPROJECT.replace("version = '1'", "version = '2'")},
            None,
            (),
        ),
        (
            {"pyproject.toml": PYPROJECT},
            {"pyproject.toml": PYPROJECT.replace("]\n[", ", 'right']\n[")},
            ".venv",
            ("right",),
        ),
        ({"pyproject.toml": PYPROJECT}, {"pyproject.toml": PYPROJECT.replace(">=1", ">=2")}, ".venv", ("left",)),
        ({"pyproject.toml": PYPROJECT}, {"pyproject.toml": PYPROJECT.replace("'left>=1'", "")}, ".venv", ()),
        (
            {"pyproject.toml": PYPROJECT},
            {"pyproject.toml": f"{PYPROJECT}[project.scripts]\ncalc = 'calc:main'\n"},
            ".venv",
            ("calc",),
        ),
        ({"requirements.txt": "left\n"}, {"requirements.txt": "# the old one\nleft\n"}, None, ()),
        ({"requirements.txt": "left\n"}, {"requirements.txt": "left\nright==2\n"}, ".venv", ("right",)),
        (
            {"setup.cfg": "[metadata]\nname = a\n"},
            {"setup.cfg": "[options]\ninstall_requires =\n  right\n"},
            ".venv",
            ("right",),
        ),
        ({"uv.lock": "a"}, {"uv.lock": "b"}, ".venv", ("uv.lock",)),
        ({"package.json": '{"scripts": {}}'}, {"package.json": '{"scripts": {"a": "b"}}'}, None, ()),
        ({"package.json": "{}"}, {"package.json": '{"devDependencies": {"right": "1"}}'}, "node_modules", ("right",)),
        ({"package-lock.json": "{}"}, {"package-lock.json": "[]"}, "node_modules", ("package-lock.json",)),
        ({"go.mod": "module a\n"}, {"go.mod": "module a\nrequire b v1.0.0\n"}, "other", ("go.mod",)),
        ({"a.py": ""}, {"a.py": "A = 1\n"}, None, ()),
    ],
)
async def test_a_change_of_what_is_installed_is_told_from_other_changes_of_a_manifest(
    harness, tmp_path, before, after, folders, added
):
    """AL-10: set-up runs again for the first, never for the second."""
    project = EnvironmentSetup(harness, tmp_path)
    old, new = await project.commit(before), await project.commit(after)
    found = await dependency_change(harness.context.git, [*before, *after], old, new)
    assert (found and found.folders) == (folders and {folders})
    assert names_of(found.added if found else ()) == added
