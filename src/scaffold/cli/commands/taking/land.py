"""`land`: take the work of a run to its base branch, or open a pull request for it."""

import sys
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.execution.foreground import load_variables
from scaffold.cli.execution.taking import publish_work, read_wish
from scaffold.cli.exit_codes import OK, WAITING
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.style import is_terminal, print_json, print_note, status_mark
from scaffold.cli.render.terminal.text_layout import Layout, confirm, layout_for, print_text
from scaffold.cli.wiring import context_with_run
from scaffold.config.folder_trust import folder_trust
from scaffold.config.settings import load_settings
from scaffold.core.errors import GitError, RunBusy, UsageError
from scaffold.core.model import Activity, Run
from scaffold.core.printable_text import count_of, printable
from scaffold.core.states import Completed, status_of
from scaffold.host.process.async_runner import run_async
from scaffold.landing.taking.github_pull_request import Target, find_target, would_overwrite
from scaffold.landing.taking.land import (
    LandHow,
    LandWish,
    TakenWork,
    prepare,
    require_place,
    settle_moves,
    sign_work,
    take,
)
from scaffold.orchestrator.user_control.session_changes import prove_work
from scaffold.run.context import RunContext
from scaffold.views.name_lookup import find_landing_action
from scaffold.views.store_reader import executing_process

VERBS: Mapping[LandHow, str] = {"ff": "fast-forward", "squash": "one commit on", "pr": "pull request into"}
PROTECTED_BRANCHES = ("main", "master", "dev")  # besides those of the setting


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@click.option("--ff", is_flag=True, help="Fast-forward the base branch.")
@click.option("--squash", is_flag=True, help="Take everything as one commit.")
@click.option("--pr", is_flag=True, help="Push the work and open a pull request with `gh`.")
@click.option("--only", metavar="ACTION", help="Take this action alone, with what it needs.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def land(run_name: str | None, only: str | None, *, yes: bool, as_json: bool, **ways: bool) -> int:
    """Take the work of RUN (default: the latest) from its session branch to the branch that the run started from.

    Without --ff, --squash or --pr the setting `publish` decides, which is `ff` by default. The branch only ever moves
    forward, and your checkout is written only if the branch is checked out in it without uncommitted changes (untracked
    files may be there). At a terminal you are asked before a protected branch moves, and before anything is pushed.
    With --only the checks of the actions and all gates run first, unless what they lead to was proven already.
    """
    chosen = [how for how in VERBS if ways[how]]
    if len(chosen) > 1:
        raise UsageError(
            f"{' and '.join(f'--{how}' for how in chosen)} exclude each other", "Give one of --ff, --squash and --pr."
        )
    return run_async(_land_work(run_name, chosen[0] if chosen else None, only, yes=yes, as_json=as_json))


async def _land_work(run_name: str | None, how: LandHow | None, only: str | None, *, yes: bool, as_json: bool) -> int:
    async with context_with_run(run_name, "landed", part=only) as (context, run):
        settings = load_settings(context.repository.root, context.environ, {})
        for note in settings.notes:
            print_note(note)
        if (owner := executing_process(run)) is not None:
            raise RunBusy(
                f"process {owner.pid} is executing run {run.id}, and more may land",
                f"Wait for its end with `scaffold attach {run.id}`, or stop it with `scaffold stop {run.id}`.",
            )
        await settle_moves(context, run)
        action = find_landing_action(context, run, only) if only is not None else None
        wish = await read_wish(context, settings, how, action)
        work = await prepare(context, run, wish)
        if work.is_taken:
            return _print_taken_before(run, work, as_json=as_json)
        if not isinstance(run.state, Completed):
            print_note(f"run {run.id} is {status_of(run.state)}: this takes what has landed so far")
        if work.how == "pr":
            return await _open_pull_request(context, run, wish, work, yes=yes, as_json=as_json)
        place = await require_place(context, run, work)
        protected = work.branch in {*PROTECTED_BRANCHES, *settings.texts("protected_branches")}
        layout = layout_for(sys.stderr if as_json else sys.stdout)
        click.echo("\n".join(_plan_lines(run, wish, work, layout)), err=as_json)
        work = await _prove_selection(context, run, work, as_json=as_json)
        if not yes and protected and _is_declined(f"{work.branch} is a protected branch. Move it?"):
            return WAITING
        work = await sign_work(context, run, wish, work)
        await take(context, run, work)
        if as_json:
            print_json(_work_json(run, work, taken=True))
        else:
            click.echo("\n".join(layout.wrap(f"{status_mark('ok')} ", f"{work.branch} is at {work.new[:8]} now")))
            # `update-ref` moves a branch only from where this command left it.
            ref = quote(f"refs/heads/{work.branch}")
            elsewhere = f"git update-ref {ref} {work.old[:12]} {work.new[:12]}"
            print_text(f"  undo it: {f'git reset --keep {work.old[:12]}' if place.where == 'here' else elsewhere}")
        return OK


async def _prove_selection(context: RunContext, run: Run, work: TakenWork, *, as_json: bool) -> TakenWork:
    # A selection is a tree that no landing has seen, unless it is all of the work.
    if work.only is None or work.is_proven:
        return work
    shown = WorkLine(context.clock, quiet=as_json)
    await load_variables(context, run, shown)
    work = await prove_work(context, run, work, during=shown.during)
    layout = layout_for(sys.stderr if as_json else sys.stdout)
    mark, told = ("warn", work.doubt) if work.doubt else ("ok", "its checks and all gates pass on this tree")
    click.echo("\n".join(layout.prose(f"  {status_mark(mark)} ", told)), err=as_json)
    return work


def _is_declined(question: str) -> bool:
    # Without a terminal nobody is asked: the command itself was the consent.
    return is_terminal(sys.stdin, sys.stderr) and not confirm(question)


def _print_taken_before(run: Run, work: TakenWork, *, as_json: bool) -> int:
    if as_json:
        print_json(_work_json(run, work, taken=True))
    else:
        what = f"`{work.only.key}`" if work.only else f"everything on {run.session_branch}"
        print_text(f"{work.branch} has {what} already")
    return OK


async def _open_pull_request(
    context: RunContext, run: Run, wish: LandWish, work: TakenWork, *, yes: bool, as_json: bool
) -> int:
    async with WorkLine(context.clock, quiet=as_json).during(Activity(label="reads the remote's branches")):
        target = await find_target(context, run, work, folder_trust(context.repository.root))
    layout = layout_for(sys.stderr if as_json else sys.stdout)
    click.echo("\n".join(_plan_lines(run, wish, work, layout, target)), err=as_json)
    work = await _prove_selection(context, run, work, as_json=as_json)
    # Signing may ask for a passphrase, and only signed commits can be compared with the remote's: ask first.
    if wish.style.sign and not yes and _is_declined(f"Push to {target.remote}?"):
        return WAITING
    work = await sign_work(context, run, wish, work)
    force = await would_overwrite(context, work, target)
    if force:
        _require_force(target)
    elif not wish.style.sign and not yes and _is_declined(f"Push to {target.remote}?"):
        return WAITING
    async with WorkLine(context.clock, quiet=as_json).during(Activity(label=f"pushes to {target.remote}")):
        url = await publish_work(context, run, work, target, force=force)
    if as_json:
        print_json({**_work_json(run, work, taken=False), "url": url})
    else:
        click.echo(f"{status_mark('ok')} {printable(url)}")
    return OK


def _require_force(target: Target) -> None:
    # `--yes` does not cover it: what somebody else pushed would be lost.
    there = f"{target.remote} has other commits on {target.branch}"
    at_terminal = is_terminal(sys.stdin, sys.stderr)
    if not at_terminal or not confirm(f"{there}. Replace them?"):
        fetched = f"git fetch {quote(target.remote)} {quote(target.branch)}"
        raise GitError(
            there,
            f"Look at them: `{fetched} && git log FETCH_HEAD`. At a terminal "
            "`scaffold land --pr` offers to replace them. Nothing was pushed.",
        )


def _plan_lines(
    run: Run, wish: LandWish, work: TakenWork, layout: Layout, target: Target | None = None
) -> Iterator[str]:
    # The ids of signed commits are not known before they are made.
    signs, has_ids = wish.style.sign, work.how != "squash" and not wish.style.sign
    made_again = has_ids and any(each.old != each.new for each in work.commits)
    made = ", signed" if signs else ", made again" if made_again else ""
    count = count_of(len(work.commits), "commit")
    via = f", pushed to {target.remote} as {target.branch}" if target else "" if signs else f" to {work.new[:8]}"
    since = "" if target else f" from {work.old[:8]}"
    yield from layout.prose("", f"run {run.id}: {VERBS[work.how]} {work.branch}{since}{via}: {count}{made}", hang=2)
    for each in work.commits:
        shown = each.new if has_ids else each.old
        because = work.reasons.get(each.old)
        yield from layout.prose(f"  {shown[:8]}  ", each.subject + (f"  ({because})" if because else ""))
    if work.doubt and work.only is None:  # a selection is proven first
        yield from layout.prose(f"  {status_mark('warn')} ", work.doubt)


def _work_json(run: Run, work: TakenWork, *, taken: bool) -> dict[str, Any]:
    return {
        "run": run.id,
        "how": work.how,
        "branch": work.branch,
        "old": work.old,
        "new": work.new,
        "taken": taken,
        "proven": work.is_proven,
        "commits": [
            {
                "old": each.old,
                "new": each.new,
                "action": each.action,
                "subject": each.subject,
                "because": work.reasons.get(each.old) or None,
            }
            for each in work.commits
        ],
        "url": None,
    }
