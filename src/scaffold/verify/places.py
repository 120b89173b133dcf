"""Where a test lives: the file that its name, as a runner gives it, stands for."""

import re
from collections.abc import Collection

from scaffold.core.gates import Gate
from scaffold.verify.gates.jest import BETWEEN

ENDS = {"pytest": "::", "jest": BETWEEN, "vitest": BETWEEN, "cargo": ": ", "findings": ": "}
"""What follows the file in the names that a runner gives."""
_FUNCTION = re.compile(r"\.(?:Test|Example|Fuzz|Benchmark)")
"""Where the name of a package ends, and that of a test of Go begins."""
_NUMBERED = re.compile(r" \(\d+\)$")
"""How tests of one name are told apart where files are not told."""


def place_of(gate: Gate, name: str, paths: Collection[str]) -> str | None:
    """Return the path that a test or finding is in, from the top of the repository; one of Go its folder.

    `paths` are all that there are. None where the name does not tell.
    """
    match gate.runner:
        case "unittest":
            return _of_module(gate, name, paths)
        case "go":
            return _of_package(gate, name, paths)
        case "exit" | "node":
            return None
        case runner:
            head, found, _ = name.partition(ENDS[runner])
            path = within(gate, head)
            return path if found or path in paths else None


def tail_of(gate: Gate, name: str) -> str:
    """Return what a test is called within its file: its name without the file, or the package, that it begins with."""
    match gate.runner:
        case "unittest":
            return ".".join(name.split(".")[-2:])
        case "go":
            return name[found.start() + 1 :] if (found := _FUNCTION.search(name)) else name
        case "node":
            return _NUMBERED.sub("", name)
        case "exit":
            return name
        case runner:
            return name.partition(ENDS[runner])[2] or name


def title_of(gate: Gate, name: str) -> str:
    """Return what the text of a test's file has of its name: that of its function, or its last title."""
    tail = tail_of(gate, name)
    match gate.runner:
        case "pytest" | "unittest":
            return re.split(r"::|\.", tail.partition("[")[0])[-1]
        case "go":
            return tail.partition("/")[0]
        case "cargo":
            return tail.rpartition("::")[2]
        case _:
            return tail.rpartition(BETWEEN)[2]


def said_in(text: str, gate: Gate, name: str) -> bool:
    """Tell whether the text of a file has the name of a test in it, as a word."""
    return re.search(rf"(?<!\w){re.escape(title_of(gate, name))}(?!\w)", text) is not None


def within(gate: Gate, path: str) -> str:
    """Return a path as from the top that is meant as from the gate's folder."""
    return f"{gate.folder}/{path}" if gate.folder else path


def below(gate: Gate, path: str) -> str | None:
    """Return a path as from the gate's folder that is meant as from the top; None if it is not in there."""
    if not gate.folder:
        return path
    return path.removeprefix(f"{gate.folder}/") if path.startswith(f"{gate.folder}/") else None


def _of_module(gate: Gate, name: str, paths: Collection[str]) -> str | None:
    """Return the file of the longest module that the name begins with."""
    parts = name.split(".")
    candidates = (within(gate, "/".join(parts[:length]) + ".py") for length in range(len(parts), 0, -1))
    return next((path for path in candidates if path in paths), None)


def _of_package(gate: Gate, name: str, paths: Collection[str]) -> str | None:
    """Return the longest folder of tests that a package's name ends in, `""` for the top: it begins with an address."""
    parts = _FUNCTION.split(name, maxsplit=1)[0].split("/")
    inner = (below(gate, path) for path in paths if path.endswith("_test.go"))
    folders = {path.rpartition("/")[0] for path in inner if path is not None}
    tail = next((tail for at in range(len(parts) + 1) if (tail := "/".join(parts[at:])) in folders), None)
    return tail if tail is None else within(gate, tail).rstrip("/")
