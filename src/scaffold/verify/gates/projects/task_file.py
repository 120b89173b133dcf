"""Detect gates from the targets of a makefile or the recipes of a justfile, where nothing else says how to check."""

import re
from collections.abc import Mapping

from scaffold.core.proof.gates import Gate, GateKind
from scaffold.verify.gates.projects.project import Project, Reason
from scaffold.verify.gates.projects.project_files import RECIPES, ProjectFiles
from scaffold.verify.gates.runner_detection import detect_runner

TARGETS: Mapping[GateKind, tuple[str, ...]] = {
    "test": ("test", "tests", "check"),
    "build": ("build", "all"),
    "lint": ("lint",),
    "typecheck": ("typecheck", "type-check", "types"),
}
"""The names of targets by the kind of gate that they are, the preferred ones first."""

_TARGET = re.compile(r"^@?(?P<names>\w[^:=#\n]*?)\s*:(?![=:])", re.MULTILINE)


def read_task_file(files: ProjectFiles) -> Project:
    """Return the gates that the targets of the first makefile or justfile name; none without one."""
    name = next((name for name in RECIPES if files.has(name)), None)
    if name is None:
        return Project()
    program = "just" if "just" in name.casefold() else "make"
    lines = _target_lines(files.text(name), only_first=program == "just")
    gates, reasons = [], dict[str, Reason]()
    for kind, targets in TARGETS.items():
        target = next((each for each in targets if each in lines), None)
        if target is not None:
            command = f"{program} {target}"
            gates.append(Gate(kind=kind, command=command, runner=detect_runner(kind, command, {})))
            reasons[kind] = Reason(name, f"has the target `{target}`", lines[target])
    return Project(gates=tuple(gates), tools={gate.name: program for gate in gates}, reasons=reasons)


def _target_lines(text: str, *, only_first: bool) -> Mapping[str, int]:
    """Return the targets with the line of each; with `only_first` the words after the first are its parameters."""
    found = dict[str, int]()
    for match in _TARGET.finditer(text):
        names = match["names"].split()
        for name in names[:1] if only_first else names:
            found.setdefault(name, text.count("\n", 0, match.start()) + 1)
    return found
