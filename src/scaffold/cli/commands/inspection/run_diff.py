"""`diff`: the changes of an action or a run, landed or not."""

import os
import sys

import click
from msgspec import Struct

from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.terminal.style import print_json, print_patch
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.wiring import context_with_run
from scaffold.core.errors import GitError, UsageError
from scaffold.core.ids import Commit
from scaffold.core.model import Action, Run
from scaffold.git.commits import DIFF_OPTIONS, changed_paths
from scaffold.git.refs import resolve, review_ref
from scaffold.host.process.async_runner import run_async
from scaffold.landing.facts.landing_record import session_ref
from scaffold.run.context import RunContext
from scaffold.run.task_list import own_changed_paths
from scaffold.views.name_lookup import action_if_any
from scaffold.views.store_reader import find_run


class DiffRange(Struct, frozen=True, kw_only=True):
    """Two commits to compare, both None if nothing has changed; `note` is a remark for the user."""

    action: str | None = None
    base: Commit | None = None
    commit: Commit | None = None
    note: str = ""


@click.command()
@click.argument("target", metavar="[ACTION|RUN]", required=False)
@click.option("--stat", is_flag=True, help="Show the changed files and line counts only.")
@run_option
@json_option
@pageable
def diff(target: str | None, run_name: str | None, *, stat: bool, as_json: bool) -> None:
    """Show the landed changes of ACTION, or all changes of RUN (default: the latest run).

    If ACTION has not landed, show its candidate or the pinned work of its last attempt.
    """
    run_async(_print_diff(target, run_name, stat=stat, as_json=as_json))


async def _print_diff(target: str | None, run_name: str | None, *, stat: bool, as_json: bool) -> None:
    async with context_with_run(run_name, "started" if target else "landed", part=target) as (context, run):
        change = await _resolve_range(context, run, target)
        if change.note:
            print_text(f"note: {change.note}", err=True)
        patch, paths = b"", tuple[str, ...]()
        if change.base is not None and change.commit is not None:
            columns = layout_for(sys.stdout).drawing_columns
            form = (f"--stat={columns}", "--summary") if stat else ("-p", "--binary")
            # Of an action, a list of tasks in which its landing marked it is left out.
            listed = run.settings.landing.tracked_list if change.action else None
            every = await changed_paths(context.git, change.base, change.commit)
            paths = await own_changed_paths(context.git, listed, change.base, change.commit)
            left_out = [f":(top,exclude,literal){path}" for path in every if path not in paths]
            chosen = ("--", ":(top)", *left_out) if left_out else ()
            # Plumbing: settings such as `diff.noprefix` and `diff.external` change what `git diff` prints.
            asked = ("diff-tree", "-r", *DIFF_OPTIONS, *form, change.base, change.commit, *chosen)
            patch = (await context.git(*asked)).out
    if as_json:
        shape = {
            "action": change.action,
            "commit": change.commit,
            "base": change.base,
            "paths": [os.fsencode(path).decode(errors="replace") for path in paths],
            "patch": patch.decode(errors="replace"),
        }
        print_json(shape)
    else:
        print_patch(patch)


async def _resolve_range(context: RunContext, run: Run, target: str | None) -> DiffRange:
    if target is None:
        return await _run_range(context, run)
    action = action_if_any(context, run, target)
    if action is not None:
        return await _action_range(context, action)
    try:
        return await _run_range(context, find_run(context, target))
    except UsageError as problem:
        what = f"`{target}` is neither an action of run {run.id} nor a run"
        raise UsageError(what, "`scaffold tasks` lists the actions, `scaffold status` names the run.") from problem


async def _run_range(context: RunContext, run: Run) -> DiffRange:
    tip = await resolve(context.git, session_ref(run))
    if tip is None:
        return DiffRange(note=f"{run.session_branch} does not exist: nothing has landed, or the branch was deleted")
    if tip == run.base_sha:
        return DiffRange(base=run.base_sha, commit=tip, note=f"nothing has landed on {run.session_branch} yet")
    return DiffRange(base=run.base_sha, commit=tip)


async def _action_range(context: RunContext, action: Action) -> DiffRange:
    # The steps of a compound may share a worktree; the last step has the work of all.
    store = context.store.attempts
    attempts = store.for_workspace(action.id) if action.kind == "compound" else store.for_action(action.id)
    landed = next((each for each in reversed(attempts) if each.outcome == "landed" and each.head_sha), None)
    if landed is not None and landed.head_sha is not None:
        base = await resolve(context.git, f"{landed.head_sha}^")
        if base is None:
            raise _missing_commit(landed.head_sha)
        return DiffRange(action=action.key, base=base, commit=landed.head_sha)
    kept = next((each for each in reversed(attempts) if each.head_sha), None)
    if kept is None or kept.head_sha is None:
        children = [child.key for child in context.store.actions.children(action.id)]
        compound = f"is a compound: see its children {', '.join(children)}"
        return DiffRange(
            action=action.key, note=f"`{action.key}` {compound if children else 'has changed nothing yet'}"
        )
    if await resolve(context.git, kept.head_sha) is None:
        raise _missing_commit(kept.head_sha)
    # A human approves the merge with what has landed, not the attempt's own commit.
    if (shown := await resolve(context.git, review_ref(kept.id))) and (base := await resolve(context.git, f"{shown}^")):
        note = f"`{action.key}` has not landed; this is what would land of attempt {kept.number} once you approve it"
        return DiffRange(action=action.key, base=base, commit=shown, note=note)
    what = "is a candidate" if kept.phase in {"candidate", "landing"} and kept.status != "ended" else "was pinned"
    note = f"`{action.key}` has not landed; this {what} in attempt {kept.number}"
    return DiffRange(action=action.key, base=kept.base_sha, commit=kept.head_sha, note=note)


def _missing_commit(commit: Commit) -> GitError:
    return GitError(
        f"commit {commit[:12]} is no longer in this repository", "It may have been pruned; its changes cannot be shown."
    )
