"""Python: how a project is set up, tested, linted and type-checked, told from its files."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from scaffold.core.gates import Gate
from scaffold.verify.gates.listing import Listing, is_python_test, table, texts
from scaffold.verify.gates.project import Project

EXTRAS = ("test", "tests", "testing", "dev")
REQUIREMENTS = (
    *("requirements.txt", "requirements-dev.txt", "requirements-test.txt", "requirements_dev.txt"),
    *("dev-requirements.txt", "test-requirements.txt", "requirements/dev.txt", "requirements/test.txt"),
)
PYTEST = "python -m pytest"
PIP = ".venv/bin/python -m pip install"

_PYTEST_SECTION = re.compile(r"^\[(tool:)?pytest\]", re.MULTILINE)
_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
_PYTEST_NAME = re.compile(r"^pytest\b(?!-)", re.IGNORECASE)
_FUNCTION = re.compile(r"^(?:async +)?def test|^class Test(?!\w*\(.*TestCase)|^(?:import|from) +pytest\b", re.MULTILINE)
_TEST_CASE = re.compile(r"^class +\w+\(.*TestCase\b", re.MULTILINE)


def read_python(files: Listing) -> Project:
    """Return what a folder with Python in it offers."""
    manifest = files.toml("pyproject.toml")
    tools = table(manifest.get("tool"))
    gates = tuple(_gates(files, manifest, tools))
    needs = {"python -m pytest -q": PYTEST, "ruff check .": "ruff", "mypy .": "mypy", "pyright": "pyright"}
    needs |= {"flake8": "flake8", "mypy": "mypy"}
    return Project(
        gates=gates,
        setup=tuple(_setup(files, manifest, tools)),
        tools={gate.name: needs[gate.command] for gate in gates if gate.command in needs},
    )


def _gates(files: Listing, manifest: Mapping[str, Any], tools: Mapping[str, Any]) -> Iterator[Gate]:
    settings = files.text("setup.cfg") + files.text("tox.ini")
    if _has_pytest(files, manifest, tools, settings):
        yield Gate(kind="test", command=f"{PYTEST} -q", runner="pytest")
    elif any(_TEST_CASE.search(files.text(path)) for path in sorted(files.paths) if is_python_test(path)):
        yield Gate(kind="test", command=f"python -m unittest{_discovery(files)}", runner="unittest")
    if "ruff" in tools or files.has("ruff.toml", ".ruff.toml"):
        yield Gate(kind="lint", command="ruff check .", runner="findings")
    elif files.has(".flake8") or "[flake8]" in settings:
        yield Gate(kind="lint", command="flake8", runner="findings")
    mypy = table(tools.get("mypy"))
    if "mypy" in tools or files.has("mypy.ini", ".mypy.ini") or "[mypy]" in settings:
        command = "mypy" if "files" in mypy or "packages" in mypy else "mypy ."
        yield Gate(kind="typecheck", command=command, runner="findings")
    elif "pyright" in tools or files.has("pyrightconfig.json"):
        yield Gate(kind="typecheck", command="pyright", runner="findings")


def _has_pytest(files: Listing, manifest: Mapping[str, Any], tools: Mapping[str, Any], settings: str) -> bool:
    """Tell whether tests are written for pytest; its name alone, in a project without any test, is no gate."""
    tests = [path for path in sorted(files.paths) if _FILE.search(path) and is_python_test(path)]
    sections = files.text("pytest.ini") + files.text("pyproject.toml") + settings
    if not tests:
        return "python_files" in sections
    configured = "pytest" in tools or files.has("pytest.ini", ".pytest.ini") or bool(_PYTEST_SECTION.search(settings))
    used = any(path.rpartition("/")[2] == "conftest.py" for path in files.paths)
    named = any(_PYTEST_NAME.match(each) for each in _wanted(manifest))
    return configured or used or named or any(_FUNCTION.search(files.text(path)) for path in tests)


def _wanted(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of what the project says that it needs, wherever it says so."""
    project = table(manifest.get("project"))
    yield from texts(project.get("dependencies"))
    for group in (*table(project.get("optional-dependencies")).values(), *_groups(manifest).values()):
        yield from texts(group)
    poetry = table(table(manifest.get("tool")).get("poetry"))
    yield from table(poetry.get("dev-dependencies"))
    for group in (poetry, *map(table, table(poetry.get("group")).values())):
        yield from table(group.get("dependencies"))


def _groups(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    return table(manifest.get("dependency-groups"))


def _discovery(files: Listing) -> str:
    """Return what unittest needs to find tests: from the top it looks into packages alone."""
    folder = next((name for name in ("tests", "test") if files.at(name).paths), None)
    apart = folder and not files.has(f"{folder}/__init__.py")
    return f" discover -s {folder}" if apart else ""


def _setup(files: Listing, manifest: Mapping[str, Any], tools: Mapping[str, Any]) -> Iterator[str]:
    """Yield the commands that make `.venv`, and nothing where there is nothing to be installed."""
    if files.has("uv.lock"):
        yield "uv sync --locked"
    elif "poetry" in tools and "project" not in tools:
        yield "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction"
    else:
        commands = tuple(_installs(files, manifest))
        if commands:
            yield "python -m venv .venv"
            yield from commands


def _installs(files: Listing, manifest: Mapping[str, Any]) -> Iterator[str]:
    for name in REQUIREMENTS:
        if files.has(name):
            yield f"{PIP} -r {name}"
    project = table(manifest.get("project"))
    extras = [name for name in EXTRAS if name in table(project.get("optional-dependencies"))]
    if extras or project.get("dependencies") or "build-system" in manifest or files.has("setup.py"):
        chosen = f".[{','.join(extras)}]" if extras else "."
        yield f"{PIP} -e {shlex.quote(chosen)}"
    needed = [each for name in EXTRAS for each in texts(_groups(manifest).get(name))]
    if needed:
        yield f"{PIP} {shlex.join(needed)}"
