"""Why a gate could not show anything before the work: what is missing, as far as its output tells."""

import re
from collections.abc import Sequence

from scaffold.core.gates import GateRun
from scaffold.verify.contract import COMMAND_NOT_EXECUTABLE, COMMAND_NOT_FOUND
from scaffold.verify.readiness import NotReady

SIGNS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern, re.MULTILINE), words)
    for pattern, words in (
        (r"No module named '?([\w.]+)'?", "the Python module `{}` is not installed"),
        (r"cannot import name '(\w+)'", "the Python name `{}` cannot be imported"),
        (r"Cannot find (?:module|package) '([^']+)'", "the Node module `{}` is not installed"),
        (r"missing go\.sum entry for module providing package (\S+?)[;:\s]", "go.sum has no entry for `{}`"),
        (r"no required module provides package (\S+?)[;:\s]", "the Go package `{}` is not there"),
        (r"no matching package named `([^`]+)`", "the Rust package `{}` is not there"),
        (r"unresolved import `([^`]+)`", "the Rust import `{}` cannot be resolved"),
        (r"ECONNREFUSED (\S+:\d+)", "no service answers at {}"),
        (r"[Cc]onnection (?:to \S+ )?refused[^\n]*?(\w[\w.-]*:\d+)", "no service answers at {}"),
        (r'connection to server at "([^"\s]+)"[^\n]* failed', "no service answers at {}"),
        (r"(\w[\w.-]*:\d+)[^\n]*[Cc]onnection refused", "no service answers at {}"),
        (r"[Cc]onnection (refused)", "a service that it needs does not answer (connection {})"),
        (r"[Nn]o such file or directory: '([^']+)'", "the file {} is not there"),
        (r"ENOENT: no such file or directory, \w+ '([^']+)'", "the file {} is not there"),
        (r"(?:^|: )([\w./+-]+): (?:command )?not found$", "the program `{}` is not there"),
        (r"command not found: ([\w./+-]+)", "the program `{}` is not there"),
        (r"rustup could not choose a version of (\w+) to run", "rustup has no toolchain by default, and so no `{}`"),
        (r"can't open file '([^']+)'", "the file {} is not there"),
    )
)
"""What an output says when something is missing, in the order of how much it tells; where several do, the first."""

_SERVICE = re.compile(r"^The (service `.+` (?:was not started: |ended with exit |did not listen ).+)\.$", re.MULTILINE)
"""What is printed in place of a check whose service did not get ready, before what the service printed."""


def missing(output: str) -> str | None:
    """Return what an output says is missing, in words; None where it does not say."""
    for sign, words in SIGNS:
        found = sign.search(output)
        if found:
            return words.format(found[1])
    return None


def unready(run: GateRun, *, given: bool, setup: Sequence[str] = ()) -> NotReady | None:
    """Return why nothing may be held against what a gate showed at the base; None if it may.

    `given` tells whether the user gave the gate, `setup` are commands that were not run, and may have to be. A gate
    that was detected, and judges no tests, is never a reason: it is not asked.
    """
    if run.gate.kind != "test" and not given:
        return None
    problem = _problem(run)
    if problem is None:
        return None
    return NotReady(
        what=f"the gate `{run.gate.name}` ({run.gate.command}) cannot judge anybody's work: {problem}",
        fix=_fix(run, setup),
        detail=run.detail,
    )


def _problem(run: GateRun) -> str | None:
    absent = _unserved(run) or missing(run.detail)
    match run.trouble:
        case "timeout":
            return f"it was not finished after {run.duration_s:.0f} s"
        case "vacuous":
            return "it ran no test, and there are tests" if run.gate.kind == "test" else "it judged nothing"
        case "error":
            return absent or _told(run)
        case None:
            return _hollow(run, absent)


def _unserved(run: GateRun) -> str | None:
    """Return which service was not there, and what it missed itself as far as it says."""
    found = _SERVICE.search(run.detail) if run.trouble == "error" else None
    if found is None:
        return None
    cause = missing(run.detail[found.end() :])
    return f"the {found[1]}" + (f", as {cause}" if cause else "")


def _told(run: GateRun) -> str:
    if run.exit_code in {COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE}:
        return f"its command could not be run (exit {run.exit_code})"
    first = run.detail.strip().partition("\n")[0].rstrip(".")
    return first[:1].lower() + first[1:] if first else f"it ended with exit {run.exit_code}"


def _hollow(run: GateRun, absent: str | None) -> str | None:
    """Return what is wrong with a run that had no trouble: tests of which not one passes tell nothing apart."""
    if run.gate.kind != "test":
        return None
    if run.gate.runner == "exit":
        return absent if run.exit_code != 0 else None
    if any(outcome in {"passed", "flaky"} for outcome in run.outcomes.values()):
        return None
    return absent or f"not one of its {len(run.outcomes)} tests passes"


def _fix(run: GateRun, setup: Sequence[str]) -> str:
    otherwise = f"give another command with `quality_gates.{run.gate.kind}`, or turn it off with `off`"
    if run.trouble == "timeout":
        return f"Give it more time with `quality_gates.timeout_s`; or {otherwise}."
    if _unserved(run):
        return f"Mend it in `services`; or {otherwise}."
    if setup:
        return f"Let `{' && '.join(setup)}` be run: `scaffold trust`; or {otherwise}."
    return f"Make `{run.gate.command}` work in a clean checkout, or name what it needs in `setup`; or {otherwise}."
