"""`diff`: what an action or a run changed, landed or not."""

import os
import sys

import click
from msgspec import Struct

from scaffold.cli.lookup import action_if_any, run_option, site_with_run
from scaffold.cli.reader import find_run
from scaffold.cli.safe import printable
from scaffold.cli.screen import json_option, paint, print_json
from scaffold.core.errors import GitFailed, UsageProblem
from scaffold.core.ids import Commit
from scaffold.core.model import Action, Run
from scaffold.git.commit import READABLE, changed_paths
from scaffold.git.refs import resolve
from scaffold.host.loop import run_async
from scaffold.landing.record import session_ref
from scaffold.worker.site import Site

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class Change(Struct, frozen=True, kw_only=True):
    """Two commits to compare, both None where nothing was changed; `note` says what is special about them."""

    action: str | None = None
    base: Commit | None = None
    commit: Commit | None = None
    note: str = ""


@click.command()
@click.argument("target", metavar="[ACTION|RUN]", required=False)
@click.option("--stat", is_flag=True, help="Show the changed files and how much, not the changes themselves.")
@run_option
@json_option
def diff(target: str | None, run_name: str | None, *, stat: bool, as_json: bool) -> None:
    """Show what ACTION landed, or what all of RUN did, the latest run without either.

    Of an action that has not landed: its candidate, or what was pinned of its last attempt.
    """
    run_async(_diff(target, run_name, stat=stat, as_json=as_json))


async def _diff(target: str | None, run_name: str | None, *, stat: bool, as_json: bool) -> None:
    async with site_with_run(run_name) as (site, run):
        change = await _change(site, run, target)
        if change.note:
            click.echo(f"note: {change.note}", err=True)
        patch, paths = b"", tuple[str, ...]()
        if change.base is not None and change.commit is not None:
            form = ("--stat", "--summary") if stat else ("-p", "--binary")
            patch = (await site.git("diff-tree", "-r", *READABLE, *form, change.base, change.commit)).out
            paths = await changed_paths(site.git, change.base, change.commit)
    if as_json:
        print_json(_shape(change, paths, patch))
    else:
        _print(patch)


def _shape(change: Change, paths: tuple[str, ...], patch: bytes) -> dict[str, object]:
    return {
        "action": change.action,
        "commit": change.commit,
        "base": change.base,
        "paths": [os.fsencode(path).decode(errors="replace") for path in paths],
        "patch": patch.decode(errors="replace"),
    }


async def _change(site: Site, run: Run, target: str | None) -> Change:
    if target is None:
        return await _of_run(site, run)
    action = action_if_any(site, run, target)
    if action is not None:
        return await _of_action(site, action)
    try:
        return await _of_run(site, find_run(site, target))
    except UsageProblem as problem:
        what = f"`{target}` is neither an action of run {run.id} nor a run"
        raise UsageProblem(what, "`scaffold tasks` lists the actions, `scaffold status` names the run.") from problem


async def _of_run(site: Site, run: Run) -> Change:
    tip = await resolve(site.git, session_ref(run))
    if tip is None:
        return Change(note=f"{run.session_branch} is not there: nothing has landed, or somebody deleted it")
    return Change(base=run.base_sha, commit=tip)


async def _of_action(site: Site, action: Action) -> Change:
    attempts = site.store.attempts.of_action(action.id)
    landed = next((each for each in attempts if each.outcome == "landed" and each.head_sha), None)
    if landed is not None and landed.head_sha is not None:
        base = await resolve(site.git, f"{landed.head_sha}^")
        if base is None:
            raise _gone(landed.head_sha)
        return Change(action=action.key, base=base, commit=landed.head_sha)
    kept = next((each for each in reversed(attempts) if each.head_sha), None)
    if kept is None or kept.head_sha is None:
        return Change(action=action.key, note=_nothing(site, action))
    if await resolve(site.git, kept.head_sha) is None:
        raise _gone(kept.head_sha)
    what = "is a candidate" if kept.phase in {"candidate", "landing"} and kept.status != "ended" else "was pinned"
    note = f"`{action.key}` has not landed; this {what} in attempt {kept.number}"
    return Change(action=action.key, base=kept.base_sha, commit=kept.head_sha, note=note)


def _nothing(site: Site, action: Action) -> str:
    children = [child.key for child in site.store.actions.children(action.id)]
    if children:
        return f"`{action.key}` is compound: see its children {', '.join(children)}"
    return f"`{action.key}` has changed nothing yet"


def _gone(commit: Commit) -> GitFailed:
    return GitFailed(f"commit {commit[:12]} is not in this repository any more", "Was it pruned? It cannot be shown.")


def _print(patch: bytes) -> None:
    """Print a patch: byte for byte where a program reads it, coloured and safe where a person does."""
    if not sys.stdout.isatty():
        click.echo(patch, nl=False)
        return
    for line in patch.decode(errors="replace").split("\n")[:-1]:
        text = printable(line)
        click.echo(paint(text, COLOURS[text[0]]) if text[:1] in COLOURS else text)
