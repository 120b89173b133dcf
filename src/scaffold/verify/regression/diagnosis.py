"""Explain why a gate cannot judge anything at the base, from its output."""

import re
from collections.abc import Sequence

from scaffold.core.gates import GateRun
from scaffold.verify.contract.checks import COMMAND_NOT_EXECUTABLE, COMMAND_NOT_FOUND
from scaffold.verify.readiness import NotReady

MISSING_PATTERNS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern, re.MULTILINE), words)
    for pattern, words in (
        (r"No module named '?([\w.]+)'?", "the Python module `{}` is not installed"),
        (r"cannot import name '(\w+)'", "the Python name `{}` cannot be imported"),
        (r"Cannot find (?:module|package) '([^']+)'", "the Node module `{}` is not installed"),
        (r"missing go\.sum entry for module providing package (\S+?)[;:\s]", "go.sum has no entry for `{}`"),
        (r"no required module provides package (\S+?)[;:\s]", "the Go package `{}` is missing"),
        (r"no matching package named `([^`]+)`", "the Rust package `{}` is missing"),
        (r"unresolved import `([^`]+)`", "the Rust import `{}` cannot be resolved"),
        (r"ECONNREFUSED (\S+:\d+)", "no service answers at {}"),
        (r"[Cc]onnection (?:to \S+ )?refused[^\n]*?(\w[\w.-]*:\d+)", "no service answers at {}"),
        (r'connection to server at "([^"\s]+)"[^\n]* failed', "no service answers at {}"),
        (r"(\w[\w.-]*:\d+)[^\n]*[Cc]onnection refused", "no service answers at {}"),
        (r"[Cc]onnection (refused)", "a required service does not answer (connection {})"),
        (r"[Nn]o such file or directory: '([^']+)'", "the file {} is missing"),
        (r"ENOENT: no such file or directory, \w+ '([^']+)'", "the file {} is missing"),
        (r"(?:^|: )([\w./+-]+): (?:command )?not found$", "the program `{}` was not found"),
        (r"command not found: ([\w./+-]+)", "the program `{}` was not found"),
        (r"rustup could not choose a version of (\w+) to run", "rustup has no default toolchain, so there is no `{}`"),
        (r"can't open file '([^']+)'", "the file {} is missing"),
    )
)
"""Patterns in output that name something missing, the most informative first; the first match counts."""

_SERVICE = re.compile(
    r"^The (service `.+` (?:was not started: |ended with exit code |did not listen ).+)\.$", re.MULTILINE
)
"""The line printed instead of a check whose service did not start; the service's own output follows it."""


def missing_dependency(output: str) -> str | None:
    """Return what the output says is missing; None if it names nothing."""
    for pattern, words in MISSING_PATTERNS:
        found = pattern.search(output)
        if found:
            return words.format(found[1])
    return None


def unready_reason(run: GateRun, *, given: bool, setup: Sequence[str] = ()) -> NotReady | None:
    """Return why a gate's run at the base is unusable as a baseline; None if it is usable.

    `given` is True if the user configured the gate; `setup` are commands that were skipped and may be needed. A
    detected gate that is no test gate never stops the run: it is left out instead.
    """
    if run.gate.kind != "test" and not given:
        return None
    problem = _problem(run)
    if problem is None:
        return None
    return NotReady(
        what=f"the gate `{run.gate.name}` ({run.gate.command}) cannot judge any work: {problem}",
        fix=_fix(run, setup),
        detail=run.detail,
    )


def _problem(run: GateRun) -> str | None:
    missing = _missing_service(run) or missing_dependency(run.detail)
    match run.trouble:
        case "timeout":
            return f"it timed out after {run.duration_s:.0f} s"
        case "vacuous":
            return "it ran no tests although there are some" if run.gate.kind == "test" else "it judged nothing"
        case "error":
            return missing or _run_error(run)
        case None:
            return _no_passing_test(run, missing)


def _missing_service(run: GateRun) -> str | None:
    """Return which service was not ready and, if its output says so, what it lacked; None if none failed."""
    found = _SERVICE.search(run.detail) if run.trouble == "error" else None
    if found is None:
        return None
    cause = missing_dependency(run.detail[found.end() :])
    return f"the {found[1]}" + (f", because {cause}" if cause else "")


def _run_error(run: GateRun) -> str:
    if run.exit_code in {COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE}:
        return f"its command could not be run (exit code {run.exit_code})"
    first = run.detail.strip().partition("\n")[0].rstrip(".")
    return first[:1].lower() + first[1:] if first else f"it exited with code {run.exit_code}"


def _no_passing_test(run: GateRun, missing: str | None) -> str | None:
    """Return the problem of a run without trouble in which no test passes: it cannot tell good work from bad."""
    if run.gate.kind != "test":
        return None
    if run.gate.runner == "exit":
        return missing if run.exit_code != 0 else None
    if any(outcome in {"passed", "flaky"} for outcome in run.outcomes.values()):
        return None
    return missing or f"none of its {len(run.outcomes)} tests passes"


def _fix(run: GateRun, setup: Sequence[str]) -> str:
    alternative = f"set another command in `quality_gates.{run.gate.kind}`, or turn it off with `off`"
    if run.trouble == "timeout":
        return f"Give it more time with `quality_gates.timeout_s`; or {alternative}."
    if _missing_service(run):
        return f"Fix it in `services`; or {alternative}."
    if setup:
        return f"Run `scaffold trust` so that `{' && '.join(setup)}` may run; or {alternative}."
    return f"Make `{run.gate.command}` work in a clean checkout, or name what it needs in `setup`; or {alternative}."
