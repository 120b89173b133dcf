"""`review`: the work of a run, for the person who takes it."""

import os
import sys
from typing import Any, assert_never

import click
from msgspec import Struct

from scaffold.cli.commands.inspection.open import show_report
from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.changes.review_text import (
    change_json,
    comment_json,
    commit_lines,
    file_lines,
    intent_lines,
    review_json,
    summary_lines,
)
from scaffold.cli.render.changes.reviewer_text import cost_text, probe_json, rates_json, rates_lines, reply_lines
from scaffold.cli.render.changes.waiting_change_text import change_json as waiting_json
from scaffold.cli.render.changes.waiting_change_text import change_lines
from scaffold.cli.render.cost_terms import billing_note
from scaffold.cli.render.inbox_text import entry_text
from scaffold.cli.render.status_text import next_lines
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import UNLIMITED, layout_for, print_text
from scaffold.cli.wiring import context_if_any, context_with_run
from scaffold.config.folder_trust import prompt_folders
from scaffold.config.run.effective_settings import chosen_models, chosen_reviewer
from scaffold.config.settings import load_settings
from scaffold.core.errors import UsageError
from scaffold.core.executor_settings import ExecutorSettings
from scaffold.core.model import Action, Run
from scaffold.core.printable_text import count_of, utf8_safe
from scaffold.core.run_settings import BUILDER, ReviewerSettings
from scaffold.host.process.async_runner import run_async
from scaffold.host.wall_clock import WallClock
from scaffold.landing.facts.landing_record import last_landed, session_tip
from scaffold.orchestrator.user_control.change_comments import (
    SentComments,
    add_comment,
    discard_comment,
    parse_lines,
    send_comments,
)
from scaffold.plan.review_rates import unreliable_text
from scaffold.run.context import RunContext
from scaffold.run.learning.reviewer_records import reviewer_rates
from scaffold.run.learning.stores import reviewer_standing
from scaffold.views.changes.comment_standing import read_comments
from scaffold.views.changes.review_view import read_review
from scaffold.views.changes.reviewed_change import read_shown_change
from scaffold.views.changes.shown_range import ShownRange, find_range
from scaffold.views.changes.taken_work import with_taken
from scaffold.views.changes.waiting_change import read_waiting_change
from scaffold.views.run_view import read_run_view
from scaffold.views.text_format import brief
from scaffold.worker.second_review.reviewer_probe import ProbeReply, ReviewerProbe

NO_CHANGES = "There is no landed change of code in which a fault can be planted."
PLANTED, MAX_PLANTED = 5, 100  # faults that a probe plants


@click.command()
@click.argument("target", metavar="[RUN|ACTION]", required=False)
@click.option("--web", is_flag=True, help="Open the report in your browser instead.")
@click.option("--stat", is_flag=True, help="Leave out the diff.")
@click.option(
    "--comment",
    "written",
    nargs=2,
    multiple=True,
    metavar="FILE:LINE TEXT",
    help="Comment on a line of ACTION's change (FILE:3, FILE:3-5, FILE:-3 before the change).",
)
@click.option("--discard", type=int, multiple=True, metavar="N", help="Take back comment N, which was not sent.")
@click.option("--send", "sends", is_flag=True, help="Send your comments to ACTION's agent; rejects a waiting change.")
@click.option("--why", metavar="TEXT", help="With --send: the reason of the rejection.")
@click.option("--rates", is_flag=True, help="Show how often the second reviewer was right instead.")
@click.option(
    "--probe",
    type=click.IntRange(1, MAX_PLANTED),
    is_flag=False,
    flag_value=PLANTED,
    metavar="[N]",
    help="Show N changes with a planted fault, and as many without, to the second reviewer.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which faults and changes a probe chooses.")
@run_option
@json_option
@pageable
def review(target: str | None, *, rates: bool, probe: int | None, as_json: bool, **given: Any) -> None:
    """Show the work of RUN (default: the latest) or the change of ACTION by intent, and comment on it.

    Weak facts and the commits with their evidence come first, then the diff: what serves no line of a contract, then
    the parts that serve each line, with the reason. `!` marks lines that can run and that no check executed.
    `scaffold land` takes the work, `scaffold revert ACTION` undoes a part of it.
    """
    if rates and probe is not None:
        raise UsageError("--rates and --probe are two questions", "Give one of them.")
    if rates:
        run_async(show_rates(as_json=as_json))
    elif probe is not None:
        run_async(probe_reviewer(target or given["run_name"], probe, given["seed"], as_json=as_json))
    else:
        run_async(_show_or_comment(target, ReviewOptions(as_json=as_json, **given)))


class ReviewOptions(Struct, frozen=True, kw_only=True):
    """What is shown of a review, and done in it."""

    run_name: str | None
    web: bool
    stat: bool
    as_json: bool
    written: tuple[tuple[str, str], ...]
    """Places and texts of new comments."""
    discard: tuple[int, ...]
    sends: bool
    why: str | None
    seed: int = 0


async def _show_or_comment(target: str | None, options: ReviewOptions) -> None:
    async with context_with_run(options.run_name, "started" if target else "landed", part=target) as (context, run):
        shown = await find_range(context.git, context, run, target)
        if options.written or options.discard or options.sends:
            await _change_comments(context, run, shown, options)
        elif shown.action is not None:
            await _review_action(context, run, shown, options)
        elif options.web:
            await show_report(context, shown.run or run, as_json=options.as_json)
        else:
            await _review_run(context, shown.run or run, options)


async def _change_comments(context: RunContext, run: Run, shown: ShownRange, options: ReviewOptions) -> None:
    if shown.attempt is None or (action := context.store.actions.get(shown.attempt.action_id)) is None:
        raise UsageError(
            "comments belong to the change of an action", "Name it: `scaffold review ACTION --comment ...`."
        )
    if options.why is not None and not options.sends:
        raise UsageError("--why is the reason of a rejection", "Add --send, or give it to `scaffold reject ID --why`.")
    # All places are read before anything is stored.
    places = [(parse_lines(place), utf8_safe(text)) for place, text in options.written]
    for number in options.discard:
        discard_comment(context, action, number)
        print_text(f"comment {number} is taken back")
    for place, text in places:
        comment = await add_comment(context, run, shown, place, text)
        print_text(f"comment {comment.number} on {comment.place}: {brief(comment.text, UNLIMITED)}")
    if options.sends:
        print_text(_sent_text(action, send_comments(context, run, action, utf8_safe(options.why or "") or None)))
        return
    drafts = count_of(len(context.store.review_comments.drafts(action.id)), "comment")
    print_text(f"{drafts} not sent: `scaffold review {action.key} --send`")


def _sent_text(action: Action, sent: SentComments) -> str:
    what = f"{count_of(len(sent.comments), 'comment')} on {action.key} sent"
    match sent.how:
        case "rejection":
            return f"{what}; its change is rejected, and its next attempt reworks it"
        case "message":
            return f"{what}; its agent reads them before its next request, and so does each later attempt"
        case "items":
            return f"{what} as {count_of(len(sent.items), 'item')}, as the change has landed: `scaffold item`"
        case _:
            assert_never(sent.how)


async def _review_action(context: RunContext, run: Run, shown: ShownRange, options: ReviewOptions) -> None:
    change = await read_shown_change(context.git, context.store, run, shown)
    action, layout = shown.action, layout_for(sys.stdout)
    if action is None:
        return
    comments = await read_comments(context.git, context.store, action, shown)
    if options.as_json:
        found = change_json(change) if change else {}
        said = [comment_json(each) for each in comments]
        print_json({"run": run.id, "action": action.key, "note": shown.note or None, **found, "comments": said})
        return
    if shown.note:
        print_text(f"note: {shown.note}", err=True)
    if change is not None:
        rest = f"scaffold diff {action.key}"
        lines = file_lines(change, layout) if options.stat else intent_lines(change, comments, rest, layout)
        click.echo("\n".join(lines).lstrip("\n"))


async def _review_run(context: RunContext, run: Run, options: ReviewOptions) -> None:
    view = await with_taken(context.git, context.store, read_run_view(context, run))
    # A run that has not started has no branch yet; one on which something landed must have it.
    has_landed = last_landed(context.store, run) is not None
    head = await session_tip(context, run) if has_landed else run.base_sha
    found = await read_review(context.git, context.store, view, head)
    asked = [(each, read_waiting_change(context.store, each.item)) for each in view.summary.waiting]
    waiting = [(entry, change) for entry, change in asked if change is not None]
    if options.as_json:
        changes = [{"item": entry.id, "text": entry.text, **waiting_json(change)} for entry, change in waiting]
        print_json({**review_json(view, found), "waiting": changes})
        return
    layout = layout_for(sys.stdout)
    if waiting:
        at = view.summary.at
        texts = [entry_text(entry, at, layout, change_lines(change, layout)) for entry, change in waiting]
        click.echo("\n\n".join([*texts, ""]))
    click.echo("\n".join([*summary_lines(view, found, layout), *commit_lines(found, layout)]))
    click.echo("\n".join(file_lines(found.change, layout)))
    if not options.stat:
        click.echo("\n".join(intent_lines(found.change, found.comments, f"scaffold diff {run.id}", layout)))
    if not found.commits:
        click.echo(f"\nNothing has landed on {view.run.session_branch} yet.")
    click.echo("\n" + "\n".join(next_lines(view, layout, None)))


async def show_rates(*, as_json: bool) -> None:
    """Print the rates of each second reviewer."""
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
    if run.settings.planning.reviewer is not None:
        return run.settings.planning.reviewer
    settings = load_settings(context.repository.root, os.environ, {})
    models = chosen_models(settings, BUILDER, None, notice=lambda text: print_text(f"note: {text}", err=True))
    reviewer = chosen_reviewer(settings, BUILDER, models.model, ExecutorSettings())
    if reviewer is None:
        raise UsageError("there is no second reviewer", "`scaffold config reviewer.model auto` chooses one.")
    return reviewer
