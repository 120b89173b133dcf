"""`plan check`, and the group `plan`."""

import sys

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.commands.plan.diff import diff
from scaffold.cli.commands.plan.explain import explain
from scaffold.cli.commands.plan.make import make
from scaffold.cli.commands.plan.simulate import simulate
from scaffold.cli.commands.plan.source import check_plan_file, findings_text, print_invalid
from scaffold.cli.render.terminal.style import print_json, print_note
from scaffold.cli.request import STDIN, is_piped
from scaffold.cli.task_argument import reject_command
from scaffold.core.printable_text import count_of, printable


class PlanGroup(click.Group):
    """A group that takes any argument other than a command as a task to plan."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without arguments, read the task from standard input if something is piped in."""
        if not args and is_piped(sys.stdin):
            args = [STDIN]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the called command, or `make` for a task."""
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        if args:
            reject_command(args[0], "scaffold plan", self.commands)
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
    """Check whether the plan in FILE (`-`: standard input) can reach its goals, and show the reasons if not.

    FILE may also be a list of tasks: of task-master, spec-kit, Kiro or beads, a prd.json, or the folder of one.
    The exit code is 0 for a valid plan, also with warnings, and 4 for an invalid one.
    """
    examined = check_plan_file(file)
    if not examined.report.valid:
        return print_invalid(examined, as_json=as_json)
    if as_json:
        print_json(examined.verdict)
        for note in examined.notes:
            print_note(note)
    else:
        report = examined.report
        lines = [*findings_text(examined), *examined.notes]
        lines.append(
            f"{examined.name}: valid, {count_of(report.actions, 'action')}, at most {report.width} in parallel"
        )
        if report.critical_path:
            lines.append(f"  longest chain: {' -> '.join(report.critical_path)}")
        click.echo(printable("\n".join(lines)))
    return 0


plan.add_command(explain)
plan.add_command(diff)
plan.add_command(simulate)
