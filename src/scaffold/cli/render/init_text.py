"""What `init` shows: the checks and set-up commands that it found, why, and what each gave."""

import sys
from collections.abc import Iterator, Mapping

from scaffold.cli.render.terminal.style import status_mark
from scaffold.cli.render.terminal.text_layout import layout_for
from scaffold.run.trial.gate_verdicts import GateTrial, Trial, TrialVerdict
from scaffold.verify.gates.detection import DetectedGates
from scaffold.verify.gates.projects.project import Reason
from scaffold.views.text_format import format_seconds

LABEL = 11
"""Columns of the labels."""
OUTPUT_LINES = 8
"""Lines at the end of the output of a failed set-up that are shown."""
ADVISORY = "only warns: your own checks never run it"
MARKS: Mapping[TrialVerdict, str] = {
    "passes": "pass",
    "fails": "warn",
    "ran_nothing": "vacuous",
    "cannot_judge": "error",
    "not_tried": "skipped",
}
"""The status whose mark is shown, by verdict."""


def found_lines(detection: DetectedGates) -> Iterator[str]:
    """Yield the set-up commands and checks, each with the file and line that says so."""
    for number, command in enumerate(detection.setup):
        yield from labelled("setup" if number == 0 else "", command)
        yield from _reason_lines(detection.reasons.get(command))
    for gate in detection.gates:
        yield from labelled(gate.name, gate.command)
        if gate.advisory:
            yield from labelled("", ADVISORY, indent=2)
        yield from _reason_lines(detection.reasons.get(gate.name))
    for note in detection.notes:
        yield from labelled("note", note)


def result_lines(result: GateTrial) -> Iterator[str]:
    """Yield what a gate gave, and where its whole output is."""
    took = f" ({format_seconds(result.duration_s)})" if result.duration_s >= 1 else ""
    first, *rest = labelled(result.name, f"{result.summary}{took}")
    yield f"{status_mark(MARKS[result.verdict])} {first.removeprefix('  ')}"
    yield from rest
    if result.log:
        yield from labelled("", f"the whole output: {result.log}")


def problem_lines(trial: Trial) -> Iterator[str]:
    """Yield why nothing could be tried, and the end of what the set-up printed."""
    yield from labelled("problem", trial.problem)
    for line in [line for line in trial.output.splitlines() if line.strip()][-OUTPUT_LINES:]:
        yield from labelled("", line, indent=2)


def labelled(label: str, text: str, indent: int = 0) -> Iterator[str]:
    """Yield a label and a text, whose lines fit the terminal and begin in the same column; one line in a pipe."""
    head = f"  {label:<{LABEL - 1}} {' ' * indent}"
    yield from layout_for(sys.stdout).prose(head, " ".join(text.split()))


def _reason_lines(reason: Reason | None) -> Iterator[str]:
    if reason is not None:
        yield from labelled("", reason.text, indent=2)
