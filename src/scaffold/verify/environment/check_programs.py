"""Look up what checks and gates start, where they will run, before anything is paid for.

What their scripts, makefiles and interpreters start shows when they run; it is looked up, too, before it counts.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.printable_text import without_colors
from scaffold.core.proof.contract import Check, CheckResult, Contract, ExitCode
from scaffold.core.proof.gates import GateRun
from scaffold.core.proof.not_ready import MissingProgram
from scaffold.git.client.command_line import Git
from scaffold.host.child_environment import PYTHON_ALIAS
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.policy.secret.home import SHOW, hidden_path
from scaffold.policy.shell.parse.command_parser import precheck_problem
from scaffold.policy.shell.parse.tree_sitter_parser import parse_with_tree_sitter
from scaffold.policy.shell.parsed_command import ParsedCommand, SimpleCommand, Word
from scaffold.policy.shell.reading.nested_commands import limited_command
from scaffold.policy.shell.wrappers import inner_commands, launched_program, module_files, program_name
from scaffold.verify.contract.check_runs import NOT_STARTED_CODES, Tree
from scaffold.verify.environment.dependencies import read_text, selects_dependencies
from scaffold.verify.environment.import_proof import TIMEOUT_S, interpreters, probe_imports
from scaffold.verify.gates.projects.project_files import MANIFESTS
from scaffold.verify.gates.runner_detection import PYTHON_PROGRAM, detect_runner
from scaffold.verify.paths.declared_paths import covers

SHELL_LOOKUP = 'for each; do command -v -- "$each" >/dev/null || printf "%s\\n" "$each"; done'
"""Prints the names that are no programs, builtins or reserved words."""
CHANGES_LOOKUP = frozenset({".", "source", "eval", "alias", "hash", "enable", "builtin", "trap"})
"""Builtins after which a name may mean something else."""
PASSES_ON = frozenset({"env", "exec", "nohup", "time"})
"""Programs that start their arguments as a command, where they run themselves."""
MAX_DEPTH = 3
SOURCE_FOLDERS = ("", "src/")
NOT_STARTED = (
    r"(?:^|: )([^\s:]+): (?:(?:command )?not found|cannot execute: required file not found)$",
    r"[Cc]ommand not found: (\S+)$",
    r"([^\s:]+): bad interpreter: ",
    r"^(?:g?make(?:\[\d+\])?|\S*env|xargs): ['‘]?([^\s'‘’:]+)['’]?: No such file or directory$",
    r"failed to run command ['‘]([^'’]+)['’]: No such file",
    r"Exception running subprocess \[Errno 2\] No such file or directory: '([^']+)'$",
)
"""How shells, make, env and wrappers name what they cannot start; what they name is looked up before it counts."""
_NOT_STARTED = re.compile("|".join(NOT_STARTED), re.MULTILINE)
_NOT_STARTED_BELOW = re.compile(r"\b(?:Error|code|status) 12[67]\b|Exception running subprocess \[Errno 2\]")
"""How make, tox and others report that a command of theirs was not started."""
NOT_LAUNCHED = (
    r"(?:not (?:be )?found|Failed to spawn|npm (?:error|ERR!))[^\n]*(?<![\w-]){0}(?![\w-])"
    r"|(?<![\w-]){0}\W[^\n]*not (?:be )?found"
)
"""How launchers name the program of their command, between the braces, that they cannot start."""
NOT_EXECUTABLE = 126
_NOT_ALLOWED = re.compile(r"(?:^|: )([^\s:]+): Permission denied$", re.MULTILINE)
_NO_MODULE = re.compile(r"^(\S*python[\d.]*): No module named '?([\w.]+?)'?(?:\.__main__)?$", re.MULTILINE)
_NO_IMPORT = re.compile(
    r"^(?:(?:E +)?ModuleNotFoundError|\S*python[\d.]*): No module named '?([\w.]+?)'?(?:\.__main__)?$", re.MULTILINE
)


class Needed(Struct, frozen=True):
    """A program that a command cannot do without, and the module that it is to run."""

    program: str
    module: str = ""


class WorkScope(Struct, frozen=True):
    """What the work may bring: a program that is still to be made is not missing."""

    files: tuple[str, ...]
    """The declared files of the action; empty for any."""
    installs: bool
    """Whether dependencies that the work adds are installed for its checks."""

    @property
    def may_install(self) -> bool:
        """Whether the work may add a dependency, and with it a program."""
        declared = (any(covers(each, name) for name in MANIFESTS) or selects_dependencies(each) for each in self.files)
        return self.installs and (not self.files or any(declared))

    def may_make(self, module: str) -> bool:
        """Return whether a file of the work may be this Python module."""
        first = module.partition(".")[0]
        paths = [f"{folder}{path}" for folder in SOURCE_FOLDERS for path in module_files(module)]
        return not self.files or any(
            any(covers(entry, path) for path in paths)
            or any(PurePosixPath(part).stem == first for part in entry.split("/"))
            for entry in self.files
        )


async def missing_program(contract: Contract | None, tree: Tree, scope: WorkScope) -> MissingProgram | None:
    """Return the first program, or module of Python, that a required check needs and that cannot run in the tree.

    A command whose parts depend on each other in ways that are not certain is left to its run.
    """
    for check in _needing_programs(contract):
        for needed in needed_programs(check.command, tree):
            if found := await _missing(needed, tree, scope):
                return found
    return None


async def missing_programs(commands: Sequence[str], git: Git, environ: Mapping[str, str]) -> list[str]:
    """Return the programs that the commands certainly start in a checkout, and that are not there, unconfined."""
    tree = Tree(git=git, base=Commit(""), commit=Commit(""), environ=environ)
    found = [await _missing(Needed(each.program), tree) for text in commands for each in needed_programs(text, tree)]
    return list(dict.fromkeys(each.program for each in found if each))


async def program_not_started(
    contract: Contract | None, ran: Mapping[str, GateRun | CheckResult], tree: Tree, *, imports: bool = False
) -> MissingProgram | None:
    """Return the first program that required checks of the tree could not start, by how they ended (`ran`).

    With `imports`, the first module that they could not import.
    """
    find = _missing_import if imports else missing_by_output
    for check in _needing_programs(contract):
        ended = ran.get(check.command)
        if ended and (found := await find(ended.exit_code, ended.detail, tree)):
            return found
        if ended and not imports and (found := await _missing_below_launcher(check.command, ended, tree)):
            return found
    return None


async def _missing_below_launcher(command: str, ended: GateRun | CheckResult, tree: Tree) -> MissingProgram | None:
    """Return the missing program that a launcher in the command (`uv run`, `npx`) says it did not find."""
    parsed = None if precheck_problem(command) else parse_with_tree_sitter(command)
    for simple in parsed.commands if isinstance(parsed, ParsedCommand) and ended.exit_code else ():
        name = launched_program(simple.words)
        said = name and re.search(NOT_LAUNCHED.format(re.escape(name)), without_colors(ended.detail), re.MULTILINE)
        if said and (found := await _missing(Needed(name), tree)):
            return found
    return None


async def _missing_import(exit_code: int | None, output: str, tree: Tree) -> MissingProgram | None:
    """Return the module of Python that a failed command did not find, and that no Python on PATH finds either."""
    names = _NO_IMPORT.findall(without_colors(output))
    program = next(iter(interpreters(tree.environ)), "")
    missing = await _missing_module(names[-1], program, tree) if names and exit_code and program else None
    return missing and structs.replace(missing, program=f"import {names[-1]}")


async def missing_by_output(exit_code: int | None, output: str, tree: Tree) -> MissingProgram | None:
    """Return the program, or module of Python, that a failed command of the tree did not find and that is missing."""
    text, top = without_colors(output), tree.git.cwd
    names = [next(filter(None, found.groups())) for found in _NOT_STARTED.finditer(text)]
    modules = _NO_MODULE.findall(text)
    locked = [name for name in _NOT_ALLOWED.findall(text) if exit_code == NOT_EXECUTABLE and (top / name).is_file()]
    if locked and not os.access(top / locked[-1], os.X_OK):
        return MissingProgram(locked[-1], "a checkout, where it is not executable", "Commit it as executable")
    if names and (exit_code in NOT_STARTED_CODES or _NOT_STARTED_BELOW.search(text)):
        # The last one ended it.
        script = top / names[-1]
        if "/" not in names[-1] or not script.is_relative_to(top):
            return await _missing(Needed(names[-1]), tree)
        # It is there, so what is missing is what its first line names.
        line = read_text(script).partition("\n")[0]
        words = line.removeprefix("#!").split()
        return await _missing(Needed(words[0]), tree) if line.startswith("#!") and words else None
    if not modules or not exit_code:
        return None
    # A launcher may have made its Python in a checkout that is gone by now.
    program = shutil.which(modules[-1][0], path=tree.environ.get("PATH")) or next(iter(interpreters(tree.environ)), "")
    return await _missing(Needed(program, modules[-1][1]), tree) if program else None


def is_named_in(missing: MissingProgram, paths: Sequence[str]) -> bool:
    """Return whether one of the paths may be the missing program, by its name: the work's own."""
    name = PurePosixPath(missing.program.split()[-1]).stem
    return any(PurePosixPath(part).stem == name for path in paths for part in path.split("/"))


async def names_program(missing: MissingProgram, contract: Contract, tree: Tree, changed: Sequence[str]) -> bool:
    """Return whether the contract, or a file of the base that is not `changed`, names the missing program."""
    name = missing.program.split()[-1]
    if any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", check.command) for check in contract.commands):
        return True
    return not {*await _files_naming(name, tree)}.issubset(changed)


async def _files_naming(name: str, tree: Tree) -> list[str]:
    found = await tree.git("grep", "-l", "-z", "-F", "-w", "-e", name, tree.base, ok=frozenset({0, 1}))
    return [record.partition(":")[2] for record in found.records]


async def work_may_bring(missing: MissingProgram, tree: Tree, scope: WorkScope) -> bool:
    """Return whether a file of the work may be the program, install it, or start another one instead."""
    # Other entries than files cover any program.
    files = [each for each in scope.files if PurePosixPath(each).suffix or (tree.git.cwd / each).is_file()]
    if not files or scope.may_install or len(files) < len(scope.files) or any("*" in each for each in files):
        return True
    if is_named_in(missing, files):
        return True
    paths = await _files_naming(missing.program.split()[-1], tree)
    return any(covers(entry, path) for entry in files for path in paths)


def _needing_programs(contract: Contract | None) -> Iterator[Check]:
    for check in contract.commands if contract else ():
        if check.required and check.expect not in [ExitCode(code) for code in NOT_STARTED_CODES]:
            yield check


def needed_programs(command: str, tree: Tree, depth: int = 0) -> Iterator[Needed]:
    """Yield what a command certainly starts and cannot do without, in order."""
    parsed = None if precheck_problem(command) or depth > MAX_DEPTH else parse_with_tree_sitter(command)
    if not isinstance(parsed, ParsedCommand):
        return
    moved, top, folders = False, tree.git.cwd.resolve(), tree.environ.get("PATH", "").split(os.pathsep)
    writable = any(Path(each).resolve().is_relative_to(top) for each in folders)
    chains = list(_chains(parsed.commands))
    for chain in chains:
        for simple in chain:
            sets_path = any(name == "PATH" for name, _ in simple.assignments)
            if sets_path or any(word.text.startswith("PATH=") for word in simple.words):
                return
            # With an alternative, or if nothing asks how it ended, a part may be missing.
            certain = chain is chains[-1] and not any(each.link == "||" for each in chain)
            if not simple.words or not simple.words[0].literal:
                return
            name = simple.words[0].text
            if name in CHANGES_LOOKUP:
                return
            if certain:
                yield Needed(name, "" if moved else _python_module(simple.words))
                yield from _started_by(simple, tree, depth)
            # What ran before may have put the next program there.
            if writable and name != "cd":
                return
            moved = moved or name == "cd"


def _chains(commands: Sequence[SimpleCommand]) -> Iterator[list[SimpleCommand]]:
    chain: list[SimpleCommand] = []
    for each in commands:
        if each.link == ";" and chain:
            yield chain
            chain = []
        chain.append(each)
    yield chain


def _started_by(simple: SimpleCommand, tree: Tree, depth: int) -> Iterator[Needed]:
    if limited := limited_command(simple.words):
        yield Needed(limited[0].text, _python_module(limited))
        return
    inner = list(inner_commands(simple))
    for each in inner:
        if isinstance(each, str):
            yield from needed_programs(each, tree, depth + 1)
        elif len(inner) == 1 and program_name(simple.words[0]) in PASSES_ON and each.words[0].literal:
            yield Needed(each.words[0].text, _python_module(each.words))


def _python_module(words: Sequence[Word]) -> str:
    texts = [word.text for word in words]
    at = texts.index("-m") if "-m" in texts[:-1] else 0
    is_python = PYTHON_PROGRAM.fullmatch(program_name(words[0])) is not None
    return texts[at + 1] if at and is_python and all(each.startswith("-") for each in texts[1:at]) else ""


async def _missing(needed: Needed, tree: Tree, scope: WorkScope | None = None) -> MissingProgram | None:
    program, environ = needed.program, tree.environ
    path = environ.get("PATH", os.defpath)
    if "/" in program:
        # A relative path is part of the tree: if it is not there yet, the work is to make it.
        if not program.startswith("/") or Path(program).is_relative_to(tree.git.cwd):
            return None
        found = program if os.access(program, os.X_OK) else None
    else:
        found = shutil.which(program, path=path)
    where = f"{'the sandbox of checks' if tree.sandbox else 'the environment of checks'} (PATH={path})"
    if found and tree.sandbox and (hidden := hidden_path(found, tree.sandbox.confinement)):
        return MissingProgram(program, where, SHOW.format(hidden))
    if found is None and ("/" in program or not await _shell_knows(program, tree)):
        if scope and scope.may_install:
            return None
        return MissingProgram(program, where, f"Install `{program}` for checks, or change the check")
    if found is None or not needed.module or _may_come(needed.module, scope):
        return None
    missing = await _missing_module(needed.module, found, tree)
    return missing and structs.replace(missing, program=f"{program} -m {needed.module}")


def _may_come(module: str, scope: WorkScope | None) -> bool:
    if scope and scope.may_install:
        return True
    # Without a scope, only a runner is certainly none of the work's own modules.
    runner = detect_runner("test", f"python -m {module}", {}) != "exit"
    return not runner and (scope is None or scope.may_make(module))


async def _missing_module(module: str, python: str, tree: Tree) -> MissingProgram | None:
    top, first = tree.git.cwd, module.partition(".")[0]
    if any((top / folder / name).exists() for folder in SOURCE_FOLDERS for name in (first, f"{first}.py")):
        return None
    if Path(python).parent == PYTHON_ALIAS:
        python = interpreters(tree.environ)[0]
    places = await probe_imports(python, tree, (module,))
    if not isinstance(places, dict) or places.get(module) != ():
        return None
    fix = f"Install `{module}` for that Python, or change the check"
    return MissingProgram(module, python, fix)


async def _shell_knows(name: str, tree: Tree) -> bool:
    # It may be a builtin or a reserved word.
    finished = await run_command(
        ["/bin/sh", "-c", SHELL_LOOKUP, "sh", name],
        cwd=tree.git.cwd,
        env=tree.environ,
        timeout_s=TIMEOUT_S,
        containment=Containment(sandbox=tree.sandbox),
    )
    return finished.exit_code != 0 or not finished.stdout.strip()
