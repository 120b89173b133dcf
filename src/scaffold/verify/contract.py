"""Run a contract on the very tree it judges: every declared check is executed, none is believed."""

import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import assert_never

from msgspec import Struct

from scaffold.core.contract import (
    Check,
    CheckResult,
    Contract,
    ExitCode,
    OutputContains,
    Verdict,
    Verification,
)
from scaffold.core.ids import Commit
from scaffold.core.legible import few, legible
from scaffold.git import commit
from scaffold.git.command import Git
from scaffold.git.worktree import unlock
from scaffold.host.process import Finished
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.policy.globs import matches
from scaffold.policy.zones import SEALED
from scaffold.verify.services.attendance import Services, run_attended
from scaffold.verify.steadiness import runs_tests, told, watch
from scaffold.verify.vacuity import ran_nothing

DEFAULT_TIMEOUT_S = 60.0
PATIENCE = 3.0
"""So many times as long as on the base may a check or a gate take."""
DETAIL_CHARS = 2_000
MOST_PATHS = 5
COMMAND_NOT_FOUND = 127
COMMAND_NOT_EXECUTABLE = 126
KILLED_IN_A_SHELL = 128 + signal.SIGKILL


class Tree(Struct, frozen=True, kw_only=True):
    """A clean checkout of one commit, to be judged by how it differs from `base`."""

    git: Git
    """At the top of the checkout."""
    base: Commit
    commit: Commit
    environ: Mapping[str, str]
    """The whole environment of the checks."""
    enclosure: Enclosure | None = None
    """What holds them; None: nothing does."""
    services: Services = Services()
    """What runs for each check, and ends with it."""
    clean: Callable[[str], str] = legible
    """Returns what commands print as it may be told: without secrets."""


async def verify(contract: Contract | None, tree: Tree) -> Verification:
    """Check `tree` against `contract` alone; without one a non-empty change has to do, and the result is weak."""
    return await judged(contract, tree, await commit.changed_paths(tree.git, tree.base, tree.commit))


async def judged(
    contract: Contract | None, tree: Tree, changed: Sequence[str], *, red: Collection[str] | None = None
) -> Verification:
    """Do as `verify` does, for paths that are known to have `changed`.

    `red` are the names of the checks that failed on the base. Where none of them was required, nothing tells the work
    from nothing: the result is weak. None means that nobody looked.

    Commands run one after another, so that they cannot disturb each other; all of them run, so that one round of
    feedback names every failure. Each finds the tracked files as they were committed. What they leave behind stays.
    """
    if not changed:
        return unchanged(tree.commit)
    touched = sealed(changed)
    if touched:
        return Verification(commit=tree.commit, results=(touched,))
    if contract is None or contract.empty:
        detail = f"{len(changed)} path{'s' * (len(changed) != 1)} changed; no contract was given."
        change = CheckResult(name="change", verdict="pass", detail=detail)
        return Verification(commit=tree.commit, results=(change,), weak=True)
    results = await results_of(contract, tree, changed)
    were_red = tuple(dict.fromkeys(result.name for result in results if result.name in (red or ())))
    binding = required_names(contract)
    telling = binding if red is None else binding.intersection(were_red)
    return Verification(commit=tree.commit, results=results, weak=not telling, red=were_red)


def required_names(contract: Contract) -> frozenset[str]:
    """Return the names of the results that have to pass: of required commands and of all constraints."""
    commands = (check.command for check in contract.commands if check.required)
    return frozenset((*commands, *(result.name for result in constraints(contract, (), ()))))


async def results_of(contract: Contract, tree: Tree, changed: Sequence[str] = ()) -> tuple[CheckResult, ...]:
    """Return what each constraint and command of the contract shows of a tree, changed since its base or not."""
    asked = contract.must_exist or contract.must_not_exist
    paths = await commit.listed_paths(tree.git, tree.commit) if asked else ()
    results = list(constraints(contract, paths, changed))
    for number, check in enumerate(contract.commands):
        if number:
            await undo_changes(tree)
        results.append(await run_check(check, tree))
    return tuple(results)


def unchanged(head: Commit) -> Verification:
    """Return the verdict on a tree that is the same as before."""
    nothing = CheckResult(name="change", verdict="vacuous", detail="The tree is the same as before: nothing changed.")
    return Verification(commit=head, results=(nothing,))


def sealed(changed: Sequence[str]) -> CheckResult | None:
    """Return why `changed` paths may not land: some of them would be run or obeyed unasked; None if all may.

    Commands cannot change them in a sandbox, nor file tools anywhere; this holds for those that nothing held.
    """
    theirs = [path for path in changed if any(f"{path.casefold()}/".startswith(f"{name}/") for name in SEALED)]
    if not theirs:
        return None
    detail = f"No agent changes what git, Scaffold or other agents run or obey; put back {few(theirs, MOST_PATHS)}."
    return CheckResult(name="sealed", verdict="fail", detail=legible(detail))


def constraints(contract: Contract, paths: Sequence[str], changed: Sequence[str]) -> Iterator[CheckResult]:
    """Judge the file constraints by all `paths` of a commit and those `changed` since its base."""
    for glob in contract.must_exist:
        found = [path for path in paths if matches(glob, path)]
        yield _constraint(
            f"must_exist: {glob}", ok=bool(found), detail=few(found, MOST_PATHS) or "no such path in the commit"
        )
    for glob in contract.must_not_exist:
        found = [path for path in paths if matches(glob, path)]
        yield _constraint(f"must_not_exist: {glob}", ok=not found, detail=few(found, MOST_PATHS) or "none")
    for glob in contract.must_not_change:
        found = [path for path in changed if matches(glob, path)]
        yield _constraint(f"must_not_change: {glob}", ok=not found, detail=few(found, MOST_PATHS) or "untouched")


def _constraint(name: str, *, ok: bool, detail: str) -> CheckResult:
    return CheckResult(name=name, verdict="pass" if ok else "fail", detail=legible(detail))


async def undo_changes(tree: Tree) -> None:
    """Put tracked files back that a check has changed; files it made stay, the next check may build on them."""
    await unlock(tree.git)
    await tree.git("checkout", "--force", "--detach", "--quiet", tree.commit)


async def run_check(check: Check, tree: Tree) -> CheckResult:
    """Return what one command shows of the tree, which has to be as it was committed."""
    tests = await watch(tree.git, tree.commit, check.command) if runs_tests(check.command) else None
    finished = await _run(check, tree)
    if _was_killed(finished):
        await undo_changes(tree)
        finished = await _run(check, tree)  # a signal says nothing about the work: ask once more
    verdict, why = judge(check, finished)
    if verdict == "pass" and tests is not None and (touched := await tests.touched()):
        verdict, why = "error", told(touched)
    if verdict != "pass" and not check.required:
        verdict = "warn"
    return CheckResult(
        name=check.command,
        verdict=verdict,
        exit_code=finished.exit_code,
        detail=explained(why, tree.clean((finished.stdout + finished.stderr).decode(errors="replace").strip())),
        duration_s=round(finished.duration_s, 3),
        output_hash=finished.stdout_sha256,
    )


async def _run(check: Check, tree: Tree) -> Finished:
    return await run_attended(
        check.command,
        tree.services,
        tree.enclosure,
        top=tree.git.cwd,
        cwd=tree.git.cwd,
        environ=tree.environ,
        timeout_s=check.timeout_s or DEFAULT_TIMEOUT_S,
    )


def _was_killed(finished: Finished) -> bool:
    """Tell whether a signal ended the command, or, inside its shell, the one that nobody sends to himself."""
    if finished.timed_out or finished.crowded:
        return False
    return finished.signal is not None or finished.exit_code == KILLED_IN_A_SHELL


def judge(check: Check, finished: Finished) -> tuple[Verdict, str]:
    """Return the verdict on a finished command and a sentence that explains it."""
    if finished.timed_out:
        return "timeout", f"Not finished after {check.timeout_s or DEFAULT_TIMEOUT_S:g} s."
    if finished.crowded:
        return "error", "Stopped: it started too many processes."
    if finished.signal is not None:
        return "error", f"Ended by signal {finished.signal}, twice."
    met, wanted = _expected(check, finished)
    if not met and finished.exit_code in {COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE}:
        return "error", f"The command could not be run (exit {finished.exit_code})."
    if ran_nothing(check.command, finished):
        return "vacuous", "It ran no test at all."
    return ("pass", wanted) if met else ("fail", f"Expected {wanted}; it ended with exit {finished.exit_code}.")


def _expected(check: Check, finished: Finished) -> tuple[bool, str]:
    match check.expect:
        case ExitCode(code=code):
            return finished.exit_code == code, f"exit {code}"
        case OutputContains(text=text):
            return text in finished.stdout.decode(errors="replace"), f"`{text}` in the output"
        case _:
            assert_never(check.expect)


def explained(why: str, output: str) -> str:
    """Return why something was judged as it was, and the end of what it printed."""
    tail = output if len(output) <= DETAIL_CHARS else "… " + output[-DETAIL_CHARS:]
    return legible(f"{why}\n{tail}".strip())
