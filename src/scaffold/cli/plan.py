"""`plan check`, and the group it belongs to: what is wrong with a plan file, before it costs anything."""

import click

from scaffold.cli.plan_diff import diff
from scaffold.cli.plan_explain import explain
from scaffold.cli.plan_simulate import simulate
from scaffold.cli.plan_source import examine, finding_text, refuse
from scaffold.cli.safe import printable
from scaffold.cli.screen import json_option, print_json


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
    examined = examine(file)
    if not examined.report.valid:
        return refuse(examined, as_json=as_json)
    if as_json:
        print_json(examined.verdict)
    else:
        report = examined.report
        lines = finding_text(examined)
        lines.append(f"{examined.name}: valid, {report.actions} actions, at most {report.width} side by side")
        lines.append(f"  longest chain: {' -> '.join(report.critical_path)}")
        click.echo(printable("\n".join(lines)))
    return 0


plan.add_command(explain)
plan.add_command(diff)
plan.add_command(simulate)
