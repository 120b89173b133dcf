"""Quality gates: what the whole repository has to keep, and how a change did against what was there before it."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import Commit

GateKind = Literal["test", "build", "lint", "typecheck"]
Runner = Literal["pytest", "unittest", "go", "jest", "vitest", "node", "cargo", "findings", "exit"]
"""Who runs a gate, and so how its report is read: a test runner | one finding a line | by its exit code alone."""

TestOutcome = Literal["passed", "failed", "skipped", "error", "flaky"]
"""What one run showed of one test, or of one finding, which `failed`; `flaky`: it failed, then passed unchanged."""
TestVerdict = Literal["pass", "new_failure", "pre_existing", "fixed", "flaky", "skipped"]
"""How a test did against the baseline."""
Withdrawal = Literal["passes", "removed", "moved"]
"""Why a test that is gone is no loss: it still passes as it was | what it tested is gone, too | another of its name
passes in its place."""
GateVerdict = Literal[
    "pass", "new_failure", "pre_existing", "fixed", "flaky", "vacuous", "error", "timeout", "not_applicable"
]
"""How a gate did against the baseline; the worst of its tests, or what became of the whole of it.

`vacuous`: it is there, and ran nothing. `error`: no tool, a crash, a report that cannot be read or believed.
"""
Trouble = Literal["vacuous", "error", "timeout"]
BLOCKING_GATES: frozenset[GateVerdict] = frozenset({"new_failure", "vacuous", "error", "timeout"})


class Gate(Struct, frozen=True, kw_only=True):
    """One command that judges a repository, or a package of it."""

    kind: GateKind
    command: str
    """For /bin/sh, in `folder`."""
    runner: Runner = "exit"
    folder: str = ""
    """From the top of the repository; `""` for the top itself."""
    timeout_s: float | None = None
    """Seconds; None means max(60, 3x what the baseline took)."""

    @property
    def name(self) -> str:
        """What people call it: `test`, or `test (packages/api)`."""
        return f"{self.kind} ({self.folder})" if self.folder else self.kind


class Tagged(Struct, frozen=True, kw_only=True):
    """Tests that are asked besides where a path changes, by what they are tagged with."""

    path: str
    """A path, folder or glob, from the top of the repository."""
    tags: tuple[str, ...]
    """As in `@TAG` in a file of tests, or as pytest's marker."""


class Copied(Struct, frozen=True, kw_only=True):
    """A folder that each checkout gets a copy of before it is checked, such as the installed dependencies."""

    source: str
    """Absolute."""
    target: str
    """From the top of the checkout."""
    made_for: str
    """The absolute path of the checkout it was made in, which stands in some of its files."""


class CheckEnvironment(Struct, frozen=True, kw_only=True):
    """What the checks of a run stand on, whatever the user's shell was like; `{top}` is the top of the checkout."""

    fingerprint: str
    """A hash over all that decides what a check finds: interpreters, lock files, platform, what was set up."""
    path: tuple[str, ...] = ()
    """Folders that come first when a program is looked for."""
    variables: Mapping[str, str] = {}
    copies: tuple[Copied, ...] = ()
    shown: tuple[str, ...] = ()
    """Folders outside of the checkout that checks read; absolute."""
    services: tuple[str, ...] = ()
    """Lines of what each check finds on its loopback: commands that are ended with it, or what is outside."""


class GateRun(Struct, frozen=True, kw_only=True):
    """What one run of a gate showed at one commit."""

    gate: Gate
    commit: Commit
    environment: str
    """What it ran on, as a hash: what was shown on another environment says nothing of this one."""
    exit_code: int | None
    """None when a signal or the deadline ended it."""
    trouble: Trouble | None = None
    """Why its outcomes say nothing; None where they count."""
    outcomes: Mapping[str, TestOutcome] = {}
    """By the runner's own names for its tests; for findings by the finding without its line number."""
    counts: Mapping[str, int] = {}
    """How often a finding was there, where that is more than once."""
    detail: str = ""
    """The end of what it printed, without secrets."""
    duration_s: float = 0.0
    output_hash: str | None = None
    """SHA-256 of all it printed on standard output."""


class GateResult(Struct, frozen=True, kw_only=True):
    """How a gate did against its baseline: what is shown, stored with the candidate, and becomes evidence."""

    gate: Gate
    verdict: GateVerdict
    tests: Mapping[str, TestVerdict] = {}
    """The tests that did not simply pass, at most some hundred; `counts` has them all."""
    withdrawn: Mapping[str, Withdrawal] = {}
    """The tests that were taken out of declared files and are no loss, at most some hundred."""
    counts: Mapping[TestVerdict, int] = {}
    focused: bool = False
    """Whether only the tests ran that have to do with the change."""
    exit_code: int | None = None
    detail: str = ""
    duration_s: float = 0.0
    output_hash: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether nothing may land with this."""
        return self.verdict in BLOCKING_GATES


class Baseline(Struct, frozen=True, kw_only=True):
    """What a run is held against: how its gates did before any of its work, and on what."""

    environment: CheckEnvironment
    runs: tuple[GateRun, ...]
