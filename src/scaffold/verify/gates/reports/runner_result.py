"""How a test runner is asked for a report, and the result read from it, with limits on untrusted reports."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.printable_text import join_limited, utf8_safe, without_colors
from scaffold.core.proof.gates import EXIT_OUTCOME, GateRunProblem, TestOutcome
from scaffold.verify.gates.injected.scaffold_recorder import tidy

MAX_TESTS = 20_000
MAX_BYTES = 50_000_000
"""Maximum size of a report, or of the output that contains it."""
MESSAGE_LINES = 8
"""Lines kept of a failed test's message."""
MAX_MESSAGES = 1_000
"""Failed tests of a run whose messages are kept."""
OUTCOME_RANK: Mapping[TestOutcome, int] = {"skipped": 0, "passed": 1, "flaky": 2, "error": 3, "failed": 4}


class StandInsOrder(Struct, frozen=True, kw_only=True):
    """The order to run tests of an older version: their files, and the modules that are gone."""

    top: str
    """Absolute path of the checkout's top."""
    tests: tuple[str, ...]
    """All Python files of tests and their helpers, relative to the top."""
    removed: tuple[str, ...]
    """The dotted names under which removed modules may have been imported."""


class RunnerEnv(Struct, frozen=True, kw_only=True):
    """Where and how one run of a runner takes place."""

    folder: Path
    """Our own folder for reports: initially empty, outside the checkout, writable for the command."""
    cwd: Path
    """The working directory of the command; test files are relative to it."""
    environ: Mapping[str, str]
    only: tuple[str, ...] = ()
    """Names of the tests or files to run; empty for all."""
    stand_ins: StandInsOrder | None = None
    """Set if the tests are older than the code; then a file that cannot be loaded is not a problem."""
    repeat_s: float = 0.0
    """How long pytest or unittest may repeat the tests in its process; a test counts by its worst outcome."""

    @property
    def whole(self) -> bool:
        """Whether all tests run."""
        return not self.only


class RunnerCommand(Struct, frozen=True, kw_only=True):
    """The command that runs instead of a gate's command."""

    command: str
    variables: Mapping[str, str] = {}
    key: bytes = b""
    """The key that signs the report; empty if it is not signed."""


class RunnerExit(Struct, frozen=True, kw_only=True):
    """The outcome of a process that exited or timed out."""

    env: RunnerEnv
    command: RunnerCommand
    exit_code: int | None
    stdout: bytes
    stderr: bytes

    @property
    def output(self) -> str:
        """Everything it printed, stdout first, without escape codes."""
        return plain_text(self.stdout + self.stderr)


class OsFailure(Struct, frozen=True, array_like=True):
    """An error of the operating system that a test raised."""

    number: int
    """The `errno`; an error code of name resolution if `resolving`."""
    path: str | None
    resolving: bool
    """Whether the name of a host could not be resolved."""


class UnresolvedName(Struct, frozen=True, array_like=True):
    """A name that a test of an older version uses and the code no longer has."""

    name: str
    owners: tuple[tuple[str, str], ...] = ()
    """The file and qualified name of each class that lacks it; empty if no class was asked."""


class RunnerResult(Struct, frozen=True, kw_only=True):
    """The result of one run."""

    outcomes: Mapping[str, TestOutcome] = {}
    counts: Mapping[str, int] = {}
    messages: Mapping[str, tuple[str, ...]] = {}
    """The messages of findings, without line numbers, and of failed tests."""
    lines: Mapping[str, tuple[int, ...]] = {}
    """The line of each message about a finding."""
    errors: Mapping[str, tuple[OsFailure, ...]] = {}
    """The errors of the operating system behind failed tests, by test."""
    unresolved: Mapping[str, UnresolvedName] = {}
    """The names that tests of an older version could not resolve, by test, or by file if it could not be loaded."""
    unloaded: tuple[str, ...] = ()
    """Files or packages that could not be loaded; then these and the outcomes of the other tests are all there is."""
    replaced: tuple[str, ...] = ()
    """The runner's own functions that other code replaced."""
    problem: GateRunProblem | None = None
    why: str = ""
    """A sentence about the problem; empty without one."""
    shown_output: str | None = None
    """The text to show instead of machine-readable output; None to show the output."""


def no_running_tests(_: RunnerExit) -> tuple[str, ...]:
    """Return no tests: the runner does not report which test is running."""
    return ()


class RunnerAdapter(Struct, frozen=True, kw_only=True):
    """How to run one kind of test runner and read its report."""

    build_command: Callable[[str, RunnerEnv], RunnerCommand]
    read_report: Callable[[RunnerExit], RunnerResult]
    unfinished_tests: Callable[[RunnerExit], tuple[str, ...]] = no_running_tests
    """Returns the tests that had started and not finished, at a timeout or a crash."""
    reports_on_output: bool = False
    """Whether the report is the output itself, so that all of it is needed."""
    selects_exactly: bool = False
    """Whether it runs exactly the selected tests; results of other runners are filtered."""


def unusable_result(
    problem: GateRunProblem, why: str, outcomes: Mapping[str, TestOutcome] | None = None
) -> RunnerResult:
    """Return the result of an unusable run; its outcomes are only hints."""
    return RunnerResult(problem=problem, why=why, outcomes=outcomes or {})


def plain_text(printed: bytes) -> str:
    """Return what a program printed as text without escape codes, which may be forced on it."""
    return without_colors(printed.decode(errors="replace"))


def printable_test_name(name: str) -> str:
    """Return a runner's name of a test as one printable line of limited length."""
    return utf8_safe(tidy(without_colors(name)))


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names with equal ones numbered in their order: no test stands for another one of its name."""
    taken, found = {*names}, dict[str, None]()
    for name in names:
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        new = name if name not in found else next(each for each in numbered if each not in taken)
        taken.add(new)
        found[new] = None
    return list(found)


def failure_message(text: str) -> str:
    """Return a failed test's message in a few lines of limited length, without colours and stacks."""
    said, _, _ = without_colors(text).partition("\n    at ")
    lines = [utf8_safe(tidy(line.rstrip())) for line in said.strip().splitlines()]
    return "\n".join(line for line in lines[:MESSAGE_LINES] if line)


def load_failure(what: str, names: Sequence[str], others: RunnerResult | None = None) -> RunnerResult:
    """Return the result of a run in which the named files or packages could not be loaded.

    `others` is the result of the other tests; None if they did not run.
    """
    found = others if others and others.problem is None else RunnerResult()
    outcomes: dict[str, TestOutcome] = {**found.outcomes, **dict.fromkeys(names, "error")}
    why = f"{what}: {join_limited(names, 3)}."
    return structs.replace(found, problem="error", why=why, outcomes=outcomes, unloaded=tuple(names))


def worst_outcomes(outcomes: Iterable[tuple[str, TestOutcome]]) -> dict[str, TestOutcome]:
    """Return one outcome for each name, the worst if there are several."""
    found: dict[str, TestOutcome] = {}
    for name, outcome in outcomes:
        known = found.get(name)
        if known is None or OUTCOME_RANK[outcome] > OUTCOME_RANK[known]:
            found[name] = outcome
    return found


def match_exit_code(outcomes: Mapping[str, TestOutcome], exit_code: int | None, *, whole: bool) -> RunnerResult:
    """Return the result of a complete report after comparing it with the exit code.

    If all tests passed but the exit code is not 0, for example because of low coverage, the exit code becomes another,
    failed outcome; not if only some tests ran.
    """
    if len(outcomes) > MAX_TESTS:
        return unusable_result("error", f"The report has {len(outcomes)} tests; at most {MAX_TESTS} can be read.")
    failed = [name for name, outcome in outcomes.items() if outcome in {"failed", "error"}]
    # Code that ends the process with 0 at exit hides failures from the exit code.
    if failed and exit_code == 0:
        return unusable_result(
            "error", f"The report has failed tests, but the exit code is 0: {join_limited(failed, 1)}."
        )
    if not any(outcome != "skipped" for outcome in outcomes.values()):
        return unusable_result("vacuous", "It ran no tests." if not outcomes else "Every test was skipped.", outcomes)
    if exit_code != 0 and not failed and whole:
        return RunnerResult(
            outcomes={**outcomes, EXIT_OUTCOME: "failed"}, why=f"All tests passed, but the exit code is {exit_code}."
        )
    return RunnerResult(outcomes=outcomes)
