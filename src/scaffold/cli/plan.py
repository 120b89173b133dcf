"""`plan check`: what is wrong with a plan file, before it costs anything."""

import sys
from pathlib import Path
from typing import Any

import click

from scaffold.cli.findings import finding_lines
from scaffold.cli.safe import printable
from scaffold.cli.screen import json_option, print_json
from scaffold.core.errors import PlanInvalid, UsageProblem
from scaffold.core.plan import Finding
from scaffold.plan.lint import LintReport, lint
from scaffold.plan.planfile import read_plan

INVALID = 4
STDIN = "-"


@click.group()
def plan() -> None:
    """Check plan files before they cost anything."""


@plan.command()
@click.argument("file")
@json_option
def check(file: str, *, as_json: bool) -> int:
    """Say whether the plan in FILE (`-` for standard input) can reach its goals, and if not, why.

    Exit code 0 for a valid plan, 4 for an invalid one; warnings alone do not make it invalid.
    """
    name = "standard input" if file == STDIN else file
    report = examine(read_source(file), name=name)
    if as_json:
        print_json(shape(report))
    else:
        click.echo(printable(_told(report, name)))
    return 0 if report.valid else INVALID


def read_source(file: str) -> bytes:
    """Return the content of a file, or of standard input for `-`; UsageProblem if it cannot be had."""
    try:
        return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        what = f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
        raise UsageProblem(what, "Name a plan file, or `-` for standard input.") from error


def examine(source: bytes, *, name: str) -> LintReport:
    """Return all that is to be said of a plan's text; of one that cannot be read, why not."""
    try:
        read, warnings = read_plan(source.decode(), name=name)
    except UnicodeDecodeError as error:
        return _unreadable((_not_text(source, error),))
    except PlanInvalid as error:
        return _unreadable(error.findings)
    return lint(read).after(warnings)


def shape(report: LintReport) -> dict[str, Any]:
    """Return the report as `plan check --json` prints it."""
    return {
        "valid": report.valid,
        "findings": report.findings,
        "width": report.width,
        "critical_path": report.critical_path,
        "actions": report.actions,
    }


def _unreadable(findings: tuple[Finding, ...]) -> LintReport:
    return LintReport(findings=findings, width=0, critical_path=(), actions=0)


def _not_text(source: bytes, error: UnicodeDecodeError) -> Finding:
    before = source[: error.start]
    return Finding(
        code="syntax",
        severity="error",
        message=f"this is no UTF-8 text: byte 0x{source[error.start]:02x} does not fit",
        fix="Save the file as UTF-8.",
        line=before.count(b"\n") + 1,
        column=len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1,
    )


def _told(report: LintReport, name: str) -> str:
    lines = [finding_lines(finding, name) for finding in report.findings]
    if not report.valid:
        errors = sum(finding.severity == "error" for finding in report.findings)
        return "\n".join([*lines, f"{name}: invalid, {errors} error{'s' * (errors != 1)}"])
    path = " -> ".join(report.critical_path)
    lines.append(f"{name}: valid, {report.actions} actions, at most {report.width} side by side")
    return "\n".join([*lines, f"  longest chain: {path}"])
