"""Detect how a Python project is set up, tested, linted and type-checked, from its files."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from scaffold.core.gates import Gate
from scaffold.verify.gates.project import Project
from scaffold.verify.gates.project_files import ProjectFiles, as_table, as_texts, ini_section, is_python_test

TEST_EXTRAS = ("test", "tests", "testing", "dev")
REQUIREMENT_FILES = (
    *("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "requirements_dev.txt"),
    *("dev-requirements.txt", "test-requirements.txt", "requirements/dev.txt", "requirements/test.txt"),
)
PYTEST = "python -m pytest"
MYPY_SCOPES = frozenset({"files", "modules", "packages"})
"""Settings that say what mypy checks if the command does not."""
PIP_INSTALL = ".venv/bin/python -m pip install"

_PYTEST_SECTION = re.compile(r"^\[(tool:)?pytest\]", re.MULTILINE)
_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
_PYTEST_NAME = re.compile(r"^pytest\b(?!-)", re.IGNORECASE)
_FUNCTION = re.compile(r"^(?:async +)?def test|^class Test(?!\w*\(.*TestCase)|^(?:import|from) +pytest\b", re.MULTILINE)
_TEST_CASE = re.compile(
    r"^class +\w+\(.*TestCase\b"
    # Its base may be the project's own, as long as it has tests.
    r"|^class +\w+\((?!object\))[\w., ]+\):(?:\n(?:[ \t].*)?)*?\n[ \t]+(?:async +)?def +test",
    re.MULTILINE,
)


def read_python(files: ProjectFiles) -> Project:
    """Return the gates and the set-up of a Python project."""
    manifest = files.toml("pyproject.toml")
    tools = as_table(manifest.get("tool"))
    gates = tuple(_gates(files, manifest, tools))
    needs = {"python -m pytest -q": PYTEST, "ruff check .": "ruff", "mypy .": "mypy", "pyright": "pyright"}
    needs |= {"flake8": "flake8", "mypy": "mypy"}
    return Project(
        gates=gates,
        setup=tuple(_setup(files, manifest, tools)),
        tools={gate.name: needs[gate.command] for gate in gates if gate.command in needs},
    )


def _gates(files: ProjectFiles, manifest: Mapping[str, Any], tools: Mapping[str, Any]) -> Iterator[Gate]:
    settings = files.text("setup.cfg") + files.text("tox.ini")
    if _has_pytest(files, manifest, tools, settings):
        yield Gate(kind="test", command=f"{PYTEST} -q", runner="pytest")
    elif any(_TEST_CASE.search(files.text(path)) for path in sorted(files.paths) if is_python_test(path)):
        yield Gate(kind="test", command=f"python -m unittest{_discovery(files)}", runner="unittest")
    if "ruff" in tools or files.has("ruff.toml", ".ruff.toml"):
        yield Gate(kind="lint", command="ruff check .", runner="findings")
    elif files.has(".flake8") or "[flake8]" in settings:
        yield Gate(kind="lint", command="flake8", runner="findings")
    mypy = _mypy_settings(files, tools)
    if mypy is not None:
        command = "mypy" if MYPY_SCOPES.intersection(mypy) else "mypy ."
        yield Gate(kind="typecheck", command=command, runner="findings")
    elif "pyright" in tools or files.has("pyrightconfig.json"):
        yield Gate(kind="typecheck", command="pyright", runner="findings")


def _mypy_settings(files: ProjectFiles, tools: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the settings of the file that mypy reads, the first with any; None if mypy is not configured."""
    for name in ("mypy.ini", ".mypy.ini"):
        if files.has(name):
            return ini_section(files.text(name), "mypy") or {}
    if "mypy" in tools:
        return as_table(tools["mypy"])
    return ini_section(files.text("setup.cfg"), "mypy")


def _has_pytest(files: ProjectFiles, manifest: Mapping[str, Any], tools: Mapping[str, Any], settings: str) -> bool:
    """Return True if the project has tests for pytest; mentioning pytest without having tests is not enough."""
    tests = [path for path in sorted(files.paths) if _FILE.search(path) and is_python_test(path)]
    sections = files.text("pytest.ini") + files.text("pyproject.toml") + settings
    if not tests:
        return "python_files" in sections
    configured = "pytest" in tools or files.has("pytest.ini", ".pytest.ini") or bool(_PYTEST_SECTION.search(settings))
    used = any(path.rpartition("/")[2] == "conftest.py" for path in files.paths)
    named = any(_PYTEST_NAME.match(each) for each in _requirement_names(manifest))
    return configured or used or named or any(_FUNCTION.search(files.text(path)) for path in tests)


def _requirement_names(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the requirements of a project from all sections of its manifest."""
    project = as_table(manifest.get("project"))
    yield from as_texts(project.get("dependencies"))
    for group in (*as_table(project.get("optional-dependencies")).values(), *_groups(manifest).values()):
        yield from as_texts(group)
    poetry = as_table(as_table(manifest.get("tool")).get("poetry"))
    yield from as_table(poetry.get("dev-dependencies"))
    for group in (poetry, *map(as_table, as_table(poetry.get("group")).values())):
        yield from as_table(group.get("dependencies"))


def _groups(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_table(manifest.get("dependency-groups"))


def _discovery(files: ProjectFiles) -> str:
    """Return the options with which unittest finds the tests: without any it only searches packages."""
    folder = next((name for name in ("tests", "test") if files.at(name).paths), None)
    needs_discovery = folder and not files.has(f"{folder}/__init__.py")
    return f" discover -s {folder}" if needs_discovery else ""


def _setup(files: ProjectFiles, manifest: Mapping[str, Any], tools: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands that create `.venv`; none if nothing must be installed."""
    if files.has("uv.lock"):
        yield "uv sync --locked"
    elif "poetry" in tools and "project" not in tools:
        yield "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction"
    else:
        commands = tuple(_installs(files, manifest))
        if commands:
            yield "python -m venv .venv"
            yield from commands


def _installs(files: ProjectFiles, manifest: Mapping[str, Any]) -> Iterator[str]:
    for name in REQUIREMENT_FILES:
        if files.has(name):
            yield f"{PIP_INSTALL} -r {name}"
    project = as_table(manifest.get("project"))
    extras = [name for name in TEST_EXTRAS if name in as_table(project.get("optional-dependencies"))]
    if extras or project.get("dependencies") or "build-system" in manifest or files.has("setup.py"):
        chosen = f".[{','.join(extras)}]" if extras else "."
        yield f"{PIP_INSTALL} -e {shlex.quote(chosen)}"
    needed = [each for name in TEST_EXTRAS for each in as_texts(_groups(manifest).get(name))]
    if needed:
        yield f"{PIP_INSTALL} {shlex.join(needed)}"
