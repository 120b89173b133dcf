"""Detect the gates of a Go module, and the modules of a Go workspace."""

import re

from scaffold.core.proof.gates import Gate
from scaffold.verify.gates.projects.project import Project, Reason
from scaffold.verify.gates.projects.project_files import ProjectFiles

_WORK_USE = re.compile(r"^(?:use)?\s+\.?/?([^\s()]+)\s*$", re.MULTILINE)


def read_go(files: ProjectFiles) -> Project:
    """Return the gates and the set-up of the Go module in a folder."""
    module = Reason("go.mod", "is a Go module", files.line("go.mod", "module "))
    linted = next((path for path in sorted(files.paths) if re.fullmatch(r"\.golangci\.\w+", path)), None)
    gates = [Gate(kind="build", command="go build ./...")]
    reasons = {"build": module, "lint": Reason(linted, "configures golangci-lint") if linted else module}
    test = min((path for path in files.paths if path.endswith("_test.go")), default=None)
    if test is not None:
        gates.insert(0, Gate(kind="test", command="go test ./...", runner="go"))
        reasons["test"] = Reason(test, "has tests of Go")
    gates.append(Gate(kind="lint", command="golangci-lint run" if linted else "go vet ./...", runner="findings"))
    required = re.search(r"^require\b", files.text("go.mod"), re.MULTILINE)
    setup = ("go mod download",) if required else ()
    requires = Reason("go.mod", "requires modules", files.line("go.mod", "require"))
    return Project(
        gates=tuple(gates),
        setup=setup,
        tools={gate.name: gate.command.split()[0] for gate in gates},
        reasons={**reasons, **dict.fromkeys(setup, requires)},
    )


def go_workspace_modules(files: ProjectFiles) -> list[str]:
    """Return the module folders of a Go workspace."""
    return [found for found in _WORK_USE.findall(files.text("go.work")) if files.has(f"{found}/go.mod")]
