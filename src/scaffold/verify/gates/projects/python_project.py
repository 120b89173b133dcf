"""Detect how a Python project is tested, linted and type-checked, from its files."""

import re
from collections.abc import Mapping
from typing import Any

from scaffold.core.proof.gates import Gate
from scaffold.verify.gates.projects.project import Project, Reason
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table, is_python_test
from scaffold.verify.gates.projects.python_requirements import requirement_names, setup_commands

PYTEST = "python3 -m pytest"
TOOL_BY_COMMAND: Mapping[str, str] = {
    f"{PYTEST} -q": PYTEST,
    "ruff check .": "ruff",
    "mypy .": "mypy",
    "mypy": "mypy",
    "pyright": "pyright",
    "flake8": "flake8",
}

_PYTEST_SECTION = re.compile(r"^\[(tool:)?pytest\]", re.MULTILINE)
_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
FUNCTION = re.compile(r"^(?:async +)?def test|^class Test(?!\w*\(.*TestCase)|^(?:import|from) +pytest\b", re.MULTILINE)
_TEST_CASE = re.compile(
    r"^class +\w+\(.*TestCase\b"
    # Its base class may be the project's own, as long as it has tests.
    r"|^class +\w+\((?!object\))[\w., ]+\):(?:\n(?:[ \t].*)?)*?\n[ \t]+(?:async +)?def +test",
    re.MULTILINE,
)
_PYTEST_NAME = re.compile(r"^pytest\b(?!-)", re.IGNORECASE)


def read_python(files: ProjectFiles) -> Project:
    """Return the gates and the set-up of a Python project."""
    manifest = files.toml("pyproject.toml")
    readers = (_test_gate, _lint_gate, _typecheck_gate)
    found = [each for read in readers if (each := read(files, manifest)) is not None]
    gates = tuple(gate for gate, _ in found)
    setup = setup_commands(files, manifest, gates)
    return Project(
        gates=gates,
        setup=tuple(setup),
        tools={gate.name: TOOL_BY_COMMAND[gate.command] for gate in gates if gate.command in TOOL_BY_COMMAND},
        reasons={**setup, **{gate.name: reason for gate, reason in found}},
    )


def _test_gate(files: ProjectFiles, manifest: Mapping[str, Any]) -> tuple[Gate, Reason] | None:
    if reason := _pytest_reason(files, manifest):
        return Gate(kind="test", command=f"{PYTEST} -q", runner="pytest"), reason
    for path in (path for path in sorted(files.paths) if is_python_test(path)):
        if found := _TEST_CASE.search(text := files.text(path)):
            # Without any option unittest only searches packages.
            folder = next((name for name in ("tests", "test") if files.at(name).paths), None)
            discovery = f" discover -s {folder}" if folder and not files.has(f"{folder}/__init__.py") else ""
            reason = Reason(path, "has unittest tests", _line_at(text, found.start()))
            return Gate(kind="test", command=f"python3 -m unittest{discovery}", runner="unittest"), reason
    return None


def _lint_gate(files: ProjectFiles, manifest: Mapping[str, Any]) -> tuple[Gate, Reason] | None:
    ruff = _configuration_reason(files, manifest, "ruff", ("ruff.toml", ".ruff.toml"), ())
    if ruff is not None:
        return Gate(kind="lint", command="ruff check .", runner="findings"), ruff
    flake8 = _configuration_reason(files, {}, "flake8", (".flake8",), ("setup.cfg", "tox.ini"))
    return None if flake8 is None else (Gate(kind="lint", command="flake8", runner="findings"), flake8)


def _typecheck_gate(files: ProjectFiles, manifest: Mapping[str, Any]) -> tuple[Gate, Reason] | None:
    mypy = _mypy_settings(files, as_table(manifest.get("tool")))
    if mypy is not None:
        settings, path = mypy
        # These settings say what mypy checks if the command does not.
        command = "mypy ." if {"files", "modules", "packages"}.isdisjoint(settings) else "mypy"
        line = files.line(path, "[tool.mypy" if path == "pyproject.toml" else "[mypy")
        return Gate(kind="typecheck", command=command, runner="findings"), Reason(path, "configures mypy", line)
    pyright = _configuration_reason(files, manifest, "pyright", ("pyrightconfig.json",), ())
    return None if pyright is None else (Gate(kind="typecheck", command="pyright", runner="findings"), pyright)


def _configuration_reason(
    files: ProjectFiles, manifest: Mapping[str, Any], tool: str, own: tuple[str, ...], shared: tuple[str, ...]
) -> Reason | None:
    says = f"configures {tool}"
    if tool in as_table(manifest.get("tool")):
        return Reason("pyproject.toml", says, files.line("pyproject.toml", f"[tool.{tool}"))
    for path in own:
        if files.has(path):
            return Reason(path, says)
    for path in shared:
        if line := files.line(path, f"[{tool}]"):
            return Reason(path, says, line)
    return None


def _mypy_settings(files: ProjectFiles, tools: Mapping[str, Any]) -> tuple[Mapping[str, Any], str] | None:
    """Return the settings of the file that mypy reads, the first with any, and its path; None without any."""
    for name in ("mypy.ini", ".mypy.ini"):
        if files.has(name):
            return files.ini(name).get("mypy", {}), name
    if "mypy" in tools:
        return as_table(tools["mypy"]), "pyproject.toml"
    section = files.ini("setup.cfg").get("mypy")
    return None if section is None else (section, "setup.cfg")


def _pytest_reason(files: ProjectFiles, manifest: Mapping[str, Any]) -> Reason | None:
    # A mention of pytest without tests is not enough.
    tests = [path for path in sorted(files.paths) if _FILE.search(path) and is_python_test(path)]
    if not tests:
        places = ("pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini")
        line = next(((path, line) for path in places if (line := files.line(path, "python_files"))), None)
        return None if line is None else Reason(line[0], "names the files of pytest tests", line[1])
    if configured := _pytest_configured(files, manifest):
        return configured
    for path in tests:
        if found := FUNCTION.search(text := files.text(path)):
            return Reason(path, "has pytest tests", _line_at(text, found.start()))
    return None


def _pytest_configured(files: ProjectFiles, manifest: Mapping[str, Any]) -> Reason | None:
    says = "configures pytest"
    if "pytest" in as_table(manifest.get("tool")):
        return Reason("pyproject.toml", says, files.line("pyproject.toml", "[tool.pytest"))
    for path in ("pytest.ini", ".pytest.ini"):
        if files.has(path):
            return Reason(path, says)
    for path in ("setup.cfg", "tox.ini"):
        if found := _PYTEST_SECTION.search(text := files.text(path)):
            return Reason(path, says, _line_at(text, found.start()))
    conftest = next((path for path in sorted(files.paths) if path.rpartition("/")[2] == "conftest.py"), None)
    if conftest is not None:
        return Reason(conftest, "has pytest fixtures")
    if any(_PYTEST_NAME.match(each) for each in requirement_names(manifest)):
        return Reason("pyproject.toml", "requires pytest", files.line("pyproject.toml", "pytest"))
    return None


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
