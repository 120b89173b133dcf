"""What trying a gate once has shown: whether it can tell good work from bad here, and if not, what is missing."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.gates import EXIT_OUTCOME, GateKind, GateRun
from scaffold.git.repository import Repository
from scaffold.host.atomic_files import write_atomic
from scaffold.host.contained_path import ContainedPath
from scaffold.verify.gates.refusals import describe_refused
from scaffold.verify.regression.baseline_capture import gate_problem, missing_dependency
from scaffold.verify.regression.comparison import FAILING_OUTCOMES

FILE = "scaffold/trial.json"
MAX_BYTES = 1_000_000
TrialVerdict = Literal["passes", "fails", "ran_nothing", "cannot_judge", "not_tried"]
"""`fails`: on the base commit, without any work; it can judge nevertheless, unless `informative` is False."""
MAX_NAMED = 3
MAX_LINE_CHARS = 200
WORDS: Mapping[TrialVerdict, str] = {
    "passes": "passes",
    "fails": "fails on the base",
    "ran_nothing": "ran nothing",
    "cannot_judge": "cannot judge here",
    "not_tried": "not tried",
}


class GateTrial(Struct, frozen=True, kw_only=True):
    """A gate and what it gave."""

    name: str
    """`test`, or `test (packages/api)`."""
    kind: GateKind
    command: str
    folder: str = ""
    verdict: TrialVerdict
    text: str
    """What it gave, or what is missing, in one line."""
    informative: bool = True
    """False if it fails without naming what fails, so that it cannot tell good work from bad."""
    advisory: bool = False
    duration_s: float = 0.0
    log: str = ""
    """The file with the whole output, if it cannot judge."""

    @property
    def summary(self) -> str:
        """What it gave, in one line."""
        return f"{WORDS[self.verdict]}: {self.text}"

    @property
    def judges(self) -> bool:
        """Whether a run could use it here."""
        return self.verdict in {"passes", "fails"} and self.informative


class Trial(Struct, frozen=True, kw_only=True):
    """The gates of one commit, tried on this machine."""

    commit: Commit
    at: datetime
    gates: tuple[GateTrial, ...]
    problem: str = ""
    """Why nothing could be tried, with what to do; empty if the gates ran."""
    output: str = ""
    """The end of what the set-up printed, if that is the problem."""
    setup: tuple[str, ...] = ()
    """The set-up commands that prepare a checkout."""


def judged(run: GateRun) -> GateTrial:
    """Return the trial's verdict on a run of a gate."""
    verdict, text, informative = _trial_verdict(run)
    gate = run.gate
    return GateTrial(
        name=gate.name,
        kind=gate.kind,
        command=gate.command,
        folder=gate.folder,
        verdict=verdict,
        text=text,
        informative=informative,
        advisory=gate.advisory,
        duration_s=run.duration_s,
        log=run.log,
    )


def _trial_verdict(run: GateRun) -> tuple[TrialVerdict, str, bool]:
    if run.problem == "vacuous":
        said = run.detail.partition("\n")[0] or "it ran nothing"
        return "ran_nothing", "no tests were collected" if run.gate.kind == "test" else said, False
    if problem := gate_problem(run):
        # The last line of an error is mostly its cause.
        lines = [line.strip() for line in run.detail.splitlines() if line.strip()]
        known = run.problem != "error" or missing_dependency(run.detail) is not None
        cause = "" if known or len(lines) < 2 else f": {lines[-1][:MAX_LINE_CHARS]}"
        return "cannot_judge", f"{problem}{cause}", False
    failed = [name for name, outcome in run.outcomes.items() if outcome in FAILING_OUTCOMES]
    if not failed:
        told = f"exit code {run.exit_code}" if set(run.outcomes) <= {EXIT_OUTCOME} else _outcome_counts(run)
        return "passes", "no findings" if run.gate.runner == "findings" else told, True
    if failed == [EXIT_OUTCOME] and len(run.outcomes) == 1:
        return "fails", f"exit code {run.exit_code}" + (f"; it {run.blind}" if run.blind else ""), not run.blind
    if run.gate.runner == "findings":
        return "fails", count_of(sum(run.counts.get(name, 1) for name in failed), "finding"), True
    own = [name for name in failed if name not in run.refused]
    parts = [_outcome_counts(run)] + ([f"fails: {join_limited(own, MAX_NAMED)}"] if own else [])
    return "fails", "; ".join([*parts, describe_refused(run.refused)] if run.refused else parts), True


def _outcome_counts(run: GateRun) -> str:
    counts = Counter(run.outcomes.values())
    return ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(counts.items(), key=lambda each: -each[1]))


def keep_trial(repository: Repository, trial: Trial) -> None:
    """Replace the stored trial; does nothing if it cannot be written."""
    with suppress(OSError):
        write_atomic(repository.common_dir / FILE, msgspec.json.encode(trial))


def latest_trial(repository: Repository) -> Trial | None:
    """Return the stored trial; None if there is none that can be read."""
    data = ContainedPath(repository.common_dir, FILE).read(MAX_BYTES)
    try:
        return None if isinstance(data, str) else msgspec.json.decode(data, type=Trial)
    except (msgspec.MsgspecError, RecursionError):
        return None
