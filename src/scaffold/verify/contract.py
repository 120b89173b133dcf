"""Run a contract on the very tree it judges: every declared check is executed, none is believed."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
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
from scaffold.host.process import Finished, run
from scaffold.policy.globs import matches

DEFAULT_TIMEOUT_S = 60.0
DETAIL_CHARS = 2_000
COMMAND_NOT_FOUND = 127
COMMAND_NOT_EXECUTABLE = 126


class Tree(Struct, frozen=True, kw_only=True):
    """A clean checkout of one commit, and how it differs from the commit it is compared to."""

    root: Path
    commit: Commit
    paths: Sequence[str]
    """Every path in the commit."""
    changed: Sequence[str]
    """Paths that differ from the base."""
    environ: Mapping[str, str]
    """The whole environment of the checks."""


async def verify(contract: Contract | None, tree: Tree) -> Verification:
    """Check `tree` against `contract`; without one a non-empty change has to do, and the result is weak.

    Commands run one after another, so that they cannot disturb each other; all of them run, so that one
    round of feedback names every failure.
    """
    if not tree.changed:
        nothing = CheckResult(
            name="change", verdict="vacuous", detail="The tree is the same as before: nothing changed."
        )
        return Verification(commit=tree.commit, results=(nothing,))
    if contract is None or contract.empty:
        detail = f"{len(tree.changed)} paths changed; no contract was given."
        change = CheckResult(name="change", verdict="pass", detail=detail)
        return Verification(commit=tree.commit, results=(change,), weak=True)
    results = [*_constraints(contract, tree), *[await _command(check, tree) for check in contract.commands]]
    weak = not any(check.required for check in contract.commands) and not _constrained(contract)
    return Verification(commit=tree.commit, results=tuple(results), weak=weak)


def _constrained(contract: Contract) -> bool:
    return bool(contract.must_exist or contract.must_not_exist or contract.must_not_change)


def _constraints(contract: Contract, tree: Tree) -> Iterable[CheckResult]:
    for glob in contract.must_exist:
        found = [path for path in tree.paths if matches(glob, path)]
        yield _constraint(f"must_exist: {glob}", ok=bool(found), detail=_named(found) or "no such path in the commit")
    for glob in contract.must_not_exist:
        found = [path for path in tree.paths if matches(glob, path)]
        yield _constraint(f"must_not_exist: {glob}", ok=not found, detail=_named(found) or "none")
    for glob in contract.must_not_change:
        found = [path for path in tree.changed if matches(glob, path)]
        yield _constraint(f"must_not_change: {glob}", ok=not found, detail=_named(found) or "untouched")


def _constraint(name: str, *, ok: bool, detail: str) -> CheckResult:
    return CheckResult(name=name, verdict="pass" if ok else "fail", detail=detail)


def _named(paths: Sequence[str], most: int = 5) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more


async def _command(check: Check, tree: Tree) -> CheckResult:
    finished = await _run(check, tree)
    if finished.signal is not None and not finished.timed_out:
        finished = await _run(check, tree)  # a signal says nothing about the work: ask once more
    verdict, why = judge(check, finished)
    if verdict != "pass" and not check.required:
        verdict = "warn"
    return CheckResult(
        name=check.command,
        verdict=verdict,
        exit_code=finished.exit_code,
        detail=_detail(why, finished),
        duration_s=round(finished.duration_s, 3),
        output_hash=finished.stdout_sha256,
    )


async def _run(check: Check, tree: Tree) -> Finished:
    return await run(
        ["/bin/sh", "-c", check.command],
        cwd=tree.root,
        env=tree.environ,
        timeout_s=check.timeout_s or DEFAULT_TIMEOUT_S,
        leash=True,
    )


def judge(check: Check, finished: Finished) -> tuple[Verdict, str]:
    """Return the verdict on a finished command and a sentence that explains it."""
    if finished.timed_out:
        return "timeout", f"Not finished after {check.timeout_s or DEFAULT_TIMEOUT_S:g} s."
    if finished.signal is not None:
        return "error", f"Ended by signal {finished.signal}, twice."
    met, wanted = _expected(check, finished)
    if not met and finished.exit_code in {COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE}:
        return "error", f"The command could not be run (exit {finished.exit_code})."
    if ran_nothing(check.command, finished):
        return "vacuous", "It ran no test at all."
    return ("pass", wanted) if met else ("fail", f"Expected {wanted}, got exit {finished.exit_code}.")


def _expected(check: Check, finished: Finished) -> tuple[bool, str]:
    match check.expect:
        case ExitCode(code=code):
            return finished.exit_code == code, f"exit {code}"
        case OutputContains(text=text):
            return text in finished.stdout.decode(errors="replace"), f"`{text}` in the output"
        case _:
            assert_never(check.expect)


def ran_nothing(command: str, finished: Finished) -> bool:
    """Tell whether a test runner ended without running a single test."""
    if "pytest" in command:
        return finished.exit_code == 5 or (finished.exit_code == 0 and b"no tests ran" in finished.stdout)
    if "unittest" in command:
        return b"\nRan 0 tests in " in b"\n" + finished.stderr
    return False


def _detail(why: str, finished: Finished) -> str:
    output = (finished.stdout + finished.stderr).decode(errors="replace").strip()
    tail = output if len(output) <= DETAIL_CHARS else "… " + output[-DETAIL_CHARS:]
    return f"{why}\n{tail}".strip()
