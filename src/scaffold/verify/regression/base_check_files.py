"""Rerun passing gates and checks with the base's settings, task files, check scripts, and what is not declared.

The mirror image of `unchanged_tests`: there stricter settings of the work are not held against its code; here laxer
ones, or a check that asks for less, do not speak for it. Files that a command executes differ from those it reads.

Which files a check reads is tried, not searched for in texts: a pattern, a variable or the mere existence of a file may
decide. It does if the check fails with the file as before the work, and passes although no program can be read.
"""

import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.contract import Check, CheckResult, Doubt, Verification
from scaffold.core.proof.gates import EXIT_OUTCOME, GateResult, GateRun
from scaffold.git import commits
from scaffold.git.checkouts import worktree
from scaffold.git.commits import PathChange
from scaffold.policy.shell.command_decision import visible_commands
from scaffold.verify.base_layout import base_layout_of
from scaffold.verify.contract.check_runs import Tree, restore_tracked_files, run_check
from scaffold.verify.contract.tamper_detection import runs_tests
from scaffold.verify.contract.vacuous_tests import pass_without_program
from scaffold.verify.gates.observed_run import gate_slot, run_gate
from scaffold.verify.gates.projects.own_commands import LAUNCHERS
from scaffold.verify.observation.observer import CheckObserver
from scaffold.verify.paths.attributes import CODE_SUFFIXES
from scaffold.verify.paths.check_inputs import (
    PACKAGE_MANAGERS,
    TASK_RUNNER_FILES,
    BaseLayout,
    checker_reason,
    is_config_file,
    launched_commands,
)
from scaffold.verify.paths.conventions import PROSE_SUFFIXES, is_test, is_test_file
from scaffold.verify.paths.declared_paths import (
    is_declared_by_name,
    is_declared_path,
    is_declared_specifically,
    is_specific,
)
from scaffold.verify.paths.manifest import LOCAL_PART, SCRIPTS_KEY, changed_check_settings, has_settings
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.regression.base_tests import UNCACHED, for_each
from scaffold.verify.regression.comparison import FAILING_OUTCOMES, new_failures
from scaffold.verify.regression.gate_results import gate_timeout_s
from scaffold.verify.regression.selection.test_selection import LANGUAGE_FAMILIES

TARGETING = frozenset({*TASK_RUNNER_FILES, *PACKAGE_MANAGERS})
"""Programs that run a named target of a file in the repository."""
STARTERS = frozenset(
    {*(words[0] for words in LAUNCHERS), *("env", "time", "timeout", "nice", "exec", "command")} - TARGETING
)
"""Programs that start the program after them."""
CHANGING = frozenset({"cd", "pushd"})
_INTERPRETER = re.compile(r"(python|pypy)[\d.]*|py|(ba|da|z|k)?sh|node|ruby|perl|source|\.")
_SHELL_TEXT = re.compile(r"-[A-Za-z]*c")
_TEXT = re.compile(r"-[A-Za-z]*[cep]|--eval|--print")
"""Options with which an interpreter runs a text instead of a file."""
MAX_NAMED = 3
TEST_ROUNDS = 2
"""How often a test has to fail with the former settings, because it may be flaky."""
BUILD_LIST = "go.mod"
"""It has no settings of tests and linters, and the work may need its new requirements to build."""
CleanTree = Callable[[Commit], Awaitable[Tree]]


class _BaseToWork(Struct, frozen=True, kw_only=True):
    """The difference between the base and the work."""

    request: ProofRequest
    paths: Sequence[PathChange]
    before: frozenset[str]
    """All paths of the base."""
    tree: Tree

    @property
    def is_particular(self) -> bool:
        """Whether the action declared more than file types."""
        return any(map(is_specific, self.request.files))

    @property
    def commands(self) -> Sequence[Check]:
        """The commands of the contract."""
        return self.request.contract.commands if self.request.contract else ()

    async def layout(self, commands: Sequence[str]) -> BaseLayout:
        """Return the layout of the base in which only these commands judge."""
        return await base_layout_of(self.request, self.tree.git, self.tree.base, self.before, judging=commands)

    async def parts(self, change: PathChange, asked: Collection[str]) -> tuple[str, ...]:
        """Return the changed settings of a manifest; none for other files."""
        if not has_settings(change.path):
            return ()
        git, tree = self.tree.git, self.tree
        before = None if change.kind == "A" else await commits.file_contents(git, tree.base, change.path)
        after = None if change.kind == "D" else await commits.file_contents(git, tree.commit, change.path)
        return changed_check_settings(change.path, before, after, asked=asked)


async def with_check_file_findings(
    request: ProofRequest, passed: Verification, tree: Tree, clean_tree: CleanTree
) -> Verification:
    """Return the verification with what gates and checks show with the base's version of the files that decide them.

    If anything ran, the work is checked out in `tree` afterwards, with nothing else but ignored files.
    """
    paths = await commits.path_changes(tree.git, tree.base, tree.commit)
    before = frozenset(await commits.listed_paths(tree.git, tree.base))
    change = _BaseToWork(request=request, paths=paths, before=before, tree=tree)
    gates = await _failing_gates(change, passed, clean_tree)
    shared = {each.gate.command for each in passed.gates if _counts_for_work(each) and not each.gate.folder}
    own = (each for each in change.commands if each.required and each.command not in shared)
    inputs = {check.command: await _executed_changes(change, check) for check in own}
    checks = await _failing_checks(change, change.commands, inputs, clean_tree)
    undeclared, without = await _without_undeclared(change, passed, clean_tree)
    whatever, alone = await _decided_without_program(change, passed, clean_tree)
    # What its agent asked for is no part of the task, but may be needed for it.
    refused = [each.path for each in undeclared if not is_declared_path(each.path, request.granted)]
    results = passed.results
    if whatever and without and refused:
        detail = (
            f"The checks pass {whatever}, because of files that the task does not declare: "
            f"{join_limited(refused, MAX_NAMED)}. With the files as before the work they fail. Restore them and do the "
            "task in the program; if they are part of it, ask for them."
        )
        results = (*results, CheckResult(name="checks", verdict="fail", detail=utf8_safe(detail)))
    # What a check executes is part of what decides without the program, too.
    checks += without if checks else alone or without
    doubts = [Doubt("settings_changed", utf8_safe("; ".join(gates)))] if gates else []
    doubts += [Doubt("checks_changed", utf8_safe("; ".join(checks)))] if checks else []
    return structs.replace(passed, results=results, doubts=(*passed.doubts, *doubts))


async def _failing_gates(change: _BaseToWork, passed: Verification, clean_tree: CleanTree) -> list[str]:
    """Return the doubts from gates that ran on the work with the base's settings; new settings count as gone."""
    known = {run.gate.name: run for run in change.request.baseline_runs}
    results = [each for each in passed.gates if each.gate.name in known and _counts_for_work(each)]
    settings = await _changed_settings_files(change, [each.gate.command for each in results]) if results else []
    if not settings:
        return []
    named = join_limited([each.path for each in settings], MAX_NAMED)
    found = list[str]()
    try:
        for result in results:
            names = join_limited(
                await _failures_with_base_settings(change, result, known[result.gate.name], settings, clean_tree),
                MAX_NAMED,
            )
            found += [f"{result.gate.name} fails with {named} as before the work: {names}"] if names else []
    finally:
        await worktree.restore(change.tree.git, change.tree.commit)
    return found


def _counts_for_work(result: GateResult) -> bool:
    return result.counts_for_work and not result.gate.advisory


async def _changed_settings_files(change: _BaseToWork, commands: Sequence[str]) -> list[PathChange]:
    """Return the changed files that gates read as their settings, or that say what their commands do.

    Tests run in their base version anyway.
    """
    layout = await change.layout(commands)

    async def is_setting(each: PathChange) -> bool:
        name = each.path.rpartition("/")[2].casefold()
        suffix = name.rpartition(".")[2]
        if is_config_file(each.path):
            return True
        if name != BUILD_LIST and any(map(_can_be_laxer, await change.parts(each, layout.command_words))):
            return True
        if layout.is_base_test(each.path) or each.kind == "A":
            return False
        is_data = suffix not in LANGUAGE_FAMILIES and suffix not in PROSE_SUFFIXES
        return checker_reason(each, layout) is not None or (is_data and layout.names(each.path))

    return [each for each in change.paths if await is_setting(each)]


def _can_be_laxer(part: str) -> bool:
    """Return True for a changed part of a manifest that can be laxer; dependencies are installed as the work has them.

    A new marker makes nothing pass, and tests that use it may not load without it.
    """
    return part != LOCAL_PART and not part.endswith(" markers")


async def _failures_with_base_settings(
    change: _BaseToWork, result: GateResult, before: GateRun, settings: Sequence[PathChange], clean_tree: CleanTree
) -> tuple[str, ...]:
    """Return the tests and findings that fail only with the base's settings, or the problem if the gate cannot run."""
    timeout_s = gate_timeout_s(result.gate, before, change.request.gate_timeout_s)
    found: tuple[str, ...] = ()
    for number in range(TEST_ROUNDS if result.gate.kind == "test" else 1):
        tree = await clean_tree(change.tree.commit)
        await _lay_base_files(tree, settings)
        async with gate_slot(change.request.slots, tree.during):
            run = await run_gate(result.gate, _without_caches(tree), environment="", timeout_s=timeout_s)
        names = _new_failures(before, run, result.tests)
        found = tuple(name for name in found if name in names) if number else names
        if not found:
            break
    return found


def _new_failures(before: GateRun, run: GateRun, known: Mapping[str, object]) -> tuple[str, ...]:
    """Return the new failures; `known` are the tests that do not simply pass with the work's own settings, either."""
    if run.problem:
        return (run.detail.partition("\n")[0] or run.problem,)
    failed = [name for name in new_failures(before, run) if run.outcomes.get(name) in FAILING_OUTCOMES]
    return tuple(f"exit code {run.exit_code}" if name == EXIT_OUTCOME else name for name in failed if name not in known)


async def _failing_checks(
    change: _BaseToWork, checks: Sequence[Check], inputs: Mapping[str, Sequence[PathChange]], clean_tree: CleanTree
) -> list[str]:
    found = list[str]()
    if not any(inputs.values()):
        return found
    try:
        tree = _without_caches(await clean_tree(change.tree.commit))
        # In order, because a check may need files of the previous one.
        for check in checks:
            files = inputs.get(check.command, ())
            await restore_tracked_files(tree)
            await _lay_base_files(tree, files)
            verdict = (await run_check(check, tree)).verdict
            # A timeout is about the machine: the work has already passed within it.
            if files and verdict in {"fail", "error", "vacuous"}:
                found.append(f"`{check.command}` fails with {_names_of(files)} as before the work")
    finally:
        await worktree.restore(change.tree.git, change.tree.commit)
    return found


async def _without_undeclared(
    change: _BaseToWork, passed: Verification, clean_tree: CleanTree
) -> tuple[Sequence[PathChange], list[str]]:
    """Return undeclared files that decide required checks or gates, and phrases about them.

    What code of the work is seen to read is part of the work, and new data of tests is for test runners.
    """
    files = [each for each in change.paths if change.is_particular and _is_undeclared(each, change.request.files)]
    green = {run.gate.name for run in change.request.baseline_runs if run.exit_code == 0 and run.gate.runner != "hooks"}
    gates = [each.gate for each in passed.gates if _counts_for_work(each) and each.gate.name in green]
    commands = {f"cd {shlex.quote(each.folder)} && {each.command}" if each.folder else each.command for each in gates}
    commands -= {each.command for each in change.commands}
    timeout_s = change.request.gate_timeout_s
    checks = (*change.commands, *(Check(command=each, timeout_s=timeout_s) for each in sorted(commands)))

    def fail_without(files: Sequence[PathChange]) -> Awaitable[list[str]]:
        others = [each for each in files if not is_test(each.path)]
        # Whole suites run for nothing where only documents changed.
        data = [each for each in others if each.path.rpartition(".")[2] not in PROSE_SUFFIXES]
        asked = {each.command: others if runs_tests(each.command) else files for each in checks if each.required}
        return _failing_checks(change, checks, {**asked, **dict.fromkeys(commands, data)}, clean_tree)

    found = await fail_without(files)
    if not found:
        return (), found
    observer, tree = CheckObserver(watched=[each.path for each in files]), await clean_tree(change.tree.commit)
    parent = tree.sandbox.confinement.temporary if tree.sandbox else None
    try:
        async with observer.watch("", tree.git.cwd, tree.environ, parent) as variables:
            for check in checks:
                await restore_tracked_files(tree)
                await run_check(check, structs.replace(tree, environ={**tree.environ, **variables}))
    finally:
        await worktree.restore(tree.git, tree.commit)
    readers, changed = observer.observations[""].readers, {each.path for each in change.paths}

    def is_own(path: str) -> bool:
        return path.endswith(CODE_SUFFIXES) and (path in changed or is_declared_path(path, change.request.files))

    left = [each for each in files if not any(map(is_own, readers.get(each.path, ())))]
    return left, await fail_without(left)


def _is_undeclared(each: PathChange, files: Sequence[str]) -> bool:
    """Return True for a file that is no code, and for new data of tests; the guard reads manifests and old tests."""
    known = each.path.endswith(CODE_SUFFIXES) or has_settings(each.path) or (is_test(each.path) and each.kind != "A")
    return not (known or each.is_gitlink or is_declared_specifically(each.path, files))


async def _decided_without_program(
    change: _BaseToWork, passed: Verification, clean_tree: CleanTree
) -> tuple[str, list[str]]:
    """Return what the checks pass without, and phrases about those that fail without the other files of the work."""
    contract, files = change.request.contract, change.request.files
    free = [each for each in change.paths if not (is_test(each.path) or each.is_gitlink)]
    code = [each for each in free if each.path.endswith(CODE_SUFFIXES)]
    program = [each for each in code if not change.is_particular or is_declared_path(each.path, files)]
    others = [each for each in free if each not in program and not is_declared_by_name(each.path, files)]
    readable = [each for each in program if each.kind != "D" and not each.is_link]
    if contract is None or not (readable and others):
        return "", []
    if not await pass_without_program(contract, passed, readable, clean_tree):
        return "", []
    whatever = f"whatever is in {_names_of(readable)}"
    required = dict.fromkeys((check.command for check in contract.commands if check.required), others)
    found = await _failing_checks(change, contract.commands, required, clean_tree)
    return whatever, [f"{each}, and passes {whatever}" for each in found]


def _names_of(files: Sequence[PathChange]) -> str:
    return join_limited([each.path for each in files], MAX_NAMED)


async def _executed_changes(change: _BaseToWork, check: Check) -> list[PathChange]:
    """Return the changed files that existed before and that a check executes, not those that it reads.

    `grep -q ruff ci.yml` judges the file. Test files that a runner finds are compared test by test.
    """
    layout = await change.layout(executing(check.command))
    found = list[PathChange]()
    for each in change.paths:
        judges = each.kind != "A" and checker_reason(each, layout) is not None
        tests = is_test_file(each.path) and runs_tests(check.command)
        scripts = not PACKAGE_MANAGERS.isdisjoint(layout.command_words) and any(
            part.startswith(SCRIPTS_KEY) for part in await change.parts(each, layout.command_words)
        )
        if (judges and not tests) or (each.kind != "A" and scripts and not is_test(each.path)):
            found.append(each)
    return found


async def _lay_base_files(tree: Tree, changes: Sequence[PathChange]) -> None:
    await for_each(tree, ("rm", "--force", "--quiet"), [each.path for each in changes if each.kind == "A"])
    await for_each(tree, ("checkout", tree.base), [each.path for each in changes if each.kind != "A"])


def _without_caches(tree: Tree) -> Tree:
    return structs.replace(tree, environ={**tree.environ, **UNCACHED})


def executing(command: str) -> list[str]:
    """Return commands that execute the same files of the repository, without files that are only read.

    Files are executed as a program, by an interpreter, as a module, or by the target of a task runner.
    """
    commands = [[word.text for word in each.words] for each in visible_commands(command) if each.words]
    prefix = "cd . && " if any(words[0] in CHANGING for words in commands) else ""
    return [prefix + each for words in commands for each in _executed_words(_without_starter(words))]


def _executed_words(words: Sequence[str]) -> Sequence[str]:
    """Return the commands that a single command executes; its words are not empty."""
    program, options = _program_name(words[0]), list(takewhile(lambda word: word.startswith("-"), words[1:]))
    if program in TARGETING:
        return [" ".join(words)]
    if not _INTERPRETER.fullmatch(program):
        return [words[0]]
    if "-m" in options:
        return [" ".join(words[: words.index("-m") + 2])]
    of_shell = program.endswith("sh")
    if any((_SHELL_TEXT if of_shell else _TEXT).fullmatch(option) for option in options):
        return [each for text in words[len(options) + 1 :][:1] if of_shell for each in executing(text)]
    return launched_commands("", " ".join(words))


def _without_starter(words: Sequence[str]) -> Sequence[str]:
    if not words or words[0] not in STARTERS:
        return words
    rest = range(1, len(words))
    names = {at: _program_name(words[at]) for at in rest}
    begins = (at for at in rest if "/" in words[at] or names[at] in TARGETING or _INTERPRETER.fullmatch(names[at]))
    return words[next(begins, 0) :]


def _program_name(word: str) -> str:
    return word.rpartition("/")[2]
