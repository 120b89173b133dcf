"""`scaffold` without a command: a talk in which a plan is refined, and then carried out."""

import os
from pathlib import Path
from typing import Any

import click

from scaffold.agent.prompts import foreman_prompt
from scaffold.cli.carry import tell_interrupted
from scaffold.cli.flags import Flags, flags_of, overrides, shared_options
from scaffold.cli.models import open_user_store
from scaffold.cli.order import Order
from scaffold.cli.repl.foreman import Foreman
from scaffold.cli.repl.talk import talk_as
from scaffold.cli.rules import rules_of
from scaffold.cli.run_settings import chosen_model
from scaffold.cli.safe import printable
from scaffold.cli.sandbox import sandbox_of
from scaffold.cli.settings import Settings, load_settings
from scaffold.cli.wiring import open_site
from scaffold.host.loop import run_async

MOST_REQUESTS = 100
"""Between one thing said and the next."""


@click.command(hidden=True)
@click.option("--trust-once", is_flag=True, help="Let this folder's own configuration count, this time.")
@shared_options
def refine(**options: Any) -> int:
    """Talk about what is to be done, then have it carried out."""
    return run_async(_refine(flags_of(options)))


async def _refine(flags: Flags) -> int:
    settings = load_settings(Path.cwd(), os.environ, overrides(flags), trust_once=flags.trust_once)
    for note in settings.notes:
        click.echo(printable(f"note: {note}"), err=True)
    model, _ = chosen_model(settings, settings.money("budget_usd"))
    site, store = await open_site(create=True), open_user_store()
    tell_interrupted(site)
    try:
        return await talk_as(Foreman(site, settings, flags), _order(settings, flags), store, None, model)
    finally:
        store.close()
        site.store.close()


def _order(settings: Settings, flags: Flags) -> Order:
    return Order(
        cwd=Path.cwd(),
        home=Path.home(),
        rules=rules_of(settings, allow=(), allow_category=(), yolo=flags.yolo),
        max_turns=MOST_REQUESTS,
        budget_usd=settings.money("budget_usd"),
        stream=True,
        own_prompt=foreman_prompt(),
        environment=settings.texts("environment"),
        sandbox=sandbox_of(settings),
    )
