"""`plan check`, and the group it belongs to: what is wrong with a plan file, before it costs anything."""

import sys

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.commands.plan.diff import diff
from scaffold.cli.commands.plan.explain import explain
from scaffold.cli.commands.plan.make import make
from scaffold.cli.commands.plan.simulate import simulate
from scaffold.cli.commands.plan.source import check_plan_file, findings_text, print_invalid
from scaffold.cli.render.style import print_json
from scaffold.cli.request import STDIN, is_piped
from scaffold.core.printable_text import printable


class PlanGroup(click.Group):
    """A group in which whatever is none of its commands is a task to plan."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a call without arguments for a task on standard input, unless a person sits there."""
        if not args and is_piped(sys.stdin):
            args = [STDIN]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called."""
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return make.name, make, args


@click.group(
    cls=PlanGroup,
    context_settings={"ignore_unknown_options": True},
    subcommand_metavar="TASK | COMMAND [ARGS]...",
    epilog="TASK takes: --spec FILE, -o FILE, --model MODEL, --budget-usd X, --trust-once, --json.",
)
def plan() -> None:
    """Turn TASK into a plan file, or check plan files before they cost anything."""


@plan.command()
@click.argument("file")
@json_option
def check(file: str, *, as_json: bool) -> int:
    """Say whether the plan in FILE (`-` for standard input) can reach its goals, and if not, why.

    Exit code 0 for a valid plan, 4 for an invalid one; warnings alone do not make it invalid.
    """
    examined = check_plan_file(file)
    if not examined.report.valid:
        return print_invalid(examined, as_json=as_json)
    if as_json:
        print_json(examined.verdict)
    else:
        report = examined.report
        lines = findings_text(examined)
        lines.append(f"{examined.name}: valid, {report.actions} actions, at most {report.width} side by side")
        lines.append(f"  longest chain: {' -> '.join(report.critical_path)}")
        click.echo(printable("\n".join(lines)))
    return 0


plan.add_command(explain)
plan.add_command(diff)
plan.add_command(simulate)
