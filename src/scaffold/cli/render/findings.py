"""How findings about a plan are told."""

from collections.abc import Iterable

import click

from scaffold.core.plan import Finding
from scaffold.core.printable_text import printable


def format_finding(finding: Finding, name: str) -> str:
    """Return a finding as `NAME:LINE:COLUMN: severity[code] message` and, indented, how to mend it."""
    place = "" if finding.line is None else f":{finding.line}" + (f":{finding.column}" if finding.column else "")
    return f"{name}{place}: {finding.severity}[{finding.code}] {finding.message}\n  {finding.fix}"


def print_findings(findings: Iterable[Finding], name: str) -> None:
    """Print findings about the plan of that name on standard error."""
    for finding in findings:
        click.echo(printable(format_finding(finding, name)), err=True)
