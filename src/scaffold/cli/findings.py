"""How a finding about a plan is told."""

from scaffold.core.plan import Finding


def finding_lines(finding: Finding, name: str) -> str:
    """Return a finding as `NAME:LINE:COLUMN: severity[code] message` and, indented, how to mend it."""
    place = "" if finding.line is None else f":{finding.line}" + (f":{finding.column}" if finding.column else "")
    return f"{name}{place}: {finding.severity}[{finding.code}] {finding.message}\n  {finding.fix}"
