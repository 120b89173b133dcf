"""Fit detected gates to the project's own checks: use its command, or only warn if it has none of that kind."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.proof.gates import Gate, GateKind
from scaffold.policy.path.globs import matches
from scaffold.verify.gates.projects.own_commands import OwnCommand, program_key
from scaffold.verify.gates.projects.project import Project
from scaffold.verify.gates.projects.project_files import ProjectFiles
from scaffold.verify.gates.projects.recipe_checks import (
    CHECK_KINDS,
    CHECK_PROGRAMS,
    NEVER_FAILING,
    check_mode,
    judged_kind,
)
from scaffold.verify.paths.conventions import is_test

TOOLS: Mapping[str, GateKind] = {
    **dict.fromkeys(("ruff", "flake8"), "lint"),
    **dict.fromkeys(("mypy", "pyright", "stubtest"), "typecheck"),
}
"""Tools whose own command becomes a gate, the preferred ones of a kind first."""
DEFAULTS = {"ruff": "ruff check .", "flake8": "flake8", "pyright": "pyright"}
TEST_PROGRAMS = ("pytest", "py.test", "unittest")
ABOUT_OUTPUT = frozenset({
    *("--fix", "--unsafe-fixes", "--diff", "--show-fixes", "--statistics", "--quiet", "-q", "--no-cache", "--pretty"),
    *("--install-types", "--non-interactive"),
    *("--verbose", "-v", "-vv", "--show-source", "--count", "--color", "--no-color-output", "--no-error-summary"),
    *("--outputjson", "--stats", "--benchmark", "--tee", "--exit-non-zero-on-fix"),
})  # fmt: skip
OUTPUT_VALUES = frozenset({
    *("--output-format", "--format", "--output-file", "-o", "--junit-xml", "--html-report", "--txt-report"),
    *("--cobertura-xml-report", "--any-exprs-report", "--linecount-report", "--cache-dir", "--python-executable"),
})  # fmt: skip
"""Options with a value about where and how findings are printed, which Scaffold decides."""
TEST_VALUES = frozenset({"-m", "-k", "--ignore", "--ignore-glob", "--deselect", "--import-mode", "-c"})
TEST_FLAGS = frozenset({"--doctest-modules", "--strict-markers", "--strict-config", "--pyargs"})
"""Options of pytest that decide which tests run and how; others are about output, coverage and speed."""


class Fitted(Struct, frozen=True):
    """A gate, and the command of the project that it follows; None if it was detected from configuration alone."""

    gate: Gate
    own: OwnCommand | None = None


def fit_gates(project: Project, commands: Sequence[OwnCommand], files: ProjectFiles) -> Project:
    """Return the project with its gates fitted to the `commands` that its own files run."""
    # Without any program of checks, a project's files do not tell what it checks.
    own = [command for command in commands if program_key(command.words) in CHECK_PROGRAMS]
    if not own:
        return project
    fitted = [_fit_gate(gate, own, files) for gate in project.gates]
    fitted += _added_gates(project, own, files)
    fitted += _other_checks([each.gate for each in fitted], own, files)
    followed = {each.gate.name: each.own for each in fitted if each.own is not None}
    tools = {each.gate.name: _gate_words(each.gate)[0] for each in fitted if each.own and each.gate.kind != "test"}
    return structs.replace(
        project,
        gates=tuple(each.gate for each in fitted),
        tools={**project.tools, **tools},
        sources={**project.sources, **{name: command.source for name, command in followed.items()}},
        reasons={**project.reasons, **{name: command.reason(files) for name, command in followed.items()}},
    )


def _fit_gate(gate: Gate, own: Sequence[OwnCommand], files: ProjectFiles) -> Fitted:
    """Return a detected gate with the project's own command; a gate that the project never runs only warns."""
    if gate.kind == "test":
        return _fitted_tests(gate, own, files)
    key = program_key(_gate_words(gate))
    if gate.runner != "findings" or gate.command.split()[0] in {"npm", "pnpm", "yarn", "bun"}:
        return Fitted(gate)  # a script of the project, or a build, which tests need anyway
    running = [command for command in own if program_key(command.words) == key and _can_fail(command)]
    if key not in TOOLS and running:
        return Fitted(gate, running[0])
    others = [each for each in own if TOOLS.get(program_key(each.words)) == gate.kind and _can_fail(each)]
    if not running and not others:
        return Fitted(structs.replace(gate, advisory=True))
    return _best_command(gate.kind, running or others, files) or Fitted(gate, running[0] if running else None)


def _added_gates(project: Project, own: Sequence[OwnCommand], files: ProjectFiles) -> Iterator[Fitted]:
    known = {gate.kind for gate in project.gates}
    for kind in ("lint", "typecheck"):
        running = [each for each in own if TOOLS.get(program_key(each.words)) == kind and _can_fail(each)]
        if kind not in known and running and (found := _best_command(kind, running, files)):
            yield found


def _other_checks(gates: Sequence[Gate], own: Sequence[OwnCommand], files: ProjectFiles) -> Iterator[Fitted]:
    """Yield a gate for each further program that checks and that the project runs by a plain command."""
    known = {program_key(shlex.split(gate.command)) for gate in gates}
    for command in own:
        key, kind = program_key(command.words), judged_kind(command.words)
        if key in known or kind not in CHECK_KINDS or CHECK_PROGRAMS[key].home == "node" or not command.exact:
            continue
        if words := check_mode(tuple(_without_output_options(command.words, files) or ())):
            known.add(key)
            yield Fitted(Gate(kind=kind, command=shlex.join(words), runner="findings", part=key), command)


def _best_command(kind: GateKind, running: Sequence[OwnCommand], files: ProjectFiles) -> Fitted | None:
    order = list(TOOLS)
    ranked = sorted(running, key=lambda each: order.index(program_key(each.words)))
    plain = [
        (words, each)
        for each in ranked
        if each.exact
        and program_key(each.words) == program_key(ranked[0].words)
        and (words := _without_output_options(each.words, files))
    ]
    covered = max(plain, key=lambda each: _count_covered(each[0], files), default=None)
    # Beside a command that is not plain, commands for some tests alone are not the whole check.
    if covered and (_count_covered(covered[0], files) or all(each.exact for each in running)):
        return Fitted(Gate(kind=kind, command=shlex.join(covered[0]), runner="findings"), covered[1])
    for command in ranked:
        if default := DEFAULTS.get(program_key(command.words)):
            return Fitted(Gate(kind=kind, command=default, runner="findings"), command)
    return None


def _count_covered(words: Sequence[str], files: ProjectFiles) -> int:
    """Return the number of modules below the paths of a command; all modules if it names no path."""
    modules = [path for path in files.paths if path.endswith((".py", ".pyi")) and not is_test(path)]
    paths = [word.removeprefix("./").rstrip("/") for word in words[1:] if not word.startswith("-")]
    named = [path for path in paths if path != "." and is_named(path, files)]
    if not named:
        return len(modules)
    return sum(any(each == path or each.startswith(f"{path}/") for path in named) for each in modules)


def _can_fail(command: OwnCommand) -> bool:
    return NEVER_FAILING.isdisjoint(command.words)


def _without_output_options(words: Sequence[str], files: ProjectFiles) -> list[str] | None:
    """Return the words without options about the output; None if a path among them does not exist."""
    kept, rest = [words[0]], list(words[1:])
    while rest:
        word = rest.pop(0)
        name, given, _ = word.partition("=")
        if name in OUTPUT_VALUES:
            rest = rest if given else rest[1:]
        elif name not in ABOUT_OUTPUT:
            kept.append(word)
    return (
        kept
        if all(is_named(word, files) for word in kept[1:] if "/" in word or word.endswith((".py", ".pyi")))
        else None
    )


def _gate_words(gate: Gate) -> list[str]:
    return [word for word in shlex.split(gate.command) if word not in {"npx", "--no-install"}]


def _fitted_tests(gate: Gate, own: Sequence[OwnCommand], files: ProjectFiles) -> Fitted:
    """Return the test gate with the project's runner, and with its selection if all its commands agree on it."""
    if gate.runner not in {"pytest", "unittest"}:
        return Fitted(gate)
    pytest = [each for each in own if program_key(each.words) in {"pytest", "py.test"}]
    unittest = [each for each in own if program_key(each.words) == "unittest"]
    if pytest and gate.runner == "pytest":
        chosen = {tuple(_selecting_arguments(each.words, files)) for each in pytest if each.exact}
        selection = next(iter(chosen)) if len(chosen) == 1 and all(each.exact for each in pytest) else ()
        command = shlex.join(("python3", "-m", "pytest", "-q", *selection))
        alike = [each for each in pytest if tuple(_selecting_arguments(each.words, files)) == selection] or pytest
        plainest = min(alike, key=lambda each: (each.source != alike[0].source, len(each.words)))
        return Fitted(structs.replace(gate, command=command), plainest)
    plain = next((each for each in unittest if each.exact), None)
    if plain is not None and not pytest:
        words = [word for word in plain.words if word not in ABOUT_OUTPUT]
        command = shlex.join(("python3", "-m", *words))
        return Fitted(structs.replace(gate, command=command, runner="unittest"), plain)
    return Fitted(gate)


def _selecting_arguments(words: Sequence[str], files: ProjectFiles) -> Iterator[str]:
    """Yield the arguments that select tests, without options about output, coverage and speed."""
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        name, given, _ = word.partition("=")
        if name in TEST_VALUES:
            yield word
            yield from () if given else rest[:1]
            rest = rest if given else rest[1:]
        elif word in TEST_FLAGS or (not word.startswith("-") and is_named(word, files)):
            yield word


def is_named(word: str, files: ProjectFiles) -> bool:
    """Return True if a word of a command is an option, the top, or a path or glob of the repository."""
    path = word.partition("::")[0].removeprefix("./").rstrip("/")
    if word.startswith("-") or path in {"", "."} or path in files.paths:
        return True
    if any(each.startswith(f"{path}/") for each in files.paths):
        return True
    return any(sign in path for sign in "*?[") and any(matches(path, each) for each in files.paths)
