"""Detect the gates of a Node project from the scripts of package.json."""

import json
import re
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from msgspec import structs

from scaffold.core.printable_text import count_of
from scaffold.core.proof.gates import Gate, GateKind, RunnerKind
from scaffold.policy.path.globs import matches
from scaffold.verify.gates.projects.own_commands import own_commands, program_key, shell_commands
from scaffold.verify.gates.projects.project import Project, Reason
from scaffold.verify.gates.projects.project_files import ProjectFiles, as_table, as_texts
from scaffold.verify.gates.projects.recipe_checks import (
    CHECK_KINDS,
    CHECK_PROGRAMS,
    NEVER_FAILING,
    RecipeCheck,
    Recipes,
    Words,
    check_mode,
    judged_kind,
    recipe_checks,
    resolved,
)
from scaffold.verify.gates.runner_detection import (
    MAX_COMMAND_CHARS,
    PACKAGE_MANAGERS,
    detect_runner,
    program_words,
    script_name,
)

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
SCRIPT_RUNNERS = frozenset({"run-s", "run-p", "npm-run-all", "npm-run-all2", "concurrently"})
"""Programs that start scripts by their names or patterns."""
ELSEWHERE = frozenset(
    {"-r", "--recursive", "-F", "--filter", "-w", "--workspace", "--workspaces", "--prefix", "-C", "--cwd"}
)
"""Options with which a package manager starts the scripts of other packages."""
WRAPPERS = frozenset({"c8", "nyc", "cross-env"})
"""Programs that run another one as it would run without them."""

MAX_SCRIPTS = 1_000
_TEST_FILE = re.compile(r"(\.|(^|/))(test|spec)\.[cm]?[jt]sx?$|(^|/)__tests__/")
_NODES_TEST_FILE = re.compile(r"(^|/)(test/.+|(test|test-[^/]*|[^/]*[._-]test))\.[cm]?[jt]s$")
"""The files that Node's runner takes if it is given none."""
_LIFECYCLE = re.compile(r"(pre|post)(?P<script>.+)|prepare|version")
"""Scripts that others start by their names."""


def read_node(files: ProjectFiles) -> Project:
    """Return the project in a folder with a package.json; of a workspace, its packages' checks where it has none."""
    manifest = files.json(MANIFEST)
    named = str(manifest.get("packageManager", "")).partition("@")[0]  # such as `pnpm@9.1.0`
    lock, notes = _lock_file(files, named)
    packager = LOCK_FILES[lock] if lock else named if named in INSTALL_COMMANDS else "npm"
    top = _package_project(files, manifest, packager, "")
    lacking = SCRIPT_NAMES.keys() - {gate.kind for gate in top.gates}
    members = _workspace_folders(files, manifest) if lacking else ()
    parts = [
        _package_project(files.at(folder), files.at(folder).json(MANIFEST), packager, folder)
        for folder in members[:MAX_PACKAGES]
    ]
    # Only their own scripts: what a compiler says of one package may depend on builds of others.
    own = (gate for part in parts for gate in part.gates if gate.command.startswith(f"{packager} run "))
    added = [gate for gate in own if gate.kind in lacking]
    if (left_out := len(members) - MAX_PACKAGES) > 0:
        notes = (*notes, f"no checks of {count_of(left_out, 'more workspace package')}")
    needed = lock is not None or any(
        manifest.get(name) for name in ("dependencies", "devDependencies", "optionalDependencies", "workspaces")
    )
    setup = (INSTALL_COMMANDS[packager] if lock else f"{packager} install",) if needed else ()
    requires = Reason(MANIFEST, "requires packages", files.line(MANIFEST, "ependencies"))
    locked = Reason(lock, f"is the lock file of {packager}") if lock else requires
    reasons = {gate.name: part.reasons[gate.name] for part in parts for gate in part.gates}
    return Project(
        gates=(*top.gates, *added),
        setup=setup,
        tools={**top.tools, **{name: tool for part in parts for name, tool in part.tools.items()}},
        scripts=top.scripts,
        reasons={**reasons, **top.reasons, **dict.fromkeys(setup, locked)},
        notes=notes,
    )


def _lock_file(files: ProjectFiles, named: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the lock file to install from, and a note if there are several package managers to choose from.

    The one of the manager that package.json names comes first, then that of an installed one.
    """
    locks = {LOCK_FILES[name]: name for name in reversed(LOCK_FILES) if files.has(name)}
    if len(locks) < 2:
        return next(iter(locks.values()), None), ()
    installed = [each for each in LOCK_FILES.values() if each in locks and shutil.which(each)]
    chosen = named if named in locks else next(iter(installed), next(reversed(locks)))
    other = ", ".join(name for packager, name in locks.items() if packager != chosen)
    why = f"{MANIFEST} names {chosen}" if chosen == named else f"{chosen} is {'' if installed else 'not '}installed"
    return locks[chosen], (f"set-up uses {locks[chosen]} and not {other}: {why}",)


def _package_project(files: ProjectFiles, manifest: Mapping[str, Any], packager: str, folder: str) -> Project:
    listed = islice(as_table(manifest.get("scripts")).items(), MAX_SCRIPTS)
    scripts = {name: text for name, text in listed if isinstance(text, str) and len(text) <= MAX_COMMAND_CHARS}
    runners = {name: _script_runner(text, scripts) for name, text in scripts.items()}
    parsed = {
        name: [_program_words(each.words, scripts) for each in shell_commands(text, files, MANIFEST)]
        for name, text in scripts.items()
    }
    recipes = resolved(parsed, lambda words: _started_scripts(words, scripts))
    gates = tuple(_package_gates(files, scripts, runners, recipes, packager))
    gates = tuple(structs.replace(gate, folder=folder) for gate in gates)
    reasons = {gate.name: _gate_reason(files, gate, scripts, folder) for gate in gates}
    tools = dict[str, str]()
    for gate in gates:
        words = shlex.split(gate.command)
        if words[0] == "npx":
            tools[gate.name] = words[2]
            continue
        # The program that the gate's script starts with.
        started = program_words(scripts[words[2]])
        tools[gate.name] = packager if not started or recipes.started(started) else started[0]
    return Project(gates=gates, tools=tools, scripts=runners, reasons=reasons)


def _gate_reason(files: ProjectFiles, gate: Gate, scripts: Mapping[str, str], folder: str) -> Reason:
    name = shlex.split(gate.command)[2] if gate.command.split()[0] != "npx" else gate.kind
    if name not in scripts:
        return Reason(f"{folder}/tsconfig.json" if folder else "tsconfig.json", "configures TypeScript")
    line = files.line(MANIFEST, f'"{name}"', ":", json.dumps(scripts[name])[1:20]) or files.line(MANIFEST, f'"{name}"')
    return Reason(f"{folder}/{MANIFEST}" if folder else MANIFEST, f"has the script `{scripts[name]}`", line)


def _package_gates(
    files: ProjectFiles, scripts: Mapping[str, str], runners: Mapping[str, RunnerKind], recipes: Recipes, packager: str
) -> Iterator[Gate]:
    own = [
        _program_words(each.words, scripts)
        for each in own_commands(files)
        if each.source != MANIFEST and NEVER_FAILING.isdisjoint(each.words)
    ]
    named = {kind: next((name for name in names if name in scripts), "") for kind, names in SCRIPT_NAMES.items()}
    exact = {named[kind]: kind for kind in CHECK_KINDS if named[kind]}
    left_out = {named["build"], *(name for name in scripts if _is_lifecycle(name, scripts))}
    checks = recipe_checks(recipes, exact, recipes.run_by(own), left_out)
    test = _test_script(recipes, checks)
    if test and _has_tests(files, scripts[test], runners[test], recipes.leaves(test)):
        command = f"{packager} run {test}"
        yield Gate(kind="test", command=command, runner=detect_runner("test", command, runners))
    if named["build"] and not recipes.is_endless(named["build"]):
        yield Gate(kind="build", command=f"{packager} run {named['build']}")
    for kind in ("lint", "typecheck"):
        of_kind = [each for each in checks if each.kind == kind]
        for each in of_kind:
            part = "" if each.name in exact else each.name
            yield Gate(
                kind=kind,
                command=f"{packager} run {each.name}",
                runner="findings",
                part=part,
                advisory=bool(part) and not each.is_run,
            )
        if not any(each.is_run or each.name in exact for each in of_kind) and (
            words := _checking_command(files, kind, recipes.leaves(named[kind]), recipes, own)
        ):
            yield Gate(kind=kind, command=shlex.join(("npx", "--no-install", *words)), runner="findings")


def _checking_command(
    files: ProjectFiles, kind: GateKind, leaves: Sequence[Words], recipes: Recipes, own: Sequence[Words]
) -> Words | None:
    """Return the command of a check that no script is: of a script that changes files, or of the compiler."""
    if leaves:
        return check_mode(leaves[0]) if len(leaves) == 1 else None
    if kind == "typecheck":
        every = [*(words for name in recipes.steps for words in recipes.leaves(name)), *own]
        words = next((each for each in every if program_key(each) == "tsc" and judged_kind(each)), ("tsc",))
        project = next((words[at : at + 2] for at, word in enumerate(words) if word in {"-p", "--project"}), ())
        if not project and not files.has("tsconfig.json"):
            return None
        # A build of several projects cannot be told to write nothing.
        return words if {"-b", "--build"}.intersection(words) else ("tsc", "--noEmit", *project)
    return None


def _test_script(recipes: Recipes, checks: Sequence[RecipeCheck]) -> str:
    """Return the script that runs the tests, and nothing that other gates check; empty without one."""
    only = {
        name: leaves
        for name in recipes.steps
        if (leaves := {*recipes.leaves(name)})
        and {judged_kind(words) for words in leaves} == {"test"}
        and not recipes.is_endless(name)
    }
    if "test" not in recipes.steps or recipes.is_endless("test"):
        return next((name for name in only if name.startswith("test")), "")
    others = set(recipes.leaves("test")).difference(*(each.leaves for each in checks if each.name != "test"))
    parts = recipes.run_by([("npm", "test")]) - {"test"}
    return next((name for name, leaves in only.items() if name in parts and leaves == others), "test")


def _started_scripts(words: Words, scripts: Collection[str]) -> tuple[str, ...]:
    """Return the scripts of the same package.json that a command starts, in order; none if it starts no such script."""
    program = PurePosixPath(words[0]).name if words else ""
    if program in SCRIPT_RUNNERS:
        patterns = [word.removeprefix("npm:") for word in words[1:MAX_PACKAGES] if not word.startswith("-")]
        return tuple(name for each in patterns for name in scripts if name == each or _matches_script(each, name))
    if program not in PACKAGE_MANAGERS or not ELSEWHERE.isdisjoint(word.partition("=")[0] for word in words):
        return ()
    rest = [word for word in words[1:] if not word.startswith("-")]
    rest = rest[1:] if rest[:1] in (["run"], ["run-script"]) else rest
    found = re.fullmatch(r"/\^([\w:-]*)(\.\*)?\$?/", rest[0]) if rest else None
    if found:  # pnpm's
        return tuple(name for name in scripts if name.startswith(found[1]) and (found[2] or name == found[1]))
    return (rest[0],) if rest and rest[0] in scripts else ()


def _matches_script(pattern: str, name: str) -> bool:
    """Return whether a pattern such as `lint:*` means a script: `*` is one part of its name, `**` are several."""
    start, sign, end = pattern.partition("*")
    inner = name[len(start) : len(name) - len(end)] if sign else ""
    is_inside = bool(inner) and name.startswith(start) and name.endswith(end.lstrip("*"))
    return is_inside and (end.startswith("*") or ":" not in inner)


def _has_tests(files: ProjectFiles, script: str, runner: RunnerKind, leaves: Sequence[Words]) -> bool:
    # The script that `npm init` creates for a project without tests.
    if "no test specified" in script:
        return False
    if leaves and all(program_key(words) == "node --test" and words[-1].startswith("-") for words in leaves):
        return any(_NODES_TEST_FILE.search(path) for path in files.paths)
    any_name = runner in {"exit", "mocha", "node"}  # the files of these runners' tests cannot be recognised by name
    return any_name or any(_TEST_FILE.search(path) for path in files.paths)


def _is_lifecycle(name: str, scripts: Mapping[str, str]) -> bool:
    found = _LIFECYCLE.fullmatch(name)
    return found is not None and (found["script"] is None or found["script"] in {*scripts, "publishOnly", "pack"})


def _program_words(words: Words, scripts: Mapping[str, str]) -> Words:
    """Return the words of a program that a package manager starts like a script; other words as they are."""
    is_started = words[0] in PACKAGE_MANAGERS and words[1:2] and words[1] not in scripts
    return words[1:] if is_started and CHECK_PROGRAMS.get(program_key(words[1:])) else words


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
