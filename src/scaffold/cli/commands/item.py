"""`item`: tasks and epics outside of any plan."""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args

import click
from msgspec import structs

from scaffold.cli.commands.knowledge_stores import refuse_secrets, repository_store, repository_store_if_any
from scaffold.cli.commands.learn import add as learn
from scaffold.cli.commands.learn import concepts, context
from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.item_text import (
    NO_ITEMS,
    find_item,
    item_json,
    item_line,
    item_lines,
    items_text,
    most_urgent_first,
)
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.errors import NotInRepository, UsageError
from scaffold.core.ids import ActionKey
from scaffold.core.printable_text import count_of, one_line, printable
from scaffold.core.work_item import DEFAULT_PRIORITY, LAST_PRIORITY, ItemStatus, WorkItem
from scaffold.git.common_dir import find_top
from scaffold.host.random_ids import new_id
from scaffold.host.wall_clock import WallClock
from scaffold.plan.items import Items, moved, ready_items
from scaffold.plan.message_text import quoted
from scaffold.run.item_changes import MAX_LOG_CHARS, ItemChange, add_item, change_item
from scaffold.store.database import Store
from scaffold.views.store_reader import StoreReader, find_run

run_option = click.option("--run", metavar="RUN", help="The run of the action; default: the latest.")
priority_type = click.IntRange(0, LAST_PRIORITY)


def items_here(words: Sequence[str]) -> str:
    """Return what `/tasks WORDS` says of the items of the repository here."""
    try:
        with repository_store_if_any(WallClock()) as store:
            return click.unstyle(items_text(words, store, layout_for(sys.stdout)))
    except NotInRepository:
        return "There are no items here: they belong to a repository, and this folder is in none."


class ItemGroup(click.Group):
    """A group that lists the items if no command is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without arguments, list what has not ended."""
        # While a shell completes, a default command would be wrong: the user is still typing.
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
        return most_urgent_first(filter(fits, known.values()))

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


@item.command()
@click.argument("title", nargs=-1, required=True)
@click.option("-d", "--description", metavar="TEXT", default="", help="What it is about.")
@click.option("-p", "--project", metavar="PROJECT", default="", help="The project that it belongs to.")
@click.option("-e", "--epic", is_flag=True, help="It is an epic: tasks are parts of it.")
@click.option("--parent", metavar="ITEM", help="The item that it is a part of.")
@click.option("--blocks", metavar="ITEM", multiple=True, help="An item that waits for it.")
@click.option("--blocked-by", metavar="ITEM", multiple=True, help="An item that it waits for.")
@click.option("--priority", type=priority_type, default=DEFAULT_PRIORITY, show_default=True, help="0: most urgent.")
@click.option("-l", "--label", "labels", metavar="LABEL", multiple=True, help="A label.")
@click.option("--action", metavar="ACTION", help="The action that it is about.")
@run_option
@json_option
def add(title: Sequence[str], *, epic: bool, as_json: bool, **given: Any) -> None:
    """Add a task, or an epic."""
    refuse_secrets(" ".join(title), given["description"], given["project"], *given["labels"])
    now = WallClock().now()
    with repository_store(WallClock()) as store:
        known = store.work_items.all()
        run, action = _find_action(store, given["action"], given["run"])
        new = WorkItem(
            id=new_id(6),
            title=one_line(" ".join(title)),
            description=printable(given["description"].strip()),
            kind="epic" if epic else "task",
            priority=given["priority"],
            parent=find_item(known, given["parent"]).id if given["parent"] is not None else None,
            project=given["project"].strip(),
            labels=tuple(dict.fromkeys(each.strip().removeprefix("#") for each in given["labels"])),
            blocked_by=tuple(dict.fromkeys(find_item(known, each).id for each in given["blocked_by"])),
            run=run,
            action=action,
            created_at=now,
            updated_at=now,
        )
        blocks = tuple(dict.fromkeys(find_item(known, each).id for each in given["blocks"]))
        stored = _require_stored(add_item(store, new, blocks=blocks))
        _print_changed(store, [stored], as_json=as_json)


@item.command()
@click.argument("names", metavar="ITEM...", nargs=-1, required=True)
@json_option
def start(names: Sequence[str], *, as_json: bool) -> None:
    """Begin with items that wait for nothing."""
    _move_items(names, "in_progress", as_json=as_json)


@item.command()
@click.argument("names", metavar="ITEM...", nargs=-1, required=True)
@json_option
def done(names: Sequence[str], *, as_json: bool) -> None:
    """Mark items as done; what waits for them may be ready then."""
    _move_items(names, "done", as_json=as_json)


@item.command()
@click.argument("name", metavar="ITEM")
@click.argument("reason", nargs=-1, required=True)
@json_option
def block(name: str, reason: Sequence[str], *, as_json: bool) -> None:
    """Mark an item as blocked, for a reason."""
    refuse_secrets(" ".join(reason))
    _move_items([name], "blocked", as_json=as_json, reason=" ".join(reason))


@item.command()
@click.argument("names", metavar="ITEM...", nargs=-1, required=True)
@json_option
def cancel(names: Sequence[str], *, as_json: bool) -> None:
    """Cancel items; nothing waits for them any more."""
    _move_items(names, "canceled", as_json=as_json)


@item.command()
@click.argument("names", metavar="ITEM...", nargs=-1, required=True)
@json_option
def reopen(names: Sequence[str], *, as_json: bool) -> None:
    """Open items again, whatever their status."""
    _move_items(names, "open", as_json=as_json)


@item.command()
@click.argument("name", metavar="ITEM")
@click.argument("text", nargs=-1, required=True)
@json_option
def log(name: str, text: Sequence[str], *, as_json: bool) -> None:
    """Add an entry to an item's log."""
    words = one_line(" ".join(text))
    if not words or len(words) > MAX_LOG_CHARS:
        raise UsageError("the log entry is empty or too long", f"Write up to {MAX_LOG_CHARS:,} characters.")
    refuse_secrets(words)
    _change_items([name], lambda item, _: item, log=words, as_json=as_json)


@item.command()
@click.argument("name", metavar="ITEM")
@click.option("--title", metavar="TEXT", help="Another title.")
@click.option("-d", "--description", metavar="TEXT", help="Another description.")
@click.option("-p", "--project", metavar="PROJECT", help="Another project; an empty one for none.")
@click.option("--priority", type=priority_type, help="0: most urgent.")
@click.option("--parent", metavar="ITEM", help="What it is a part of; an empty one for nothing.")
@click.option("--blocked-by", metavar="ITEM", multiple=True, help="An item that it waits for, besides others.")
@click.option("--not-blocked-by", metavar="ITEM", multiple=True, help="An item that it waits for no more.")
@click.option("-l", "--label", "labels", metavar="LABEL", multiple=True, help="A label, besides others.")
@click.option("--unlabel", metavar="LABEL", multiple=True, help="A label that it has no more.")
@json_option
def edit(name: str, *, as_json: bool, **given: Any) -> None:
    """Change what an item says, and its links."""
    texts = (given["title"], given["description"], given["project"], *given["labels"])
    refuse_secrets(*(each for each in texts if each is not None))

    def edited(item: WorkItem, known: Items) -> WorkItem:
        blockers = [*item.blocked_by, *(find_item(known, each).id for each in given["blocked_by"])]
        freed = {find_item(known, each).id for each in given["not_blocked_by"]}
        labels = [*item.labels, *(each.strip().removeprefix("#") for each in given["labels"])]
        parent = given["parent"]
        return structs.replace(
            item,
            title=item.title if given["title"] is None else one_line(given["title"]),
            description=item.description if given["description"] is None else printable(given["description"].strip()),
            project=item.project if given["project"] is None else given["project"].strip(),
            priority=item.priority if given["priority"] is None else given["priority"],
            parent=item.parent if parent is None else find_item(known, parent).id if parent else None,
            blocked_by=tuple(each for each in dict.fromkeys(blockers) if each not in freed),
            labels=tuple(each for each in dict.fromkeys(labels) if each not in given["unlabel"]),
        )

    _change_items([name], edited, as_json=as_json)


@item.command()
@click.argument("name", metavar="ITEM")
@click.argument("action", metavar="ACTION")
@run_option
@json_option
def link(name: str, action: str, run: str | None, *, as_json: bool) -> None:
    """Link an item to an action of a run; the action's status does not change the item's."""
    with repository_store(WallClock()) as store:
        run_id, key = _find_action(store, action, run)
        _change_items(
            [name], lambda item, _: structs.replace(item, run=run_id, action=key), as_json=as_json, store=store
        )


def _print_items(listed: Callable[[Items], Sequence[WorkItem]], *, as_json: bool) -> None:
    with repository_store_if_any(WallClock()) as store:
        known = store.work_items.all() if store else {}
    shown, layout = listed(known), layout_for(sys.stdout)
    if as_json:
        print_json({"items": [item_json(each, known) for each in shown]})
    elif shown:
        click.echo("\n".join(line for each in shown for line in item_line(each, known, layout)))
    else:
        print_text(f"None of {count_of(len(known), 'item')} fits." if known else NO_ITEMS)


def _find_action(store: Store, action: str | None, run: str | None) -> tuple[str, str]:
    if action is None:
        if run is not None:
            raise UsageError("--run needs an action", "Name it: --action ACTION.")
        return "", ""
    found = find_run(StoreReader(store, WallClock(), find_top(Path.cwd())), run)
    if store.actions.by_key(found.id, ActionKey(action)) is None:
        raise UsageError(f"there is no action {quoted(action)} in run {found.id}", "`scaffold tasks` lists them.")
    return found.id, action


def _move_items(names: Sequence[str], to: ItemStatus, *, as_json: bool, reason: str = "") -> None:
    _change_items(names, lambda item, known: moved(item, to, known, reason=reason), as_json=as_json)


def _change_items(
    names: Sequence[str], change: ItemChange, *, as_json: bool, log: str = "", store: Store | None = None
) -> None:
    with nullcontext(store) if store is not None else repository_store(WallClock()) as opened:
        known = opened.work_items.all()
        found = dict.fromkeys(find_item(known, name).id for name in names)
        changed = [_require_stored(change_item(opened, each, change, log)) for each in found]
        _print_changed(opened, changed, as_json=as_json)


def _print_changed(store: Store, items: Sequence[WorkItem], *, as_json: bool) -> None:
    if as_json:
        known = store.work_items.all()
        print_json({"items": [item_json(known[each.id], known) for each in items]})
    else:
        print_text("\n".join(f"{each.id}  {each.status}  {each.title}" for each in items))


def _require_stored(item: WorkItem | str) -> WorkItem:
    if isinstance(item, str):
        raise UsageError(f"the item cannot be changed: {item}", "Nothing was changed; `scaffold item list` shows all.")
    return item


item.add_command(learn, "learn")
item.add_command(context)
item.add_command(concepts)
