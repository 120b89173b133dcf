"""Quality gates: checks of the whole repository, and how a change compares with the baseline before it."""

from collections.abc import Container, Mapping
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import Commit

GateKind = Literal["test", "build", "lint", "typecheck", "hooks"]
"""`hooks`: what the repository runs before a commit, which judges the files of one change."""
RunnerKind = Literal[
    "pytest", "unittest", "go", "jest", "vitest", "mocha", "node", "cargo", "findings", "exit", "hooks"
]
"""How a gate's report is parsed: as a test runner's | as one finding per line | by exit code only | hook by hook."""
EXIT_OUTCOME = "exit"
"""The name of the outcome that is derived from the exit code."""
TestOutcome = Literal["passed", "failed", "skipped", "error", "flaky"]
"""The outcome of one test or finding (a finding is `failed`). `flaky`: failed, then passed without a change."""
PASSING_OUTCOMES: frozenset[TestOutcome] = frozenset({"passed", "flaky"})
TestVerdict = Literal["pass", "new_failure", "pre_existing", "fixed", "flaky", "skipped"]
"""A test compared with the baseline."""
TestFate = Literal["moved", "removed", "changed", "lost"]
"""What became of a test of the base that is gone or changed, by running its base version on the new code: it passes |
it cannot resolve a name that the change removed | it fails, and a changed version of it passes | it fails or is
skipped, and no version of it passes."""
GateVerdict = Literal[
    "pass", "new_failure", "pre_existing", "fixed", "flaky", "vacuous", "error", "timeout", "not_applicable"
]
"""A gate compared with the baseline: the worst verdict of its tests, or the failure of the whole run.

`vacuous`: the gate exists but ran nothing. `error`: the tool is missing or crashed, or its report cannot be trusted.
"""
GateRunProblem = Literal["vacuous", "error", "timeout"]
BLOCKING_GATE_VERDICTS: frozenset[GateVerdict] = frozenset({"new_failure", "vacuous", "error", "timeout"})
RED_ANYWAY = "fails before the work with nothing in it that passes, so it cannot tell good work from bad"
GREEN_ANYWAY = "also passes if no file of the code can be read, so passing says little about the work"


class Gate(Struct, frozen=True, kw_only=True):
    """One command that checks a repository or one of its packages."""

    kind: GateKind
    command: str
    """Run by /bin/sh in `folder`."""
    runner: RunnerKind = "exit"
    folder: str = ""
    """Relative to the repository's top; `""` is the top itself."""
    timeout_s: float | None = None
    """Seconds; None means max(60, 3x the baseline's duration)."""
    advisory: bool = False
    """Whether it only warns: it was detected, but the project's own set-up never runs it."""
    part: str = ""
    """What it checks beside the other gates of its kind, such as `format:check`; empty for the first one."""

    @property
    def name(self) -> str:
        """The display name: `test`, `lint (format:check)`, or `test (packages/api)`."""
        place = ", ".join(filter(None, (self.folder, self.part)))
        return f"{self.kind} ({place})" if place else self.kind


class TaggedTests(Struct, frozen=True, kw_only=True):
    """Tests to run in addition when a matching path changes, selected by tag."""

    path: str
    """A path, folder or glob, relative to the repository's top."""
    tags: tuple[str, ...]
    """Written as `@TAG` in a test file, or as a pytest marker."""


class CopiedFolder(Struct, frozen=True, kw_only=True):
    """A folder copied into each checkout before its checks, such as installed dependencies."""

    source: str
    """Absolute path."""
    target: str
    """Path relative to the checkout's top."""
    made_for: str
    """Absolute path of the checkout it was created in; some of its files contain this path."""


class CopiedFile(Struct, frozen=True, kw_only=True):
    """A file that git ignores, copied into each worktree; it never lands.

    Either `.worktreeinclude` names it, or a build made it.
    """

    source: str
    """Absolute path of the copy that was made before the work."""
    target: str
    """Path relative to the checkout's top."""


class CheckEnvironment(Struct, frozen=True, kw_only=True):
    """The environment of a run's checks, independent of the user's shell; `{top}` is the checkout's top."""

    fingerprint: str
    """Hash of everything that can change a check's result: interpreters, lock files, platform, set-up."""
    path: tuple[str, ...] = ()
    """Folders put first on PATH."""
    variables: Mapping[str, str] = {}
    copies: tuple[CopiedFolder, ...] = ()
    files: tuple[CopiedFile, ...] = ()
    built: tuple[CopiedFile, ...] = ()
    """Files that a build made from sources; wrong where a source has changed since."""
    shown: tuple[str, ...] = ()
    """Absolute paths outside the checkout that checks may read."""
    installed: tuple[str, ...] = ()
    """Module names that installed Python distributions take; parts of namespace packages with dots."""
    services: tuple[str, ...] = ()
    """Services on each check's loopback: commands that run as long as the check, or addresses outside."""
    made_by_work: str = ""
    """What of unlanded work took part in making it; empty if nothing did. It then serves that tree alone."""


class Regression(Struct, frozen=True, kw_only=True):
    """A test or finding that is worse than in the baseline, with what the runner said of it."""

    name: str
    kind: Literal["fails", "missing", "skipped", "finding"]
    """`missing` and `skipped`: it passed before."""
    file: str | None = None
    """The file that it is in, relative to the repository's top; None if unknown."""
    line: int | None = None
    """The line of a finding; None if unknown."""
    source: str = ""
    """That line of the file."""
    message: str = ""
    """The runner's message, may be empty. For a missing or skipped test, about its earlier version."""


class GateRun(Struct, frozen=True, kw_only=True):
    """The result of one run of a gate at one commit."""

    gate: Gate
    commit: Commit
    environment: str
    """The environment's fingerprint; results from different environments are not comparable."""
    exit_code: int | None
    """None if killed by a signal or the timeout."""
    problem: GateRunProblem | None = None
    """Why the outcomes are unusable; None if they are valid."""
    outcomes: Mapping[str, TestOutcome] = {}
    """By the runner's test id; a finding by its file and code, or its text without the line number."""
    counts: Mapping[str, int] = {}
    """How often a finding occurs, if more than once."""
    messages: Mapping[str, tuple[str, ...]] = {}
    """What the tool said of each finding, without line numbers, and of failed tests."""
    lines: Mapping[str, tuple[int, ...]] = {}
    """The line of each of these messages about a finding."""
    refused: Mapping[str, str] = {}
    """Failed tests that cannot be checked here, with what the sandbox forbids."""
    unloaded: tuple[str, ...] = ()
    """Test files and packages that could not be loaded. That is a problem, unless they could not before the work."""
    absent: Mapping[str, str] = {}
    """Tools of commit hooks that cannot run here, each with the reason, while others can."""
    replaced: tuple[str, ...] = ()
    """Functions of the test runner or of the language that code in its process replaced, sorted."""
    detail: str = ""
    """The end of the output, with secrets removed."""
    log: str = ""
    """The file with the whole output, if the run cannot judge work or something failed in it; relative to the user's
    checkout if it is there."""
    duration_s: float = 0.0
    output_hash: str | None = None
    """SHA-256 of the whole standard output."""

    @property
    def blind(self) -> str:
        """Why no work can make it worse, as the predicate of a sentence; empty if some can, or nothing is known."""
        # Hooks are compared with what they say of the same files, not with this run.
        if self.problem or self.gate.runner == "hooks" or not {"failed", "error"}.intersection(self.outcomes.values()):
            return ""
        shown = PASSING_OUTCOMES.intersection(self.outcomes.values())
        return "" if shown or _names_findings(self.gate, self.outcomes) else RED_ANYWAY


class GateResult(Struct, frozen=True, kw_only=True):
    """A gate compared with its baseline; shown to users, stored with the candidate, used as evidence."""

    gate: Gate
    verdict: GateVerdict
    tests: Mapping[str, TestVerdict] = {}
    """The tests that did not simply pass, a few hundred at most; `counts` covers all of them."""
    regressions: tuple[Regression, ...] = ()
    """A few of the new failures, with what the runner said of them."""
    base_tests: Mapping[str, TestFate] = {}
    """What became of the base's tests in declared files that changed, a few hundred at most; those that simply pass as
    before are left out. `lost` ones block, unless a reviewer or a human agreed."""
    new_tests: tuple[str, ...] = ()
    """The tests that pass and that neither the baseline nor the base knew, if `base_tests` has any; a few hundred at
    most. They may stand for tests that moved."""
    refused: Mapping[str, str] = {}
    """The tests that cannot be checked here, with what the sandbox forbids; they failed before the work, too."""
    varying: tuple[str, ...] = ()
    """The names of tests that change from run to run, with `…` for what changes; matched by position."""
    counts: Mapping[TestVerdict, int] = {}
    passes_unread: bool = False
    """Whether it also passes on code that nothing can read: what it shows has nothing to do with the work."""
    replaced: tuple[str, ...] = ()
    """Functions of the language that code of the work replaced while its tests ran, sorted."""
    focused: bool = False
    """True if only the tests related to the change ran."""
    exit_code: int | None = None
    detail: str = ""
    log: str = ""
    """The file with the whole output, as in its run; empty if there is none."""
    duration_s: float = 0.0
    output_hash: str | None = None

    @property
    def blocks(self) -> bool:
        """True if this result prevents landing."""
        return self.verdict in BLOCKING_GATE_VERDICTS and not self.gate.advisory

    @property
    def counts_for_work(self) -> bool:
        """True if this result is evidence for the work: it does not block, and it could have."""
        return self.verdict != "not_applicable" and self.verdict not in BLOCKING_GATE_VERDICTS and not self.blind

    @property
    def blind(self) -> str:
        """Why it could not have refused any work, as the predicate of a sentence; empty if it could have."""
        if self.passes_unread:
            return GREEN_ANYWAY
        shown = self.verdict != "pre_existing" or self.counts.keys() - {"pre_existing", "skipped"}
        return "" if shown or _names_findings(self.gate, self.tests) else RED_ANYWAY

    @property
    def warns(self) -> bool:
        """True if this result would prevent landing if the project's own set-up ran the gate."""
        return self.verdict in BLOCKING_GATE_VERDICTS and self.gate.advisory


def _names_findings(gate: Gate, names: Container[str]) -> bool:
    # Old findings hide no new ones, but an exit code does.
    return gate.runner == "findings" and EXIT_OUTCOME not in names


class Baseline(Struct, frozen=True, kw_only=True):
    """The baseline of a run's changes: the environment, and the gates' results before any change."""

    environment: CheckEnvironment
    runs: tuple[GateRun, ...]
