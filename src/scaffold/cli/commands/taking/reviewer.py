"""`review --rates` and `review --probe`: what is known of the second reviewer, and a trial with planted faults."""

import os
import sys

import click

from scaffold.cli.render.changes.reviewer_text import (
    cost_text,
    probe_json,
    rates_json,
    rates_lines,
    reply_lines,
)
from scaffold.cli.render.cost_terms import billing_note
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.wiring import context_if_any, context_with_run
from scaffold.config.folder_trust import prompt_folders
from scaffold.config.run.effective_settings import chosen_models, chosen_reviewer
from scaffold.config.settings import load_settings
from scaffold.core.errors import UsageError
from scaffold.core.model import Run
from scaffold.core.printable_text import count_of
from scaffold.core.run_settings import BUILDER, ReviewerSettings
from scaffold.host.wall_clock import WallClock
from scaffold.plan.review_rates import unreliable_text
from scaffold.run.context import RunContext
from scaffold.run.learning.reviewer_records import reviewer_rates
from scaffold.run.learning.reviewer_standing import reviewer_standing
from scaffold.worker.second_review.reviewer_probe import ProbeReply, ReviewerProbe

NO_CHANGES = "There is no landed change of code in which a fault can be planted."


async def show_rates(*, as_json: bool) -> None:
    """Print what is known of each second reviewer."""
    async with context_if_any() as context:
        rates = reviewer_rates(context, WallClock())
    if as_json:
        print_json(rates_json(rates))
    else:
        click.echo("\n".join(rates_lines(rates, layout_for(sys.stdout))))


async def probe_reviewer(run_name: str | None, count: int, seed: int, *, as_json: bool) -> None:
    """Show changes with and without planted faults to the reviewer of the run, or of the configuration."""
    async with context_with_run(run_name) as (context, run):
        reviewer = _find_reviewer(context, run)
        prompts = prompt_folders(context.repository.root)
        probe = ReviewerProbe(context, reviewer, prompts)
        cases = await probe.cases([run] if run_name else context.store.runs.all(), count, seed)
        name, layout = reviewer.model.name, layout_for(sys.stdout)
        if not cases:
            raise UsageError(NO_CHANGES, "Let a run land some code first; `scaffold runs` lists the runs.")
        planted = sum(case.fault is not None for case in cases)
        if not as_json:
            billed = billing_note(name, context.clock.now())
            counts = f"{count_of(planted, 'change')} with a planted fault, {len(cases) - planted} without"
            print_text(f"{name} ({billed}) reads {counts}")

        def tell(reply: ProbeReply) -> None:
            if not as_json:
                click.echo("\n".join(reply_lines(reply, layout)))

        replies = await probe.ask(cases, tell)
        standing = reviewer_standing(name, context.clock)
        if as_json:
            print_json(probe_json(replies, standing, name, seed))
            return
        click.echo()
        answered = (
            f"In its latest answers it {standing.text}." if standing.planted else "It gave no verdict that counts."
        )
        print_text(f"{answered} This took {cost_text(replies)}.")
        if standing.is_unreliable:
            print_text(unreliable_text(name, standing))


def _find_reviewer(context: RunContext, run: Run) -> ReviewerSettings:
    """Return the second reviewer of the run; if it has none, the configured one."""
    if run.settings.planning.reviewer is not None:
        return run.settings.planning.reviewer
    settings = load_settings(context.repository.root, os.environ, {})
    models = chosen_models(settings, BUILDER, None, notice=lambda text: print_text(f"note: {text}", err=True))
    reviewer = chosen_reviewer(settings, BUILDER, models.model)
    if reviewer is None:
        raise UsageError("there is no second reviewer", "`scaffold config reviewer.model auto` chooses one.")
    return reviewer
