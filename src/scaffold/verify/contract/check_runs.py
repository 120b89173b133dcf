"""Run every check of a contract on the exact tree that it judges."""

import signal
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import assert_never

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.model import Activity
from scaffold.core.printable_text import count_of, join_limited, utf8_safe
from scaffold.core.proof.contract import (
    Check,
    CheckResult,
    CheckVerdict,
    Contract,
    Doubt,
    ExitCode,
    OutputContains,
    Verification,
)
from scaffold.git import commits
from scaffold.git.checkouts.worktree import remove_locks
from scaffold.git.client.command_line import Git
from scaffold.host.process.command_runner import CommandResult
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.policy.path.globs import matches
from scaffold.policy.sandbox_profile import READ_ONLY_PATHS
from scaffold.verify.contract.tamper_detection import runs_tests, snapshot_files, tamper_message
from scaffold.verify.contract.vacuous_runs import ran_nothing
from scaffold.verify.observation.observer import MARKER, CheckObserver
from scaffold.verify.output_excerpt import output_excerpt
from scaffold.verify.services.lifecycle import Services, ShellCommand, run_with_services

DEFAULT_TIMEOUT_S = 60.0
TIMEOUT_FACTOR = 3.0
"""A check or gate times out after this many times its duration on the base."""
DETAIL_CHARS = 2_000
MAX_PATHS = 5
NOT_STARTED_CODES = (126, 127)
"""The exit codes of a shell that could not execute, or not find, its command."""
SIGKILL_EXIT = 128 + signal.SIGKILL
NO_CONTRACT = Doubt("no_contract", "there is no contract, only the change itself")
PASSES_WITHOUT_WORK = Doubt("passes_without_work", "every required check passes without the work, too")

STEP_CHECK = "step"
"""Name of the result that says that a step ended. It proves nothing about the work: what lands is proven as a whole."""


def keep_no_log(_name: str, _text: str) -> str:
    """Return the empty path: no log is kept."""
    return ""


During = Callable[[Activity], AbstractAsyncContextManager[None]]
"""Returns a context that shows work which may take minutes, such as a check."""


def unseen(_work: Activity) -> AbstractAsyncContextManager[None]:
    """Return a context that shows nothing."""
    return nullcontext()


class HookPlace(Struct, frozen=True, kw_only=True):
    """What the repository's commit hooks need to run."""

    common_dir: Path
    """The git directory with the objects."""
    prepare: Callable[[Path], Awaitable[None]]
    """Copies the prepared dependencies into another checkout."""
    trusted: Mapping[str, str] | None = None
    """The digests of the files that define hooks, as the user trusts them; None if the user agreed to those here."""


class Tree(Struct, frozen=True, kw_only=True):
    """A clean checkout of one commit, judged by its difference from `base`."""

    git: Git
    """Git, with the top of the checkout as its working directory."""
    base: Commit
    commit: Commit
    environ: Mapping[str, str]
    """The complete environment variables of the checks."""
    sandbox: SandboxSpec | None = None
    """The sandbox of the checks; None to run them without one."""
    services: Services = Services()
    """The services that are started for each check and stopped after it."""
    clean: Callable[[str], str] = utf8_safe
    """Redacts secrets in the output of commands."""
    observer: CheckObserver | None = None
    """Observes which changed lines checks execute and how tests end; None to run the checks unobserved."""
    keep_log: Callable[[str, str], str] = keep_no_log
    """Keeps the whole output of a check or gate under a name, and returns its path; empty if it cannot."""
    during: During = unseen
    """Shows each check and gate while it runs."""
    hooks: HookPlace | None = None
    """What commit hooks need to run; None if they may not run because the folder is not trusted."""


CheckRunner = Callable[[Check, Tree], Awaitable[CheckResult]]
"""Returns the result of one command, as `run_check` does."""


async def verify_changes(
    contract: Contract | None,
    tree: Tree,
    changed: Sequence[str],
    *,
    failed_on_base: Collection[str] = (),
    run: CheckRunner | None = None,
) -> Verification:
    """Check `tree` against `contract`, given the `changed` paths; `run` replaces `run_check`.

    `failed_on_base` are the names of the checks that were seen to fail on the base. If no required check was, that is a
    doubt: the checks would pass without the work, too.

    Commands run one after another, so that they cannot disturb each other; all of them run, so that one round of
    feedback names every failure. Each starts with the tracked files as committed. Untracked files they create stay.
    """
    if not changed:
        return unchanged_result(tree.commit)
    # Before any command: a changed hook or setting would take effect while the checks run.
    read_only = check_read_only_paths(changed)
    if read_only:
        return Verification(commit=tree.commit, results=(read_only,))
    if contract is None or contract.empty:
        detail = f"{count_of(len(changed), 'path')} changed; there is no contract."
        change = CheckResult(name="change", verdict="pass", detail=detail)
        return Verification(commit=tree.commit, results=(change,), doubts=(NO_CONTRACT,))
    results = await run_checks(contract, tree, changed, run=run)
    were_red = tuple(dict.fromkeys(result.name for result in results if result.name in failed_on_base))
    doubts = (PASSES_WITHOUT_WORK,) if required_names(contract).isdisjoint(were_red) else ()
    return Verification(commit=tree.commit, results=results, doubts=doubts, failed_on_base=were_red)


def required_names(contract: Contract) -> frozenset[str]:
    """Return the names of the results that must pass: required commands and all constraints."""
    commands = (check.command for check in contract.commands if check.required)
    return frozenset((*commands, *(result.name for result in check_constraints(contract, (), ()))))


async def run_checks(
    contract: Contract, tree: Tree, changed: Sequence[str] = (), *, run: CheckRunner | None = None
) -> tuple[CheckResult, ...]:
    """Return the result of each constraint and command of the contract; works for an unchanged tree, too."""
    needs_paths = contract.must_exist or contract.must_not_exist
    paths = await commits.listed_paths(tree.git, tree.commit) if needs_paths else ()
    results = list(check_constraints(contract, paths, changed))
    for number, check in enumerate(contract.commands):
        # Otherwise an added check could change files that the next check reads.
        if number:
            await restore_tracked_files(tree)
        results.append(await (run or run_check)(check, tree))
    return tuple(results)


def unchanged_result(head: Commit) -> Verification:
    """Return the verdict on a tree without changes."""
    nothing = CheckResult(name="change", verdict="vacuous", detail="The tree is the same as before: nothing changed.")
    return Verification(commit=head, results=(nothing,))


def check_read_only_paths(changed: Sequence[str]) -> CheckResult | None:
    """Return a failing result if `changed` has paths that git, Scaffold or other agents run or obey, else None.

    The sandbox and the file tools already protect these paths; this check covers commands that ran without a sandbox.
    """
    forbidden = [
        path for path in changed if any(f"{path.casefold()}/".startswith(f"{name}/") for name in READ_ONLY_PATHS)
    ]
    if not forbidden:
        return None
    detail = (
        "Agents must not change files that git, Scaffold or other agents execute or follow; "
        f"revert {join_limited(forbidden, MAX_PATHS)}."
    )
    return CheckResult(name="sealed", verdict="fail", detail=utf8_safe(detail), safety_refusal="forbidden")


def check_constraints(contract: Contract, paths: Sequence[str], changed: Sequence[str]) -> Iterator[CheckResult]:
    """Yield the result of each file constraint, given all `paths` of a commit and those `changed` since its base."""
    for glob in contract.must_exist:
        found = [path for path in paths if matches(glob, path)]
        yield _constraint_result(
            f"must_exist: {glob}", ok=bool(found), detail=join_limited(found, MAX_PATHS) or "no such path in the commit"
        )
    for glob in contract.must_not_exist:
        found = [path for path in paths if matches(glob, path)]
        yield _constraint_result(
            f"must_not_exist: {glob}", ok=not found, detail=join_limited(found, MAX_PATHS) or "none"
        )
    for glob in contract.must_not_change:
        found = [path for path in changed if matches(glob, path)]
        kept = _constraint_result(
            f"must_not_change: {glob}", ok=not found, detail=join_limited(found, MAX_PATHS) or "untouched"
        )
        yield structs.replace(kept, safety_refusal="kept") if found else kept


def _constraint_result(name: str, *, ok: bool, detail: str) -> CheckResult:
    return CheckResult(name=name, verdict="pass" if ok else "fail", detail=utf8_safe(detail))


async def restore_tracked_files(tree: Tree) -> None:
    """Restore the tracked files that a check changed; untracked files stay, as the next check may need them."""
    # A command that was killed may have left the lock of a git that it ran.
    await remove_locks(tree.git)
    await tree.git("checkout", "--force", "--detach", "--quiet", tree.commit)


async def run_check(check: Check, tree: Tree) -> CheckResult:
    """Return the result of one command; the tracked files must be as committed. A killed command is run again once."""
    # Only if a runner is named: other checks may write test files on purpose, for example a formatter.
    tests = await snapshot_files(tree.git, tree.commit, check.command) if runs_tests(check.command) else None
    finished = await _run_observed(check, tree)
    verdict, why = check_verdict(check, finished)
    if verdict == "pass" and tests is not None and (written := await tests.touched()):
        verdict, why = "error", tamper_message(written)
    if verdict != "pass" and not check.required:
        verdict = "warn"
    printed = tree.clean((finished.stdout + finished.stderr).decode(errors="replace").strip())
    # The detail contains all of a shorter output.
    log = kept_log("check", check.command, tree, printed) if verdict != "pass" and len(printed) > DETAIL_CHARS else ""
    return CheckResult(
        name=check.command,
        verdict=verdict,
        exit_code=finished.exit_code,
        detail=result_detail(why, printed),
        log=log,
        duration_s=round(finished.duration_s, 3),
        output_hash=finished.stdout_sha256,
    )


async def _run_observed(check: Check, tree: Tree) -> CommandResult:
    """Run the command, observed if asked for, and once more without that if something else may have ended it."""
    if tree.observer is None:
        finished = await _run_command(check, tree)
    else:
        parent = tree.sandbox.confinement.temporary if tree.sandbox else None
        async with tree.observer.watch(check.command, tree.git.cwd, tree.environ, parent) as variables:
            finished = await _run_command(check, structs.replace(tree, environ={**tree.environ, **variables}))
    # A signal proves nothing about the work, nor does a program that our observation disturbed.
    disturbed = tree.observer is not None and MARKER in finished.stdout + finished.stderr
    if was_killed(finished) or (disturbed and not _meets_expectation(check, finished)[0]):
        if tree.observer is not None:
            tree.observer.observations.pop(check.command, None)
        await restore_tracked_files(tree)
        return await _run_command(check, tree)
    return finished


async def _run_command(check: Check, tree: Tree) -> CommandResult:
    timeout_s = check.timeout_s or DEFAULT_TIMEOUT_S
    command = ShellCommand(text=check.command, cwd=tree.git.cwd, environ=tree.environ, timeout_s=timeout_s)
    async with tree.during(Activity(label="check", command=check.command)):
        return await run_with_services(command, tree.services, tree.sandbox, top=tree.git.cwd)


def was_killed(finished: CommandResult) -> bool:
    """Return True if a signal ended the command, or SIGKILL a child of its shell (exit code 137)."""
    # We sent these signals ourselves.
    if finished.timed_out or finished.too_many_processes:
        return False
    return finished.signal is not None or finished.exit_code == SIGKILL_EXIT


def check_verdict(check: Check, finished: CommandResult) -> tuple[CheckVerdict, str]:
    """Return the verdict on a finished command and a sentence that explains it."""
    if finished.timed_out:
        return "timeout", f"Timed out after {check.timeout_s or DEFAULT_TIMEOUT_S:g} s."
    if finished.too_many_processes:
        return "error", "Stopped because it started too many processes."
    if finished.signal is not None:
        return "error", f"Killed by signal {finished.signal} twice."
    ok, expected = _meets_expectation(check, finished)
    # A check may expect 127, so the expectation comes first.
    if not ok and finished.exit_code in NOT_STARTED_CODES:
        return "error", f"The command could not be run (exit code {finished.exit_code})."
    if ran_nothing(check.command, finished):
        return "vacuous", "It ran no tests."
    lacks = isinstance(check.expect, OutputContains) and finished.exit_code == 0
    got = "the output does not contain it" if lacks else f"got exit code {finished.exit_code}"
    return ("pass", expected) if ok else ("fail", f"Expected {expected}, but {got}.")


def _meets_expectation(check: Check, finished: CommandResult) -> tuple[bool, str]:
    match check.expect:
        case ExitCode(code=code):
            return finished.exit_code == code, f"exit code {code}"
        case OutputContains(text=text):
            # Standard output only: an error message that quotes the text must not count as the text. And a command
            # that failed may have printed it before, or as part of what is wrong.
            found = text in finished.stdout.decode(errors="replace")
            return found and finished.exit_code == 0, f"`{text}` in the output and exit code 0"
        case _:
            assert_never(check.expect)


def kept_log(name: str, command: str, tree: Tree, printed: str) -> str:
    """Keep the whole output of a command in a log of its own and return the path."""
    text = f"$ {command}\n{printed}\n"
    # A command can run several times at one commit: for some of its tests, or on changed files.
    return tree.keep_log(f"{name}-{tree.commit[:12]}-{sha256(text.encode(errors='replace')).hexdigest()[:8]}", text)


def result_detail(why: str, output: str) -> str:
    """Return the reason for a verdict, followed by an excerpt of the output."""
    return utf8_safe(f"{why}\n{output_excerpt(output, DETAIL_CHARS)}".strip())
