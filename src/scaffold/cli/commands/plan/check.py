"""`plan check`, `plan diff`, and the group `plan`."""

import sys
from collections.abc import Iterator, Sequence

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.commands.plan.explain import explain
from scaffold.cli.commands.plan.make import make
from scaffold.cli.commands.plan.simulate import simulate
from scaffold.cli.commands.plan.source import check_plan_file, findings_text, print_invalid
from scaffold.cli.exit_codes import INVALID
from scaffold.cli.render.terminal.style import format_finding, print_json, print_note
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.request import STDIN
from scaffold.cli.task_argument import reject_command
from scaffold.core.plan import Finding
from scaffold.core.printable_text import count_of
from scaffold.plan.analysis.plan_diff import ChangedItem, PlanDiff, diff_plans


class PlanGroup(click.Group):
    """A group that takes any argument other than a command as a task to plan."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without arguments, read the task from standard input, unless that is a terminal, or words are completed."""
        if not args and not ctx.resilient_parsing and not sys.stdin.isatty():
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
        print_text("\n".join(lines))
    return 0


@plan.command()
@click.argument("before")
@click.argument("after")
@json_option
def diff(before: str, after: str, *, as_json: bool) -> int:
    """Show the changes from the plan in BEFORE to the plan in AFTER, and to width and longest chain.

    The exit code is 0, or 4 if one of them cannot be read or AFTER is invalid.
    """
    examined = (check_plan_file(before), check_plan_file(after))
    for each in examined:
        if each.plan is None:
            return print_invalid(each, as_json=as_json)
    old, new = (each.plan for each in examined if each.plan is not None)
    found = diff_plans(old, new)
    if as_json:
        print_json(found)
    else:
        print_text("\n".join(_difference_lines(found, before, after)))
    return 0 if examined[1].report.valid else INVALID


def _difference_lines(found: PlanDiff, before: str, after: str) -> Iterator[str]:
    if found.none:
        yield f"{before} and {after} are the same plan"
        return
    yield from _change_lines("goal", found.goals_added, found.goals_removed, found.goals_changed)
    if found.goals_reordered:
        yield "~ the order of the goals"
    yield from _change_lines("action", found.actions_added, found.actions_removed, found.actions_changed)
    old, new = found.before, found.after
    yield f"actions: {old.actions} -> {new.actions}, in parallel: {old.width} -> {new.width}"
    yield f"actions in the longest chain: {len(old.critical_path)} -> {len(new.critical_path)}"
    if old.valid != new.valid:
        yield "valid now: the plan can reach its goals" if new.valid else "invalid now: the plan cannot reach its goals"
    yield from _finding_lines("new", found.findings_new, after)
    yield from _finding_lines("gone", found.findings_gone, before)


def _change_lines(
    noun: str, added: Sequence[str], removed: Sequence[str], changed: Sequence[ChangedItem]
) -> Iterator[str]:
    yield from (f"+ {noun} {name}" for name in added)
    yield from (f"- {noun} {name}" for name in removed)
    yield from (f"~ {noun} {change.name}: {', '.join(change.fields)}" for change in changed)


def _finding_lines(word: str, findings: Sequence[Finding], name: str) -> Iterator[str]:
    for finding in findings:
        yield f"{word}: {format_finding(finding, name)}"


plan.add_command(explain)
plan.add_command(simulate)
