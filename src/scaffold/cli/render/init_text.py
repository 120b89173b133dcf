"""The output of `init`: the checks and set-up commands that it found, and the `.scaffold.yaml` that it writes.

In the file, checks that can judge are set, and everything else is a comment.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence

import yaml

from scaffold.cli.render.terminal.style import status_mark
from scaffold.cli.render.terminal.text_layout import layout_for
from scaffold.core.printable_text import printable
from scaffold.core.proof.gates import Gate, GateKind
from scaffold.run.trial.gate_verdicts import GateTrial, Trial, TrialVerdict
from scaffold.verify.gates.detection import DetectedGates
from scaffold.verify.gates.projects.project import Reason
from scaffold.verify.regression.baseline_capture import ADVISORY
from scaffold.views.text_format import format_seconds

LABEL = 11
"""Columns of the labels."""
OUTPUT_LINES = 8
"""Lines at the end of the output of a failed set-up that are shown."""
ONLY_WARNS = "only warns: your own checks never run it"
MARKS: Mapping[TrialVerdict, str] = {
    "passes": "pass",
    "fails": "warn",
    "ran_nothing": "vacuous",
    "cannot_judge": "error",
    "not_tried": "skipped",
}
"""The status with the same mark, by verdict."""

MAX_COMMAND_CHARS = 10_000
"""Columns after which YAML would fold a command."""
HEADER = """\
# Scaffold's settings for this repository. To set one, remove the `#` before it.
# This file applies to users who have run `scaffold trust` here. It can tighten
# their settings, not loosen them.
# `scaffold config KEY VALUE` sets one, too; `--user`: for you, in all repositories.

# model: anthropic:NAME           # the model of all agents; see `scaffold config model`
# tier: builder                   # quick, scout, builder, architect or auto
# agents: 3                       # agents in parallel; overrides the tier
# budget_usd: 5.00                # no model request starts beyond this
# approvals: {network: deny}      # of file_write, shell, network, ...: ask or deny
# permissions:
#   deny: ["shell:git push *"]    # always wins over an allowing rule
# sandbox: {mode: require, network: none}
# tiers:
#   builder: {agents: 3, iterations: 5, timeout_min: 15}
"""

SETUP = "Commands found here that prepare a checkout; they run once you trust this folder. `off` for none."
CHECKS = "Checks found here. A command of yours, or `off`, replaces one; it then counts in any case."


def found_lines(detection: DetectedGates) -> Iterator[str]:
    """Yield the set-up commands and checks, each with the file and line that says so."""
    for number, command in enumerate(detection.setup):
        yield from labelled("setup" if number == 0 else "", command)
        yield from _reason_lines(detection.reasons.get(command))
    for gate in detection.gates:
        yield from labelled(gate.name, gate.command)
        if gate.advisory:
            yield from labelled("", ONLY_WARNS, indent=2)
        yield from _reason_lines(detection.reasons.get(gate.name))
    for note in detection.notes:
        yield from labelled("note", note)


def result_lines(result: GateTrial) -> Iterator[str]:
    """Yield the result of a gate, and the path of its whole output."""
    took = f" ({format_seconds(result.duration_s)})" if result.duration_s >= 1 else ""
    first, *rest = labelled(result.name, f"{result.summary}{took}")
    yield f"{status_mark(MARKS[result.verdict])} {first.removeprefix('  ')}"
    yield from rest
    if result.log:
        yield from labelled("", f"the whole output: {result.log}")


def problem_lines(trial: Trial) -> Iterator[str]:
    """Yield the reason why nothing could be tried, and the end of the set-up's output."""
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


def configuration_text(detection: DetectedGates, trial: Trial | None) -> str:
    """Return the text of the file; without a trial all of it is comments."""
    text = HEADER
    if detection.setup:
        lines = ["setup:"]
        for command in detection.setup:
            lines += (*_reason_comment(detection, command), *(f"  {line}" for line in _yaml_lines([command])))
        ready = trial is not None and not trial.problem
        text += f"\n# {SETUP}\n" + "".join(f"{line if ready else f'# {line}'}\n" for line in lines)
    if detection.gates:
        text += f"\n# {CHECKS}\n" + "".join(f"{line}\n" for line in _gate_lines(detection, trial))
    return text


def _gate_lines(detection: DetectedGates, trial: Trial | None) -> Iterator[str]:
    results = {each.name: each for each in trial.gates} if trial else {}
    kinds = dict[GateKind, list[Gate]]()
    for gate in detection.gates:
        kinds.setdefault(gate.kind, []).append(gate)
    blocks = [(_can_judge(gates, results), tuple(_kind_lines(detection, gates, results))) for gates in kinds.values()]
    if not any(counts for counts, _ in blocks):
        # A mapping without entries would be invalid.
        yield from ("# quality_gates:", *(f"# {line}" for _, lines in blocks for line in lines))
        return
    yield "quality_gates:"
    for counts, lines in blocks:
        yield from lines if counts else map(_commented_line, lines)


def _commented_line(line: str) -> str:
    """Return a line of a mapping as a comment in the same column; comments stay as they are."""
    return line if line.startswith("  #") else f"  # {line.removeprefix('  ')}"


def _can_judge(gates: Sequence[Gate], results: Mapping[str, GateTrial]) -> bool:
    # Setting a gate that cannot judge here would break each run.
    return all(gate.name in results and results[gate.name].judges and not gate.advisory for gate in gates)


def _kind_lines(detection: DetectedGates, gates: Sequence[Gate], results: Mapping[str, GateTrial]) -> Iterator[str]:
    # Gates in folders each run in their own: `auto`, as one command could not say that.
    for gate in gates:
        yield from _reason_comment(detection, gate.name)
        if gate.folder:
            yield f"  # {_comment_text(f'in {gate.folder}: {gate.command}')}"
        if gate.advisory:
            yield f"  # only warns: {ADVISORY}"
        if result := results.get(gate.name):
            yield f"  # {_comment_text(result.summary)}"
    # Hooks have no command of the user's: how each tool is called is known.
    plain = len(gates) == 1 and not gates[0].folder and gates[0].runner != "hooks"
    yield from (f"  {line}" for line in _yaml_lines({gates[0].kind: gates[0].command if plain else "auto"}))


def _reason_comment(detection: DetectedGates, name: str) -> Iterator[str]:
    if reason := detection.reasons.get(name):
        yield f"  # {_comment_text(reason.text)}"


def _comment_text(text: str) -> str:
    # Others wrote the text: a line break or a control character in it would end the comment.
    return printable(" ".join(text.splitlines()))


def _yaml_lines(value: object) -> Sequence[str]:
    readable, escaped = (
        yaml.safe_dump(value, sort_keys=False, width=MAX_COMMAND_CHARS, allow_unicode=unicode).splitlines()
        for unicode in (True, False)
    )
    # Characters that end a line for YAML, but not for a shell, would be read as spaces.
    return readable if yaml.safe_load("\n".join(readable)) == value else escaped
