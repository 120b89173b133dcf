"""Map the name of a test, as its runner reports it, to its file."""

import re
from collections.abc import Collection, Sequence

from scaffold.core.proof.gates import Gate, GateRun
from scaffold.verify.gates.injected.scaffold_recorder import PART
from scaffold.verify.gates.reports.jest import TITLE_SEPARATOR

RUNNERS_NAMING_FILES = frozenset({"pytest", "unittest", "jest", "vitest", "mocha", "node"})
"""The runners whose test names contain the file, and that keep tests in separate files."""

PATH_SEPARATORS = {
    "pytest": "::",
    **dict.fromkeys(("jest", "vitest", "mocha", "node"), TITLE_SEPARATOR),
    **dict.fromkeys(("cargo", "findings"), ": "),
}
"""The text between the file and the rest of a test name, by runner."""
LINT_PLUGINS = frozenset(
    {"black", "flake8", "isort", "mypy", "pylint", "ruff", "pycodestyle", "pydocstyle", "format", "codespell"}
)
"""The names under which pytest plugins report their one result per file."""
PYTHON_SOURCES = (".py", ".pyi", ".pyx")
_FUNCTION = re.compile(r"\.(?:Test|Example|Fuzz|Benchmark)")
"""The boundary between package and function in the name of a Go test."""
_NUMBERED = re.compile(r" \(\d+\)$")
"""The number that distinguishes equal test names of one file."""


def path_of_test(gate: Gate, name: str, paths: Collection[str]) -> str | None:
    """Return the path of the file that contains a test or finding, relative to the repository; for Go its folder.

    `paths` are all paths of the repository. None if the name does not identify a file.
    """
    match gate.runner:
        case "unittest":
            parts = name.partition(PART)[0].split(".")
            # A name does not say where the module ends and the class begins.
            candidates = (path_from_top(gate, "/".join(parts[:length]) + ".py") for length in range(len(parts), 0, -1))
            return next((path for path in candidates if path in paths), None)
        case "go":
            return _folder_of_package(gate, name, paths)
        case "exit":
            return None
        case runner:
            head, found, _ = name.partition(PATH_SEPARATORS[runner])
            path = path_from_top(gate, head)
            return path if found or path in paths else None


def name_in_file(gate: Gate, name: str) -> str:
    """Return the name of a test without the file or package that it begins with, and without its number."""
    name = _NUMBERED.sub("", name)
    match gate.runner:
        case "unittest":
            test, mark, part = name.partition(PART)
            return ".".join(test.split(".")[-2:]) + mark + part
        case "go":
            return name[found.start() + 1 :] if (found := _FUNCTION.search(name)) else name
        case "exit":
            return name
        case runner:
            return name.partition(PATH_SEPARATORS[runner])[2] or name


def title_in_source(gate: Gate, name: str) -> str:
    """Return the part of a test's name that its source file contains: the function name or the last title."""
    tail = name_in_file(gate, name)
    match gate.runner:
        case "pytest" | "unittest":
            return re.split(r"::|\.", tail.partition("[")[0].partition(PART)[0])[-1]
        case "go":
            return tail.partition("/")[0]
        case "cargo":
            return tail.rpartition("::")[2]
        case _:
            return tail.rpartition(TITLE_SEPARATOR)[2]


def occurs_in(text: str, gate: Gate, name: str) -> bool:
    """Return True if the text contains the name of a test as a whole word."""
    return re.search(rf"(?<!\w){re.escape(title_in_source(gate, name))}(?!\w)", text) is not None


def files_with_tests(runs: Sequence[GateRun], paths: Collection[str]) -> frozenset[str]:
    """Return the files in which runners found test functions, whatever the files are called.

    Doctests and the per-file results of plugins do not make a Python module a test file. Doctests do so with other
    files, such as README.md, whose expectations exist nowhere else.
    """
    naming = [run for run in runs if run.gate.kind == "test" and run.gate.runner in RUNNERS_NAMING_FILES]
    functions = ((run.gate, name) for run in naming for name in run.outcomes if is_test_function(run.gate, name))
    return frozenset(path for gate, name in functions if (path := path_of_test(gate, name, paths)) is not None)


def is_test_function(gate: Gate, name: str) -> bool:
    """Return True if the name denotes a test function or a text with doctests.

    For pytest that excludes doctests in Python source and the results of plugins.
    """
    if gate.runner != "pytest":
        return True
    path, _, rest = name.partition("[")[0].partition("::")
    function = (rest or path).rpartition("::")[2]
    if function.casefold() in LINT_PLUGINS:
        return False
    return function.isidentifier() or (path != "" and not path.endswith(PYTHON_SOURCES))


def path_from_top(gate: Gate, path: str) -> str:
    """Convert a path relative to the gate's folder to one relative to the repository."""
    return f"{gate.folder}/{path}" if gate.folder else path


def path_from_gate(gate: Gate, path: str) -> str | None:
    """Convert a path relative to the repository to one relative to the gate's folder; None if it is outside."""
    if not gate.folder:
        return path
    return path.removeprefix(f"{gate.folder}/") if path.startswith(f"{gate.folder}/") else None


def _folder_of_package(gate: Gate, name: str, paths: Collection[str]) -> str | None:
    """Return the longest folder with tests that the import path ends with, `""` for the top, or None."""
    parts = _FUNCTION.split(name, maxsplit=1)[0].split("/")
    inner = (path_from_gate(gate, path) for path in paths if path.endswith("_test.go"))
    folders = {path.rpartition("/")[0] for path in inner if path is not None}
    # An import path begins with the module's name, which need not be a folder.
    tail = next((tail for at in range(len(parts) + 1) if (tail := "/".join(parts[at:])) in folders), None)
    return tail if tail is None else path_from_top(gate, tail).rstrip("/")
