"""Contracts: what must hold in a tree before an action's effects may become facts, and the results of checking it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from scaffold.core.ids import Commit
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.proof.gates import GateResult


class Citation(Struct, frozen=True):
    """A line of the reviewed commit; `file` is relative to the top of the tree."""

    file: str
    line: Annotated[int, Meta(ge=1)]
    note: str = ""
    before: bool = False
    """True for a line as it was before the change, such as one of a deleted test."""


class Review(Struct, frozen=True, kw_only=True):
    """A reviewer's verdict with its citations."""

    verdict: Literal["approve", "reject"]
    citations: tuple[Citation, ...] = ()
    summary: str


class ExitCode(Struct, frozen=True, tag="exit"):
    """The command must exit with exactly this code."""

    code: int


class OutputContains(Struct, frozen=True, tag="output"):
    """The command's standard output must contain this text, and its exit code must be 0."""

    text: str


Expectation = ExitCode | OutputContains


class Check(Struct, frozen=True, kw_only=True):
    """One command of a contract, run by a shell in the root of the checked tree."""

    command: str
    expect: Expectation = field(default_factory=lambda: ExitCode(0))
    description: str = ""
    required: bool = True
    timeout_s: float | None = None
    """Seconds; None means max(60, 3x the baseline's duration)."""


class Contract(Struct, frozen=True, kw_only=True):
    """Commands and file constraints. Globs are relative to the tree's root and support `**`."""

    intent: str = ""
    commands: tuple[Check, ...] = ()
    must_exist: tuple[str, ...] = ()
    must_not_exist: tuple[str, ...] = ()
    must_not_change: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """True if the contract checks nothing."""
        return not (self.commands or self.must_exist or self.must_not_exist or self.must_not_change)


ContractPhase = Literal["draft", "final"]


class SealedContract(Struct, frozen=True, kw_only=True):
    """A contract of an action as stored, where the agent working on the action cannot change it."""

    phase: ContractPhase
    contract: Contract
    sha256: str
    """Hash of the stored contract, in hex."""


CheckVerdict = Literal["pass", "fail", "warn", "error", "timeout", "vacuous"]
SafetyRefusal = Literal["undeclared", "kept", "forbidden"]
"""Why a change of a path may not land, whatever the work shows: the task does not declare it | its contract keeps it
as it is | no task may change it. The change itself decides, before any of its code runs."""
BLOCKING_CHECK_VERDICTS: frozenset[CheckVerdict] = frozenset({"fail", "error", "timeout", "vacuous"})


class CheckResult(Struct, frozen=True, kw_only=True):
    """The result of one check at one commit."""

    name: str
    """The command, or the constraint as `must_exist: GLOB`."""
    verdict: CheckVerdict
    exit_code: int | None = None
    """None for file constraints and for commands killed by a signal or a timeout."""
    detail: str = ""
    """The end of the output, or what was expected and what was found."""
    log: str = ""
    """The file with the whole output of a check that did not pass, if `detail` has only a part of it; relative to the
    user's checkout if it is there."""
    duration_s: float = 0.0
    output_hash: str | None = None
    """SHA-256 of the whole standard output; None for file constraints."""
    safety_refusal: SafetyRefusal | None = None
    """Set if the result ends the attempt, and its action, at once: only a human can allow the change or ask again."""


def blocking_results(results: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """Return the results that block, in order."""
    return tuple(result for result in results if result.verdict in BLOCKING_CHECK_VERDICTS)


DoubtCode = Literal[
    "no_contract",
    "passes_without_work",
    "not_executed",
    "tests_removed",
    "tests_changed",
    "tests_lost",
    "suppressions",
    "vacuous_tests",
    "tests_not_passed",
    "flaky_tests",
    "ended_early",
    "functions_replaced",
    "settings_changed",
    "checks_changed",
    "gates_weakened",
    "gates_blind",
    "criteria_not_cited",
    "environment_made",
]


class Doubt(Struct, frozen=True):
    """A reason why passing all checks does not show that the work is right."""

    code: DoubtCode
    text: str
    """A phrase for people, with the numbers and names that matter: `12 changed lines, 0 executed`."""
    answer: str = ""
    """What settles it without a look, as a phrase: that nothing in the change has a meaning for the program. Empty if
    nothing does, so that the doubt is open."""


class ExecutedLines(Struct, frozen=True):
    """How many lines that a change adds can be executed, and how many of them the required checks executed."""

    total: int
    executed: int


class CheckReach(Struct, frozen=True, kw_only=True):
    """What a check was seen to reach of a change."""

    check: str
    """The command."""
    lines: Mapping[str, tuple[tuple[int, int], ...]] = {}
    """The changed lines that it executed, by path: first and last of each range, at the verified commit."""
    tests: tuple[str, ...] = ()
    """The files whose tests it ran."""


Strength = Literal["proven", "reviewed", "unchanged behaviour", "weak"]
"""How much the evidence says: no doubt is left | a reviewer or a human agreed in spite of doubts | the change means
nothing to the program, which answers all doubts | doubts remain. JSON says `unchanged` for the third."""
STRENGTHS: Sequence[Strength] = ("weak", "unchanged behaviour", "reviewed", "proven")
"""In the order of a reader: what to look at first."""


def open_doubts(doubts: Sequence[Doubt]) -> tuple[Doubt, ...]:
    """Return the doubts that nothing answers."""
    return tuple(doubt for doubt in doubts if not doubt.answer)


def reasons_of(doubts: Sequence[Doubt]) -> tuple[str, ...]:
    """Return what people are told: the open doubts, or else what answers all of them."""
    return tuple(doubt.text for doubt in open_doubts(doubts)) or tuple(dict.fromkeys(each.answer for each in doubts))


def strength_of(doubts: Sequence[Doubt], *, reviewed: bool) -> Strength:
    """Return the weight of evidence with these doubts."""
    if not doubts:
        return "proven"
    if reviewed:
        return "reviewed"
    return "weak" if open_doubts(doubts) else "unchanged behaviour"


def evidence_json(doubts: Sequence[Doubt], strength: Strength) -> dict[str, object]:
    """Return what JSON says of the weight of evidence: doubts are the open ones."""
    return {
        "strength": strength.partition(" ")[0],
        "weak": strength == "weak",
        "doubts": [{"code": each.code, "text": each.text} for each in open_doubts(doubts)],
    }


class ChangeReview(Struct, frozen=True, kw_only=True):
    """A second reviewer's verdict about one change of one action, valid for this change on this base only."""

    review: Review
    model: str
    """The model string of the reviewer."""
    base: Commit
    change: str
    """The SHA-256 of the change's paths, modes and blobs before and after."""
    doubts: tuple[DoubtCode, ...] = ()
    """The doubts that the reviewer knew; it has decided about no others."""
    lost: tuple[str, ...] = ()
    """The lost tests that the reviewer was asked about."""
    counts: bool = True
    """False if the reviewer misses too many planted faults: its approval then lifts no doubt."""

    @property
    def approves(self) -> bool:
        """Whether it approves, and that counts."""
        return self.review.verdict == "approve" and self.counts

    def holds_for(self, base: Commit, change: str, doubts: Sequence[Doubt], lost: Sequence[str] = ()) -> bool:
        """Return True if the verdict is about this change, these doubts and these lost tests."""
        same = (self.base, self.change) == (base, change)
        return same and {doubt.code for doubt in doubts} <= {*self.doubts} and {*lost} <= {*self.lost}


class Verification(Struct, frozen=True, kw_only=True):
    """All results of one contract at one commit."""

    commit: Commit
    results: tuple[CheckResult, ...]
    doubts: tuple[Doubt, ...] = ()
    """Why passing does not show that the work is right; empty if nothing speaks against it."""
    reviewed: bool = False
    """True if a second reviewer or a human agreed to exactly this change in spite of the doubts."""
    accepted: tuple[str, ...] = ()
    """The lost tests whose loss a second reviewer or a human agreed to, by name; no others may be lost."""
    review: ChangeReview | None = None
    """The second reviewer's verdict about exactly this change; None if none was given."""
    failed_on_base: tuple[str, ...] = ()
    """Names of the checks that failed on the base; only these show that the work made a difference."""
    gates: tuple[GateResult, ...] = ()
    executed_lines: ExecutedLines | None = None
    """The changed lines that checks executed; None if there are none or they are unknown."""
    reach: tuple[CheckReach, ...] = ()
    """Which of the changed lines each check executed, as far as it was observed."""
    merged: tuple[FileMerge, ...] = ()
    """The outcome for each file that both the work and newer landings changed, if one was in conflict."""
    proof_key: str = ""
    """Hash of what was proven and how; empty if the work may have been proven in a checkout that was not clean."""

    @property
    def strength(self) -> Strength:
        """How much passing says."""
        return strength_of(self.doubts, reviewed=self.reviewed)

    @property
    def passed(self) -> bool:
        """True if no check and no gate blocks."""
        return not self.failures and not self.broken_gates

    @property
    def settled_tests(self) -> frozenset[str]:
        """The names of the tests of the base about which this work decided: removed, replaced or moved ones."""
        return frozenset(name for gate in self.gates for name in gate.base_tests)

    @property
    def is_safety_refusal(self) -> bool:
        """Whether a result ends the attempt at once."""
        return any(result.safety_refusal for result in self.failures)

    @property
    def broken_gates(self) -> tuple[GateResult, ...]:
        """The gates that block, in order."""
        return tuple(gate for gate in self.gates if gate.blocks)

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The check results that block, in order."""
        return blocking_results(self.results)
