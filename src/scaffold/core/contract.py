"""Contracts: what must be true of a tree before an action's effects may become facts, and what checking showed."""

from typing import Literal

from msgspec import Struct, field

from scaffold.core.gates import GateResult
from scaffold.core.ids import Commit


class ExitCode(Struct, frozen=True, tag="exit"):
    """The command must end with exactly this code."""

    code: int


class OutputContains(Struct, frozen=True, tag="output"):
    """The command's standard output must contain this text, whatever its exit code."""

    text: str


Expectation = ExitCode | OutputContains


class Check(Struct, frozen=True, kw_only=True):
    """One command of a contract, run by a shell in the root of the tree it judges."""

    command: str
    expect: Expectation = field(default_factory=lambda: ExitCode(0))
    description: str = ""
    required: bool = True
    timeout_s: float | None = None
    """Seconds; None means max(60, 3x what the baseline took)."""


class Contract(Struct, frozen=True, kw_only=True):
    """Commands and file constraints; globs are relative to the tree's root and know `**`."""

    intent: str = ""
    commands: tuple[Check, ...] = ()
    must_exist: tuple[str, ...] = ()
    must_not_exist: tuple[str, ...] = ()
    must_not_change: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing at all would be checked."""
        return not (self.commands or self.must_exist or self.must_not_exist or self.must_not_change)


SealPhase = Literal["draft", "final"]


class Seal(Struct, frozen=True, kw_only=True):
    """A contract of an action as it was written down, beyond the reach of whoever works on it."""

    phase: SealPhase
    contract: Contract
    sha256: str
    """Of the contract as stored, in hex."""


Verdict = Literal["pass", "fail", "warn", "error", "timeout", "vacuous"]
BLOCKING: frozenset[Verdict] = frozenset({"fail", "error", "timeout", "vacuous"})


class CheckResult(Struct, frozen=True, kw_only=True):
    """What one check showed at one commit."""

    name: str
    """The command, or the constraint as `must_exist: GLOB`."""
    verdict: Verdict
    exit_code: int | None = None
    """None for file constraints, and for commands that a signal or a deadline ended."""
    detail: str = ""
    """The end of the output, or what was expected and what was found."""
    duration_s: float = 0.0
    output_hash: str | None = None
    """SHA-256 of the whole standard output; None for file constraints."""


class Verification(Struct, frozen=True, kw_only=True):
    """All results of one contract at one commit."""

    commit: Commit
    results: tuple[CheckResult, ...]
    weak: bool = False
    """Whether nothing speaks for the work that did not speak for the base as well: no check was red there."""
    red: tuple[str, ...] = ()
    """The names of the checks that failed on the base, before the work: only they tell the work from nothing."""
    gates: tuple[GateResult, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no result and no gate blocks."""
        return not any(result.verdict in BLOCKING for result in self.results) and not self.broken_gates

    @property
    def broken_gates(self) -> tuple[GateResult, ...]:
        """The gates that block, in order."""
        return tuple(gate for gate in self.gates if gate.blocks)

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The results that block, in order."""
        return tuple(result for result in self.results if result.verdict in BLOCKING)
