"""Shell completion of arguments: names from the store, settings and their values."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from scaffold.config.schema import parsers
from scaffold.config.schema.parsers import SIZES, OneOf
from scaffold.config.schema.table import find_setting
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import RunId
from scaffold.core.states import status_of
from scaffold.views.store_reader import StoreReader, display_status, latest_run, store_reader_if_any

MAX_WORDS = 200
Offer = Iterator[tuple[str, str]]
"""Words with what they stand for."""


def complete_arguments(command: click.Command) -> None:
    """Let the arguments and options of a command offer what their metavar names: `[RUN|GOAL]`, `SETTING`, `MODEL`."""
    for parameter in command.params:
        kinds = set((parameter.metavar or "").strip("[]").removesuffix("...").split("|"))
        if kinds & OFFERS.keys():
            parameter.type = _Offered(tuple(sorted(kinds & OFFERS.keys())))
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        complete_arguments(each)


class _Offered(click.ParamType[str]):
    """Any text; a shell is offered words."""

    name = "text"

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self._kinds = kinds

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - as click calls it
        """Return the words that begin with `incomplete`; none if the store cannot be read."""
        try:
            words = [word for kind in self._kinds for word in OFFERS[kind](ctx)]
        except (ScaffoldError, OSError):
            return []
        fitting = ((word, help_text) for word, help_text in words if word.startswith(incomplete))
        return [CompletionItem(word, help=help_text) for word, help_text in fitting][:MAX_WORDS]


def _from_store(read: Callable[[StoreReader], Offer]) -> Callable[[click.Context], Offer]:
    def offer(_: click.Context) -> Offer:
        with store_reader_if_any(Path.cwd(), os.environ) as reader:
            if reader is not None:
                yield from read(reader)

    return offer


def _from_latest_run(read: Callable[[StoreReader, RunId], Offer]) -> Callable[[click.Context], Offer]:
    # Commands mean the latest run unless they are told another one.
    return _from_store(lambda reader: read(reader, run.id) if (run := latest_run(reader.store)) else iter(()))


def _offer_settings(_: click.Context) -> Offer:
    for name in load_settings(Path.cwd(), os.environ, {}).values:
        setting = find_setting(name)
        yield name, setting.purpose if setting else ""


def _offer_values(context: click.Context) -> Offer:
    setting = find_setting(context.params.get("key") or "")
    if setting is not None and setting.parse is parsers.tier:
        yield from _offer_tiers(context)
    elif setting is not None and isinstance(setting.parse, OneOf):
        yield from ((word, "") for word in setting.parse.words)


def _offer_tiers(_: click.Context) -> Offer:
    return ((tier, "") for tier in load_settings(Path.cwd(), os.environ, {}).tiers())


OFFERS: Mapping[str, Callable[[click.Context], Offer]] = {
    "RUN": _from_store(
        lambda reader: ((each.id, f"{display_status(each)}: {each.request[:60]}") for each in reader.store.runs.all())
    ),
    "GOAL": _from_latest_run(
        lambda reader, run: ((each.name, status_of(each.state)) for each in reader.store.goals.for_run(run))
    ),
    "ACTION": _from_latest_run(
        lambda reader, run: ((each.key, status_of(each.state)) for each in reader.store.actions.for_run(run))
    ),
    "ID": _from_store(lambda reader: ((each.id, each.text[:60]) for each in reader.store.inbox.open())),
    "ITEM": _from_store(
        lambda reader: (
            (each.id, each.title[:60]) for each in reader.store.work_items.all().values() if not each.has_ended
        )
    ),
    "LEARNING": _from_store(
        lambda reader: ((each.id, each.triple.condition[:60]) for each in reader.store.learnings.all())
    ),
    "CONCEPT": _from_store(lambda reader: ((concept, "") for concept in reader.store.learnings.concepts())),
    "SETTING": _offer_settings,
    "VALUE": _offer_values,
    "MODEL": lambda _: ((size, "from your configuration") for size in SIZES),
    "TIER": _offer_tiers,
}
"""By the word in a metavar."""
