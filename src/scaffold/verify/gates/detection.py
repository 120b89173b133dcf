"""Detect a repository's gates from its files, without running its code, and drop those whose tools are missing.

Go, Rust and recipe files are read here, Node and Python projects in `projects/`.
"""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.proof.gates import Gate, GateKind, RunnerKind
from scaffold.core.run_settings import GateSettings
from scaffold.git.client.command_line import Git
from scaffold.verify.gates.fitted_gates import fit_gates
from scaffold.verify.gates.hook_tools import hook_gate, notes_of_hooks
from scaffold.verify.gates.projects.node_project import read_node
from scaffold.verify.gates.projects.own_commands import own_commands, shell_commands, tests_run_by_kind
from scaffold.verify.gates.projects.project import Project, ProjectKind, Reason, RequiredTools
from scaffold.verify.gates.projects.project_files import (
    MANIFESTS,
    RECIPE_FILES,
    ProjectFiles,
    files_at_commit,
    files_in_folder,
)
from scaffold.verify.gates.projects.python_project import read_python
from scaffold.verify.gates.projects.recipe_checks import CHECK_KINDS, CHECK_PROGRAMS, Words, recipe_checks, resolved
from scaffold.verify.gates.projects.recipe_files import read_recipes, recipe_program
from scaffold.verify.gates.runner_detection import detect_runner

TARGETS: Mapping[GateKind, tuple[str, ...]] = {
    "test": ("test", "tests", "check"),
    "build": ("build", "all"),
    "lint": ("lint",),
    "typecheck": ("typecheck", "type-check", "types"),
}
"""The names of targets by kind of gate, preferred ones first."""
ELSEWHERE = frozenset({"-C", "--directory", "-f", "--file", "-d", "--dir", "-t", "--taskfile", "--working-directory"})
"""Options with which a program runs the recipes of other files."""
MANIFEST = "Cargo.toml"
_TEST = re.compile(r"#\[(cfg\(test\)|(\w+::)?test\b)")
_WORK_USE = re.compile(r"^(?:use)?\s+\.?/?([^\s()]+)\s*$", re.MULTILINE)
MAX_PROJECTS = 20
MAX_DEPTH = 3
"""How deep to search for projects if the top of the repository is not one."""
MODULE = "-m"
BINARIES = "node_modules/.bin"
"""Scripts of package.json search this folder before PATH."""
KIND_BY_FILE: tuple[tuple[str, ProjectKind], ...] = (
    ("go.mod", "go"),
    ("package.json", "node"),
    ("Cargo.toml", "rust"),
    ("pyproject.toml", "python"),
)
"""In order of precedence: a repository with several languages counts as the first."""

MOST_UNREAD = 5
"""Files beyond a limit that are named."""


class DetectedGates(Struct, frozen=True, kw_only=True):
    """The gates of a repository, and how to prepare a checkout for them."""

    kind: ProjectKind
    gates: tuple[Gate, ...] = ()
    setup: tuple[str, ...] = ()
    """Commands that prepare a checkout, in order, run at its top."""
    tools: RequiredTools = {}
    """The program that a gate requires, or `python -m MODULE`, by the gate's name."""
    scripts: Mapping[str, RunnerKind] = {}
    sources: Mapping[str, str] = {}
    """The file of the project whose command a gate follows, by the gate's name."""
    reasons: Mapping[str, Reason] = {}
    """The reason why a gate or a set-up command is the project's, by the gate's name or the command."""
    given: frozenset[str] = frozenset()
    """The names of the gates that come from the settings."""
    notes: tuple[str, ...] = ()
    """Notes for the user about what is not checked."""
    hook_notes: tuple[str, ...] = ()
    """The notes that are about commit hooks."""


async def detect_at_commit(git: Git, commit: Commit) -> DetectedGates:
    """Return the gates of a commit."""
    return detect_gates(await files_at_commit(git, commit))


async def detect_for_run(git: Git, commit: Commit, gates: GateSettings, setup: tuple[str, ...] | None) -> DetectedGates:
    """Return the gates and the set-up commands of a run from the commit; `setup` is None if none are configured."""
    found = apply_gate_settings(await detect_at_commit(git, commit), gates.given, gates.off)
    return structs.replace(
        found, gates=found.gates if gates.enabled else (), setup=found.setup if setup is None else setup
    )


def detect_in_folder(folder: Path) -> DetectedGates:
    """Return the gates of a folder, committed or not."""
    return detect_gates(files_in_folder(folder))


def apply_gate_settings(detection: DetectedGates, given: Sequence[Gate], off: Sequence[str]) -> DetectedGates:
    """Return the detection with the settings applied: a `given` gate replaces all detected gates of its kind."""
    replaced = {*off, *(gate.kind for gate in given)}
    kept = tuple(gate for gate in detection.gates if gate.kind not in replaced)
    configured = tuple(
        structs.replace(gate, runner=detect_runner(gate.kind, gate.command, detection.scripts))
        for gate in given
        if gate.kind not in off
    )
    return structs.replace(
        detection,
        gates=(*configured, *kept),
        tools={gate.name: detection.tools[gate.name] for gate in kept if gate.name in detection.tools},
        given=frozenset(gate.name for gate in configured),
        notes=tuple(note for note in detection.notes if "hooks" not in replaced or note not in detection.hook_notes),
    )


def detect_gates(files: ProjectFiles) -> DetectedGates:
    """Return the gates of a repository with these files; the gate of its commit hooks comes last."""
    found, notes = _detect_projects(files), notes_of_hooks(files.paths)
    # Only now it is known which of the files had to be read.
    unread = [f"{path} {why}, so it is not read" for path, why in sorted(files.state.problems.items())]
    more = [f"and {len(unread) - MOST_UNREAD} other files"] if len(unread) > MOST_UNREAD else []
    found = structs.replace(found, notes=(*found.notes, *unread[:MOST_UNREAD], *more, *notes), hook_notes=notes)
    hooks = hook_gate(files.paths)
    if hooks is None:
        return found
    gate, reason = hooks
    return structs.replace(found, gates=(*found.gates, gate), reasons={**found.reasons, gate.name: reason})


def _detect_projects(files: ProjectFiles) -> DetectedGates:
    kinds = _project_kinds(files)
    if kinds:
        own = own_commands(files)
        times = tests_run_by_kind(own)
        # The kind whose tests the project's own set-up runs most often comes first.
        ordered = sorted(kinds, key=lambda kind: -times[kind])
        fitted = [(fit_gates(PROJECT_READERS[kind](files), own, files), "") for kind in ordered]
        # Its tests may be started by a runner that is not known here, and its checks by none that is.
        recipes = read_recipe_file(files)
        known = {gate.kind for project, _ in fitted for gate in project.gates}.difference({"test"}).union({"build"})
        known |= {"test"} if any(times.values()) else set()
        other = tuple(gate for gate in recipes.gates if gate.kind not in known)
        return _merge_detections(kinds[0], [*fitted, (structs.replace(recipes, gates=other), "")])
    modules = [found for found in _WORK_USE.findall(files.text("go.work")) if files.has(f"{found}/go.mod")]
    folders = modules or [each for each in files.folders_of(*MANIFESTS) if each.count("/") < MAX_DEPTH]
    outer = [each for each in folders if not any(each.startswith(f"{other}/") for other in folders)]
    below = [(kinds[0], folder) for folder in outer[:MAX_PROJECTS] if (kinds := _project_kinds(files.at(folder)))]
    projects = [(kind, PROJECT_READERS[kind](files.at(folder)), folder) for kind, folder in below]
    # Folders without any check, such as data with a manifest, do not describe the repository.
    checked = [each for each in projects if each[1].gates]
    names = {gate.kind for _, project, _ in checked for gate in project.gates}
    recipes = read_recipe_file(files)
    recipes = structs.replace(recipes, gates=tuple(gate for gate in recipes.gates if gate.kind not in names))
    counted = checked or ([] if recipes.gates else projects)
    found = _merge_detections("unknown", [*((project, folder) for _, project, folder in counted), (recipes, "")])
    known = {kind for kind, _, _ in counted}
    return structs.replace(found, kind=known.pop()) if len(known) == 1 else found


def _project_kinds(files: ProjectFiles) -> tuple[ProjectKind, ...]:
    found = tuple(kind for manifest, kind in KIND_BY_FILE if files.has(manifest))
    python = any(path.endswith(".py") and "/" not in path for path in files.paths) or any(
        re.fullmatch(r"tests?/test_\w+\.py", path) for path in files.paths
    )
    return (*found, "python") if python and "python" not in found else found


def _merge_detections(kind: ProjectKind, projects: Sequence[tuple[Project, str]]) -> DetectedGates:
    """Return the combined detection of several (project, folder) pairs; the first gate of a name counts."""
    gates: dict[str, Gate] = {}
    tools: dict[str, str] = {}
    sources: dict[str, str] = {}
    reasons: dict[str, Reason] = {}
    setup: dict[str, None] = {}
    left_out: dict[str, Gate] = {}
    for project, folder in projects:
        for gate in project.gates:
            placed = structs.replace(gate, folder="/".join(filter(None, (folder, gate.folder))))
            if placed.name in gates:
                left_out[placed.command] = placed
            else:
                gates[placed.name] = placed
                tools |= {placed.name: project.tools[gate.name]} if gate.name in project.tools else {}
                sources |= {placed.name: project.sources[gate.name]} if gate.name in project.sources else {}
                reasons |= _placed_reason(placed.name, project.reasons.get(gate.name), folder)
        for command in project.setup:
            there = f"cd {shlex.quote(folder)} && {command}" if folder else command
            setup[there] = None
            reasons |= _placed_reason(there, project.reasons.get(command), folder)
    return DetectedGates(
        kind=kind,
        gates=tuple(gates.values()),
        setup=tuple(setup),
        tools=tools,
        scripts={name: runner for project, _ in reversed(projects) for name, runner in project.scripts.items()},
        sources=sources,
        reasons=reasons,
        notes=(
            *(note for project, _ in projects for note in project.notes),
            *_second_tests(gates.values(), left_out.values()),
        ),
    )


def _second_tests(kept: Collection[Gate], left_out: Collection[Gate]) -> Iterator[str]:
    """Yield a note about the tests of a second language, which the first gate of that name keeps out."""
    first = next((gate.command for gate in kept if gate.name == "test"), "")
    if others := [each.command for each in left_out if each.name == "test" and each.command != first]:
        both = shlex.quote(" && ".join((first, *others)))
        named = ", ".join(f"`{each}`" for each in others)
        yield f"the test gate is `{first}` and not {named}; for both: `scaffold config quality_gates.test {both}`"


def _placed_reason(name: str, reason: Reason | None, folder: str) -> dict[str, Reason]:
    """Return the reason by name, its path relative to the repository's top; empty without one."""
    if reason is None:
        return {}
    return {name: structs.replace(reason, path=f"{folder}/{reason.path}") if folder else reason}


def read_go(files: ProjectFiles) -> Project:
    """Return the gates and the set-up of the Go module in a folder."""
    module = Reason("go.mod", "is a Go module", files.line("go.mod", "module "))
    linted = next((path for path in sorted(files.paths) if re.fullmatch(r"\.golangci\.\w+", path)), None)
    gates = [Gate(kind="build", command="go build ./...")]
    reasons = {"build": module, "lint": Reason(linted, "configures golangci-lint") if linted else module}
    test = min((path for path in files.paths if path.endswith("_test.go")), default=None)
    if test is not None:
        gates.insert(0, Gate(kind="test", command="go test ./...", runner="go"))
        reasons["test"] = Reason(test, "has Go tests")
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


def read_rust(files: ProjectFiles) -> Project:
    """Return the gates and the set-up of the Rust package or workspace in a folder."""
    manifest = files.toml(MANIFEST)
    locked = " --locked" if files.has("Cargo.lock") else ""
    every = " --workspace" if "workspace" in manifest else ""
    package = Reason(MANIFEST, "is a Rust package", files.line(MANIFEST, "[package]"))
    if every:
        package = Reason(MANIFEST, "is a Rust workspace", files.line(MANIFEST, "[workspace"))
    lint = f"cargo clippy{every} --message-format short -- -D warnings"
    gates = [Gate(kind="build", command=f"cargo build{every}"), Gate(kind="lint", command=lint, runner="findings")]
    reasons = {gate.name: package for gate in gates}
    if test := _first_test(files):
        gates.insert(0, Gate(kind="test", command=f"cargo test{every}", runner="cargo"))
        reasons["test"] = test
    needed = next(
        (each for each in ("dependencies", "dev-dependencies", "build-dependencies", "workspace") if each in manifest),
        None,
    )
    setup = (f"cargo fetch{locked}",) if needed else ()
    requires = Reason(MANIFEST, "requires crates", files.line(MANIFEST, f"[{needed}"))
    return Project(
        gates=tuple(gates),
        setup=setup,
        tools={"test": "cargo", "build": "cargo", "lint": "cargo-clippy"},
        reasons={**reasons, **dict.fromkeys(setup, requires)},
    )


PROJECT_READERS: Mapping[ProjectKind, Callable[[ProjectFiles], Project]] = {
    "go": read_go,
    "node": read_node,
    "rust": read_rust,
    "python": read_python,
}


def drop_unavailable_gates(
    detection: DetectedGates, top: Path, environ: Mapping[str, str], own: Sequence[str] = ()
) -> DetectedGates:
    """Return the detection without the gates whose tools are missing in the checkout `top`, with a note for each.

    `own` are the program folders of the project's environment. Tools that belong there are not taken from the rest of
    PATH: another version has other findings. Test gates and gates from the settings stay: their missing tool is an
    error.
    """
    missing = {
        gate.name: (detection.tools[gate.name], where)
        for gate in detection.gates
        if gate.kind != "test"
        and gate.name not in detection.given
        and gate.name in detection.tools
        and (where := _missing_place(detection.tools[gate.name], (top / gate.folder, top), environ, own)) is not None
    }
    notes = tuple(
        f"{tool} is not installed{where}, so {name} is not checked" for name, (tool, where) in missing.items()
    )
    kept = tuple(gate for gate in detection.gates if gate.name not in missing)
    return structs.replace(detection, gates=kept, notes=(*detection.notes, *notes))


def missing_tool(gate: Gate, detection: DetectedGates, top: Path, path: str) -> str | None:
    """Return the program or Python module that a test gate requires and `path` lacks, or None.

    Nothing is run: a module counts as installed if its program is there, or if it is beside the interpreter's others.
    """
    program, _, module = detection.tools.get(gate.name, "").partition(f" {MODULE} ")
    if not program or _missing_place(program, (top / gate.folder, top), {"PATH": path}, ()) is not None:
        return program or None
    if not module or shutil.which(module, path=path):
        return None
    python = Path(shutil.which(program, path=path) or program)
    packages = python.parent.parent.glob(f"lib/python*/site-packages/{module}")
    return None if any(packages) else module


def _missing_place(tool: str, folders: tuple[Path, ...], environ: Mapping[str, str], own: Sequence[str]) -> str | None:
    """Return where a program is missing, as words after "is not installed"; None if it is installed."""
    if "/" in tool:
        return None if any(os.access(folder / tool, os.X_OK) for folder in folders) else ""
    binaries = [str(folder / BINARIES) for folder in folders]
    path = [environ.get("PATH", ""), *binaries]
    where = ""
    homes = {known.home for key, known in CHECK_PROGRAMS.items() if key.partition(" ")[0] == tool}
    if "python" in homes and (programs := [folder for folder in own if not folder.endswith(BINARIES)]):
        path, where = programs, " in the project's environment"
    elif "node" in homes and any(Path(folder).is_dir() for folder in binaries):
        path, where = binaries, f" in {BINARIES}"
    return None if any(shutil.which(tool, path=each) for each in path) else where


def _first_test(files: ProjectFiles) -> Reason | None:
    for path in sorted(path for path in files.paths if path.endswith(".rs")):
        if found := _TEST.search(text := files.text(path)):
            return Reason(path, "has Rust tests", text.count("\n", 0, found.start()) + 1)
    return None


def read_recipe_file(files: ProjectFiles) -> Project:
    """Return the gates that the recipes of the first makefile, justfile or file of go-task are; none without one."""
    name = next((name for name in RECIPE_FILES if files.has(name)), None)
    if name is None:
        return Project()
    program, texts = recipe_program(name), read_recipes(files, name)

    def started(words: Words) -> Sequence[str]:
        is_here = words[:1] == (program,) and ELSEWHERE.isdisjoint(words)
        return [word for word in words[1:] if word in texts] if is_here else ()

    commands = {
        each: [
            *((program, need) for need in recipe.needs if need in texts),
            *(found.words for text in recipe.commands for found in shell_commands(text, files, name)),
        ]
        for each, recipe in texts.items()
        if each
    }
    recipes = resolved(commands, started)
    named = {kind: next((each for each in targets if each in commands), "") for kind, targets in TARGETS.items()}
    exact = {named[kind]: kind for kind in CHECK_KINDS if named[kind]}
    checks = recipe_checks(
        recipes, exact, recipes.run_by([each.words for each in own_commands(files) if each.source != name])
    )
    chosen: list[tuple[str, GateKind, bool]] = [
        (each.name, each.kind, not each.is_run) for each in sorted(checks, key=lambda each: each.kind)
    ]
    for kind in ("build", "test"):
        if named[kind] and not recipes.is_endless(named[kind]):
            chosen.insert(0, (named[kind], kind, False))
    gates, reasons = [], dict[str, Reason]()
    for target, kind, advisory in chosen:
        part = "" if target in named.values() else target
        command = f"{program} {target}"
        runner = detect_runner(kind, command, {})
        gates.append(Gate(kind=kind, command=command, runner=runner, part=part, advisory=bool(part) and advisory))
        reasons[gates[-1].name] = Reason(name, f"has the target `{target}`", texts[target].line)
    return Project(gates=tuple(gates), tools={gate.name: program for gate in gates}, reasons=reasons)
