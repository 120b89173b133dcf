"""`plan diff`: the differences between two plan files."""

from collections.abc import Iterator, Sequence

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.commands.plan.source import INVALID, check_plan_file, print_invalid
from scaffold.cli.render.terminal.style import format_finding, print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.core.plan import Finding
from scaffold.plan.analysis.plan_diff import ChangedItem, PlanDiff, diff_plans


@click.command()
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
    yield from _shape_lines(found)
    yield from _finding_lines("new", found.findings_new, after)
    yield from _finding_lines("gone", found.findings_gone, before)


def _change_lines(
    noun: str, added: Sequence[str], removed: Sequence[str], changed: Sequence[ChangedItem]
) -> Iterator[str]:
    yield from (f"+ {noun} {name}" for name in added)
    yield from (f"- {noun} {name}" for name in removed)
    yield from (f"~ {noun} {change.name}: {', '.join(change.fields)}" for change in changed)


def _shape_lines(found: PlanDiff) -> Iterator[str]:
    before, after = found.before, found.after
    yield f"actions: {before.actions} -> {after.actions}, in parallel: {before.width} -> {after.width}"
    yield f"actions in the longest chain: {len(before.critical_path)} -> {len(after.critical_path)}"
    if before.valid != after.valid:
        yield (
            "valid now: the plan can reach its goals" if after.valid else "invalid now: the plan cannot reach its goals"
        )


def _finding_lines(word: str, findings: Sequence[Finding], name: str) -> Iterator[str]:
    for finding in findings:
        yield f"{word}: {format_finding(finding, name)}"
