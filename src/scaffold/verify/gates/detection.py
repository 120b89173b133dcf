"""Which gates a repository has, told from its files; none of its code is run."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.gates import Gate, Runner
from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.verify.gates.listing import MANIFESTS, Listing, listing_at, listing_in
from scaffold.verify.gates.node_project import read_node
from scaffold.verify.gates.project import Project, ProjectKind, Tools
from scaffold.verify.gates.python_project import read_python
from scaffold.verify.gates.recognition import runner_of

MOST_PROJECTS = 20
DEEPEST = 3
"""How many folders below the top projects are looked for where the top is none."""

_RUST_TEST = re.compile(r"#\[(cfg\(test\)|(\w+::)?test\b)")
_USED = re.compile(r"^(?:use)?\s+\.?/?([^\s()]+)\s*$", re.MULTILINE)


class Detection(Struct, frozen=True, kw_only=True):
    """What there is to judge a repository by."""

    kind: ProjectKind
    gates: tuple[Gate, ...] = ()
    setup: tuple[str, ...] = ()
    """Commands that prepare a checkout, in order, to be run at its top."""
    tools: Tools = {}
    """By a gate's name: the program it cannot do without, or `python -m MODULE`."""
    scripts: Mapping[str, Runner] = {}
    given: frozenset[str] = frozenset()
    """The names of the gates that the settings gave."""
    notes: tuple[str, ...] = ()
    """What somebody should know: what is not checked although it could be."""

    def command(self, kind: str) -> str | None:
        """Return the command of the first gate of a kind, None if there is none."""
        return next((gate.command for gate in self.gates if gate.kind == kind), None)


def detect(paths: Collection[str], read: Callable[[str], bytes | None]) -> Detection:
    """Return what a listing of paths (from the top, with `/`) and the contents of some of them tell."""
    return _detected(Listing(paths, read))


async def detect_at(git: Git, commit: Commit) -> Detection:
    """Return what a commit tells."""
    return _detected(await listing_at(git, commit))


def detect_in(folder: Path) -> Detection:
    """Return what the files in a folder tell, committed or not."""
    return _detected(listing_in(folder))


def with_settings(detection: Detection, given: Sequence[Gate], off: Sequence[str]) -> Detection:
    """Return what is left once the settings had their say: what they give stands in for what was found of its kind."""
    replaced = {*off, *(gate.kind for gate in given)}
    kept = tuple(gate for gate in detection.gates if gate.kind not in replaced)
    theirs = tuple(
        structs.replace(gate, runner=runner_of(gate.kind, gate.command, detection.scripts))
        for gate in given
        if gate.kind not in off
    )
    return structs.replace(
        detection,
        gates=(*theirs, *kept),
        tools={gate.name: detection.tools[gate.name] for gate in kept if gate.name in detection.tools},
        given=frozenset(gate.name for gate in theirs),
    )


def _detected(files: Listing) -> Detection:
    kinds = _kinds(files)
    if kinds:
        return _together(kinds[0], [(READERS[kind](files), "") for kind in kinds])
    used = _used(files)
    folders = used or [each for each in files.folders_of(*MANIFESTS) if each.count("/") < DEEPEST]
    outer = [each for each in folders if not any(each.startswith(f"{other}/") for other in folders)]
    below = [(kinds[0], folder) for folder in outer[:MOST_PROJECTS] if (kinds := _kinds(files.at(folder)))]
    if not below:
        return Detection(kind="unknown")
    found = _together(below[0][0], [(READERS[kind](files.at(folder)), folder) for kind, folder in below])
    return found if used or len({kind for kind, _ in below}) == 1 else structs.replace(found, kind="unknown")


def _kinds(files: Listing) -> tuple[ProjectKind, ...]:
    """Return what a folder is, first of all, and what it is besides."""
    found = tuple(kind for manifest, kind in MARKERS if files.has(manifest))
    python = any(path.endswith(".py") and "/" not in path for path in files.paths) or any(
        re.fullmatch(r"tests?/test_\w+\.py", path) for path in files.paths
    )
    return (*found, "python") if python and "python" not in found else found


def _together(kind: ProjectKind, projects: Sequence[tuple[Project, str]]) -> Detection:
    """Return one detection of several projects and their folders; of two gates of one name the first one counts."""
    gates: dict[str, Gate] = {}
    tools: dict[str, str] = {}
    for project, folder in projects:
        for gate in project.gates:
            placed = structs.replace(gate, folder="/".join(filter(None, (folder, gate.folder))))
            if placed.name not in gates:
                gates[placed.name] = placed
                tools |= {placed.name: project.tools[gate.name]} if gate.name in project.tools else {}
    commands = [f"cd {folder} && {each}" if folder else each for project, folder in projects for each in project.setup]
    return Detection(
        kind=kind,
        gates=tuple(gates.values()),
        setup=tuple(commands),
        tools=tools,
        scripts={name: runner for project, _ in reversed(projects) for name, runner in project.scripts.items()},
        notes=tuple(note for project, _ in projects for note in project.notes),
    )


def _read_go(files: Listing) -> Project:
    linted = any(re.fullmatch(r"\.golangci\.\w+", path) for path in files.paths)
    gates = [Gate(kind="build", command="go build ./...")]
    if any(path.endswith("_test.go") for path in files.paths):
        gates.insert(0, Gate(kind="test", command="go test ./...", runner="go"))
    gates.append(Gate(kind="lint", command="golangci-lint run" if linted else "go vet ./...", runner="findings"))
    tools = {gate.name: gate.command.split()[0] for gate in gates}
    setup = ("go mod download",) if re.search(r"^require\b", files.text("go.mod"), re.MULTILINE) else ()
    return Project(gates=tuple(gates), setup=setup, tools=tools)


def _read_rust(files: Listing) -> Project:
    manifest = files.toml("Cargo.toml")
    locked = " --locked" if files.has("Cargo.lock") else ""
    every = " --workspace" if "workspace" in manifest else ""
    lint = f"cargo clippy{every} --message-format short -- -D warnings"
    gates = [Gate(kind="build", command=f"cargo build{every}"), Gate(kind="lint", command=lint, runner="findings")]
    if any(_RUST_TEST.search(files.text(path)) for path in files.paths if path.endswith(".rs")):
        gates.insert(0, Gate(kind="test", command=f"cargo test{every}", runner="cargo"))
    needs = any(each in manifest for each in ("dependencies", "dev-dependencies", "build-dependencies", "workspace"))
    return Project(
        gates=tuple(gates),
        setup=(f"cargo fetch{locked}",) if needs else (),
        tools={"test": "cargo", "build": "cargo", "lint": "cargo-clippy"},
    )


def _used(files: Listing) -> list[str]:
    """Return the folders of the modules that a workspace of Go names."""
    return [found for found in _USED.findall(files.text("go.work")) if files.has(f"{found}/go.mod")]


MARKERS: tuple[tuple[str, ProjectKind], ...] = (
    ("go.mod", "go"),
    ("package.json", "node"),
    ("Cargo.toml", "rust"),
    ("pyproject.toml", "python"),
)
"""In this order: a repository of several languages counts as the first."""
READERS: Mapping[ProjectKind, Callable[[Listing], Project]] = {
    "go": _read_go,
    "node": read_node,
    "rust": _read_rust,
    "python": read_python,
}
