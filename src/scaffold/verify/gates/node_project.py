"""Node: the scripts of package.json, and whose reports they leave."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import yaml

from scaffold.core.gates import Gate, GateKind, Runner
from scaffold.policy.globs import matches
from scaffold.verify.gates.listing import Listing, table, texts
from scaffold.verify.gates.project import Project
from scaffold.verify.gates.recognition import program, runner_of

NO_TEST = "no test specified"
"""What `npm init` writes where a project has no tests."""
LOCK_FILES = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun", "bun.lock": "bun"}
SCRIPTS: Mapping[GateKind, tuple[str, ...]] = {
    "test": ("test",),
    "build": ("build",),
    "lint": ("lint",),
    "typecheck": ("typecheck", "type-check", "check-types"),
}
FROZEN = {
    "npm": "npm ci",
    "pnpm": "pnpm install --frozen-lockfile",
    "yarn": "yarn install",
    "bun": "bun install --frozen-lockfile",
}
MOST_PACKAGES = 20
ASKED_FROM_OUTSIDE = frozenset({"jest", "vitest", "node", "pytest", "exit"})
"""Runners that take arguments after their script's name, or from the environment."""

_TEST_FILE = re.compile(r"\.(test|spec)\.[cm]?[jt]sx?$|(^|/)__tests__/")


def read_node(files: Listing) -> Project:
    """Return what a folder with a package.json offers, of a workspace the tests of each package."""
    manifest = files.json("package.json")
    packager = next((name for lock, name in LOCK_FILES.items() if files.has(lock)), "npm")
    locked = files.has("package-lock.json", "npm-shrinkwrap.json", *LOCK_FILES)
    top = _package(files, manifest, packager, "")
    members = () if any(gate.kind == "test" for gate in top.gates) else _members(files, manifest)
    parts = [
        _package(files.at(folder), files.at(folder).json("package.json"), packager, folder)
        for folder in members[:MOST_PACKAGES]
    ]
    tests = [gate for part in parts for gate in part.gates if gate.kind == "test"]
    left_out = len(members) - MOST_PACKAGES
    return Project(
        gates=(*top.gates, *tests),
        setup=(FROZEN[packager] if locked else f"{packager} install",) if locked or _needs(manifest) else (),
        tools={**top.tools, **{gate.name: packager for gate in tests}},
        scripts=top.scripts,
        notes=(f"{left_out} packages of the workspace are not tested by themselves",) if left_out > 0 else (),
    )


def _needs(manifest: Mapping[str, Any]) -> bool:
    """Tell whether there is anything to be installed, or linked."""
    return any(manifest.get(name) for name in ("dependencies", "devDependencies", "optionalDependencies", "workspaces"))


def _package(files: Listing, manifest: Mapping[str, Any], packager: str, folder: str) -> Project:
    scripts = {name: text for name, text in table(manifest.get("scripts")).items() if isinstance(text, str)}
    runners = {name: _runner(text) for name, text in scripts.items()}
    gates = tuple(_gates(files, scripts, runners, packager, folder))
    return Project(gates=gates, tools=dict(_tools(gates, scripts, packager)), scripts=runners)


def _gates(
    files: Listing, scripts: Mapping[str, str], runners: Mapping[str, Runner], packager: str, folder: str
) -> Iterator[Gate]:
    for kind, names in SCRIPTS.items():
        name = next((name for name in names if name in scripts), None)
        command = f"{packager} run {name}"
        if name is None:
            if kind == "typecheck" and files.has("tsconfig.json"):
                yield Gate(kind=kind, command="npx --no-install tsc --noEmit", runner="findings", folder=folder)
        elif kind != "test" or _has_tests(files, scripts[name], runners[name]):
            yield Gate(kind=kind, command=command, runner=runner_of(kind, command, runners), folder=folder)


def _has_tests(files: Listing, script: str, runner: Runner) -> bool:
    tells_by_itself = runner in {"exit", "node"}
    return NO_TEST not in script and (tells_by_itself or any(_TEST_FILE.search(path) for path in files.paths))


def _tools(gates: tuple[Gate, ...], scripts: Mapping[str, str], packager: str) -> Iterator[tuple[str, str]]:
    """Yield for each gate the program that its script begins with."""
    for gate in gates:
        words = program(scripts.get(gate.command.rpartition(" ")[2], ""))
        yield gate.name, words[0] if words else "tsc" if "tsc" in gate.command else packager


def _runner(script: str) -> Runner:
    """Return whose report a script leaves; of the others only those can be asked for one that take it from outside."""
    runner = runner_of("test", script, {})
    return runner if runner in ASKED_FROM_OUTSIDE else "exit"


def _members(files: Listing, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the folders of a workspace's packages."""
    named = manifest.get("workspaces")
    globs = texts(named) or texts(table(named).get("packages")) or _pnpm(files)
    kept = [str(PurePosixPath(each)) for each in globs if not each.startswith("!")]
    left_out = [str(PurePosixPath(each[1:])) for each in globs if each.startswith("!")]
    folders = [folder for folder in files.folders_of("package.json") if folder != "."]
    return tuple(folder for folder in folders if _any(kept, folder) and not _any(left_out, folder))


def _any(globs: Sequence[str], folder: str) -> bool:
    return any(matches(glob, folder) and ("**" in glob or glob.count("/") == folder.count("/")) for glob in globs)


def _pnpm(files: Listing) -> tuple[str, ...]:
    try:
        return texts(table(yaml.safe_load(files.text("pnpm-workspace.yaml"))).get("packages"))
    except (yaml.YAMLError, RecursionError, ValueError):
        return ()
