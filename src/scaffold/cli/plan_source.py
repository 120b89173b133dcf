"""Plan files as commands are given them: read, judged, and told about."""

import sys
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from scaffold.cli.findings import finding_lines
from scaffold.cli.safe import printable
from scaffold.cli.screen import print_json
from scaffold.core.errors import PlanInvalid, UsageProblem
from scaffold.core.plan import Finding, Plan
from scaffold.plan.lint import LintReport, lint
from scaffold.plan.located import read_located
from scaffold.plan.places import placed
from scaffold.plan.planfile import plan_of

INVALID = 4
STDIN = "-"


class Verdict(Struct, frozen=True, kw_only=True):
    """`plan check --json`, and what the other commands print for a plan they refuse."""

    valid: bool
    findings: tuple[Finding, ...]
    width: int
    critical_path: tuple[str, ...]
    actions: int


class Examined(Struct, frozen=True, kw_only=True):
    """A plan file and all that is to be said of it."""

    name: str
    """For messages."""
    plan: Plan | None
    """None if it cannot be read."""
    report: LintReport

    @property
    def sound(self) -> Plan | None:
        """The plan, None if it has an error."""
        return self.plan if self.report.valid else None

    @property
    def verdict(self) -> Verdict:
        """What is to be said, as JSON has it."""
        report = self.report
        return Verdict(
            valid=report.valid,
            findings=report.findings,
            width=report.width,
            critical_path=report.critical_path,
            actions=report.actions,
        )


def examine(file: str) -> Examined:
    """Read a plan file, or standard input for `-`, and lint it; UsageProblem if there is nothing to read."""
    source = _content(file)
    name = "standard input" if file == STDIN else file
    try:
        root = read_located(source.decode(), name=name)
        plan, warnings = plan_of(root, name=name)
    except UnicodeDecodeError as error:
        return Examined(name=name, plan=None, report=_unreadable((_not_text(source, error),)))
    except PlanInvalid as error:
        return Examined(name=name, plan=None, report=_unreadable(error.findings))
    report = lint(plan).after(warnings)
    return Examined(name=name, plan=plan, report=replace(report, findings=placed(report.findings, root)))


def refuse(examined: Examined, *, as_json: bool) -> int:
    """Print what is wrong with an invalid plan as `plan check` does, and return the exit code."""
    if as_json:
        print_json(examined.verdict)
    else:
        click.echo(printable("\n".join(finding_text(examined))))
    return INVALID


def finding_text(examined: Examined) -> list[str]:
    """Return the findings as lines; of an invalid plan, also how many errors there are."""
    lines = [finding_lines(finding, examined.name) for finding in examined.report.findings]
    if not examined.report.valid:
        errors = sum(finding.severity == "error" for finding in examined.report.findings)
        lines.append(f"{examined.name}: invalid, {errors} error{'s' * (errors != 1)}")
    return lines


def _content(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        what = f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
        raise UsageProblem(what, "Name a plan file, or `-` for standard input.") from error


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
