"""`item`: list, show and ready, and the group of its commands."""

import sys
from collections.abc import Callable, Sequence
from typing import get_args

import click

from scaffold.cli.commands.items.change import COMMANDS
from scaffold.cli.commands.items.id_lookup import find_item
from scaffold.cli.commands.learning.curation import add as learn
from scaffold.cli.commands.learning.knowledge_stores import repository_store_if_any
from scaffold.cli.commands.learning.learn import concepts, context
from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.item_text import item_json, item_line, item_lines
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.printable_text import count_of
from scaffold.core.work_item import ItemStatus, WorkItem
from scaffold.host.wall_clock import WallClock
from scaffold.plan.items import Items, ready_items

NOTHING = (
    "There are no items yet. `scaffold item add TITLE` adds one; agents file what they find outside of their task."
)


class ItemGroup(click.Group):
    """A group that lists the items if no command is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without arguments, list what has not ended."""
        # While a shell completes, the words so far are all there is.
        return super().parse_args(ctx, args if args or ctx.resilient_parsing else [str(list_items.name)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the called command, or `list` for its options alone."""
        if args[0].startswith("-"):
            return list_items.name, list_items, args
        return super().resolve_command(ctx, args)


@click.group(
    cls=ItemGroup,
    context_settings={"ignore_unknown_options": True},
    epilog="Without a command, `item` takes the options of `item list`.",
)
def item() -> None:
    """Keep tasks and epics that belong to no plan; agents file here what they find outside of their task.

    Items never change a plan by themselves. `learn`, `context` and `concepts` are those of `scaffold learn`.
    """


@item.command("list")
@click.option("--all", "everything", is_flag=True, help="Include what is done or canceled.")
@click.option("-p", "--project", metavar="PROJECT", help="Only those of a project.")
@click.option("-l", "--label", metavar="LABEL", help="Only those with a label.")
@click.option("--status", type=click.Choice(get_args(ItemStatus)), help="Only those with a status.")
@json_option
@pageable
def list_items(
    *, everything: bool, project: str | None, label: str | None, status: ItemStatus | None, as_json: bool
) -> None:
    """List the items that have not ended, the most urgent first."""

    def fits(each: WorkItem) -> bool:
        is_asked = each.status == status if status else everything or not each.has_ended
        return is_asked and project in {None, each.project} and (label is None or label in each.labels)

    def listed(known: Items) -> Sequence[WorkItem]:
        return sorted(filter(fits, known.values()), key=lambda each: (each.priority, each.created_at, each.id))

    _print_items(listed, as_json=as_json)


@item.command()
@click.option("-p", "--project", metavar="PROJECT", help="Only those of a project.")
@json_option
@pageable
def ready(*, project: str | None, as_json: bool) -> None:
    """List the open tasks that wait for nothing, the most urgent first."""

    def listed(known: Items) -> Sequence[WorkItem]:
        return [each for each in ready_items(known.values()) if project in {None, each.project}]

    _print_items(listed, as_json=as_json)


@item.command()
@click.argument("name", metavar="ITEM")
@json_option
@pageable
def show(name: str, *, as_json: bool) -> None:
    """Show one item with its links and its log."""
    with repository_store_if_any(WallClock()) as store:
        known = store.work_items.all() if store else {}
        found = find_item(known, name)
        log = store.work_items.logs(found.id) if store else ()
    if as_json:
        print_json({**item_json(found, known), "log": [{"at": each.at, "text": each.text} for each in log]})
    else:
        click.echo("\n".join(item_lines(found, log, known, layout_for(sys.stdout))))


def _print_items(listed: Callable[[Items], Sequence[WorkItem]], *, as_json: bool) -> None:
    with repository_store_if_any(WallClock()) as store:
        known = store.work_items.all() if store else {}
    shown, layout = listed(known), layout_for(sys.stdout)
    if as_json:
        print_json({"items": [item_json(each, known) for each in shown]})
    elif shown:
        click.echo("\n".join(line for each in shown for line in item_line(each, known, layout)))
    else:
        print_text(f"None of {count_of(len(known), 'item')} fits." if known else NOTHING)


for _command in COMMANDS:
    item.add_command(_command)
item.add_command(learn, "learn")
item.add_command(context)
item.add_command(concepts)
