"""Detect the gates of a Node project from the scripts of package.json."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from scaffold.core.printable_text import count_of
from scaffold.core.proof.gates import Gate, GateKind, RunnerKind
from scaffold.policy.path.globs import matches
from scaffold.verify.gates.projects.project import Project, Reason
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table, as_texts
from scaffold.verify.gates.runner_detection import MAX_COMMAND_CHARS, detect_runner, program_words, script_name

MANIFEST = "package.json"
LOCK_FILES = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lockb": "bun",
    "bun.lock": "bun",
    "package-lock.json": "npm",
    "npm-shrinkwrap.json": "npm",
}
SCRIPT_NAMES: Mapping[GateKind, tuple[str, ...]] = {
    "test": ("test",),
    "build": ("build",),
    "lint": ("lint",),
    "typecheck": ("typecheck", "type-check", "check-types"),
}
INSTALL_COMMANDS = {
    "npm": "npm ci",
    "pnpm": "pnpm install --frozen-lockfile",
    "yarn": "yarn install",
    "bun": "bun install --frozen-lockfile",
}
MAX_PACKAGES = 20
ARGUMENT_RUNNERS = frozenset({"jest", "vitest", "mocha", "node", "pytest", "exit"})
"""Runners that accept options appended to their script or from the environment."""
MAX_NESTED_SCRIPTS = 5
WRAPPERS = frozenset({"c8", "nyc", "cross-env"})
"""Programs that run another one as it would run without them."""

MAX_SCRIPTS = 1_000
_TEST_FILE = re.compile(r"\.(test|spec)\.[cm]?[jt]sx?$|(^|/)__tests__/")


def read_node(files: ProjectFiles) -> Project:
    """Return the project in a folder with a package.json; for a workspace with a test gate for each package."""
    manifest = files.json(MANIFEST)
    lock = next((name for name in LOCK_FILES if files.has(name)), None)
    named = str(manifest.get("packageManager", "")).partition("@")[0]  # such as `pnpm@9.1.0`
    packager = LOCK_FILES[lock] if lock else named if named in INSTALL_COMMANDS else "npm"
    top = _package_project(files, manifest, packager, "")
    members = () if any(gate.kind == "test" for gate in top.gates) else _workspace_folders(files, manifest)
    parts = [
        _package_project(files.at(folder), files.at(folder).json(MANIFEST), packager, folder)
        for folder in members[:MAX_PACKAGES]
    ]
    tests = [gate for part in parts for gate in part.gates if gate.kind == "test"]
    left_out = len(members) - MAX_PACKAGES
    needed = lock is not None or any(
        manifest.get(name) for name in ("dependencies", "devDependencies", "optionalDependencies", "workspaces")
    )
    setup = (INSTALL_COMMANDS[packager] if lock else f"{packager} install",) if needed else ()
    requires = Reason(MANIFEST, "requires packages", files.line(MANIFEST, "ependencies"))
    locked = Reason(lock, f"is the lock file of {packager}") if lock else requires
    reasons = {gate.name: part.reasons[gate.name] for part in parts for gate in part.gates}
    return Project(
        gates=(*top.gates, *tests),
        setup=setup,
        tools={**top.tools, **{gate.name: packager for gate in tests}},
        scripts=top.scripts,
        reasons={**reasons, **top.reasons, **dict.fromkeys(setup, locked)},
        notes=(f"no test gate for {count_of(left_out, 'more workspace package')}",) if left_out > 0 else (),
    )


def _package_project(files: ProjectFiles, manifest: Mapping[str, Any], packager: str, folder: str) -> Project:
    listed = islice(as_table(manifest.get("scripts")).items(), MAX_SCRIPTS)
    scripts = {name: text for name, text in listed if isinstance(text, str) and len(text) <= MAX_COMMAND_CHARS}
    runners = {name: _script_runner(text, scripts) for name, text in scripts.items()}
    gates = tuple(_package_gates(files, scripts, runners, packager, folder))
    reasons = {gate.name: _gate_reason(files, gate, scripts, folder) for gate in gates}
    tools = dict[str, str]()
    for gate in gates:
        # The program that the gate's script starts with.
        words = program_words(scripts.get(gate.command.rpartition(" ")[2], ""))
        tools[gate.name] = words[0] if words else "tsc" if "tsc" in gate.command else packager
    return Project(gates=gates, tools=tools, scripts=runners, reasons=reasons)


def _gate_reason(files: ProjectFiles, gate: Gate, scripts: Mapping[str, str], folder: str) -> Reason:
    name = gate.command.rpartition(" ")[2]
    if name not in scripts:
        return Reason(f"{folder}/tsconfig.json" if folder else "tsconfig.json", "configures TypeScript")
    line = files.line(MANIFEST, f'"{name}"', ":", json.dumps(scripts[name])[1:20]) or files.line(MANIFEST, f'"{name}"')
    return Reason(f"{folder}/{MANIFEST}" if folder else MANIFEST, f"has the script `{scripts[name]}`", line)


def _package_gates(
    files: ProjectFiles, scripts: Mapping[str, str], runners: Mapping[str, RunnerKind], packager: str, folder: str
) -> Iterator[Gate]:
    for kind, names in SCRIPT_NAMES.items():
        name = next((name for name in names if name in scripts), None)
        command = f"{packager} run {name}"
        if name is None:
            if kind == "typecheck" and files.has("tsconfig.json"):
                yield Gate(kind=kind, command="npx --no-install tsc --noEmit", runner="findings", folder=folder)
        elif kind != "test" or _has_tests(files, scripts[name], runners[name]):
            yield Gate(kind=kind, command=command, runner=detect_runner(kind, command, runners), folder=folder)


def _has_tests(files: ProjectFiles, script: str, runner: RunnerKind) -> bool:
    any_name = runner in {"exit", "mocha", "node"}  # the files of these runners' tests cannot be recognised by name
    # The script that `npm init` creates for a project without tests.
    return "no test specified" not in script and (any_name or any(_TEST_FILE.search(path) for path in files.paths))


def _script_runner(script: str, scripts: Mapping[str, str]) -> RunnerKind:
    """Return the runner of a script; `exit` for one that does not accept report options.

    Node's own is asked for its report by the environment, so it may be behind other scripts and coverage tools, and
    other programs may follow it.
    """
    if _starts_nodes_runner(script, scripts, MAX_NESTED_SCRIPTS):
        return "node"
    runner = detect_runner("test", script, {})
    return runner if runner in ARGUMENT_RUNNERS else "exit"


def _starts_nodes_runner(script: str, scripts: Mapping[str, str], most: int) -> bool:
    """Return True if the first program of a script is Node's test runner; what comes before it could end the script."""
    words = program_words(script.partition("&&")[0])
    if not words or most == 0 or not all(program_words(part) for part in script.split("&&")):
        return False
    name = script_name(words)
    if name is not None:
        return _starts_nodes_runner(scripts.get(name, ""), scripts, most - 1)
    names = [PurePosixPath(word).name for word in words]
    at = names.index("node") if "node" in names else None
    return at is not None and "--test" in words[at:] and (at == 0 or names[0] in WRAPPERS)


def _workspace_folders(files: ProjectFiles, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    named = manifest.get("workspaces")
    globs = (
        as_texts(named)
        or as_texts(as_table(named).get("packages"))
        or as_texts(files.yaml("pnpm-workspace.yaml").get("packages"))
    )
    kept = [str(PurePosixPath(each)) for each in globs if not each.startswith("!")]
    left_out = [str(PurePosixPath(each[1:])) for each in globs if each.startswith("!")]
    folders = [folder for folder in files.folders_of("package.json") if folder != "."]
    return tuple(folder for folder in folders if _matches_any(kept, folder) and not _matches_any(left_out, folder))


def _matches_any(globs: Sequence[str], folder: str) -> bool:
    return any(matches(glob, folder) and ("**" in glob or glob.count("/") == folder.count("/")) for glob in globs)
