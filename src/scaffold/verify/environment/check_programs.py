"""Look up what the commands of a contract start, where they will run, before anything is paid for."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from scaffold.core.proof.contract import Contract, ExitCode
from scaffold.core.proof.not_ready import MissingProgram
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.policy.secret.home import SHOW, hidden_path
from scaffold.policy.shell.parse.command_parser import precheck_problem
from scaffold.policy.shell.parse.tree_sitter_parser import parse_with_tree_sitter
from scaffold.policy.shell.parsed_command import ParsedCommand, SimpleCommand, Word
from scaffold.policy.shell.reading.nested_commands import limited_command
from scaffold.policy.shell.wrappers import inner_commands, module_files, program_name
from scaffold.verify.contract.check_runs import COMMAND_NOT_EXECUTABLE, COMMAND_NOT_FOUND, Tree
from scaffold.verify.environment.dependencies import selects_dependencies
from scaffold.verify.environment.import_proof import TIMEOUT_S, probe_imports
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
    for check in contract.commands if contract else ():
        expects_none = check.expect in {ExitCode(COMMAND_NOT_FOUND), ExitCode(COMMAND_NOT_EXECUTABLE)}
        if not check.required or expects_none:
            continue
        for needed in needed_programs(check.command, tree):
            if found := await _missing(needed, tree, scope):
                return found
    return None


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


async def _missing(needed: Needed, tree: Tree, scope: WorkScope) -> MissingProgram | None:
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
        if scope.may_install:
            return None
        return MissingProgram(program, where, f"Install `{program}` for checks, or change the check")
    if found is None or not needed.module:
        return None
    return await _missing_module(needed, found, tree, scope)


async def _missing_module(needed: Needed, python: str, tree: Tree, scope: WorkScope) -> MissingProgram | None:
    module, top = needed.module, tree.git.cwd
    first = module.partition(".")[0]
    runner = detect_runner("test", f"python -m {module}", {}) != "exit"
    if scope.may_install or (not runner and scope.may_make(module)):
        return None
    if any((top / folder / name).exists() for folder in SOURCE_FOLDERS for name in (first, f"{first}.py")):
        return None
    places = await probe_imports(python, tree, (module,))
    if not isinstance(places, dict) or places.get(module) != ():
        return None
    fix = f"Install `{module}` for that Python, or change the check"
    return MissingProgram(f"{needed.program} -m {module}", f"{python}", fix)


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
