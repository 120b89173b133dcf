"""`path`: the worktree in which an action's agent is working."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scaffold.cli.commands.options import json_option, run_option
from scaffold.cli.render.terminal.style import print_json
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Action, Attempt
from scaffold.core.states import WORKER_PHASES
from scaffold.git.refs import rescue_ref, work_ref
from scaffold.plan.collisions.rules import HeldBack
from scaffold.plan.failures.recurrence import first_same
from scaffold.run.resources.attempt_resources import resources_in_use
from scaffold.views.held_back import read_held_back
from scaffold.views.name_lookup import find_action
from scaffold.views.run_json import failure_json
from scaffold.views.store_reader import find_run, no_run_error, store_reader_if_any


@click.command()
@click.argument("action_name", metavar="ACTION")
@run_option
@json_option
def path(action_name: str, run_name: str | None, *, as_json: bool) -> None:
    """Print the worktree in which the agent of ACTION is working, e.g. for `cd "$(scaffold path store)"`."""
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        if reader is None:
            raise no_run_error()
        run = find_run(reader, run_name)
        action = find_action(reader, run, action_name)
        store = reader.store.attempts
        held_back = next((each.why for each in read_held_back(reader, run) if each.key == action.key), None)
        attempts = store.of_workspace(action.id) if action.kind == "compound" else store.of_action(action.id)
    folder = _worktree_in_use(attempts[-1]) if attempts else None
    if folder is None:
        raise ScaffoldError(f"no agent is working on `{action.key}`", _next_step(action, attempts, held_back))
    if as_json:
        shown = {"run": run.id, "action": action.key, "attempt": attempts[-1].number, "path": folder}
        shown |= {"alternative": attempts[-1].alternative, "failures": _failures_json(attempts)}
        print_json({**shown, **resources_in_use(folder).fields})
    else:
        # As bytes: a path need not be UTF-8, and the shell needs it as it is.
        click.echo(os.fsencode(folder))


def _failures_json(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return how the attempts before the last one failed."""
    failed = [each for each in attempts[:-1] if each.escalation is not None]
    return [{"attempt": each.number, **failure_json(each, attempts)} for each in failed]


def _worktree_in_use(attempt: Attempt) -> str | None:
    """Return the attempt's worktree if its worker is using it, otherwise None."""
    at_work = attempt.status == "claimed" and attempt.phase in WORKER_PHASES
    return attempt.worktree if at_work and attempt.worktree and Path(attempt.worktree).is_dir() else None


def _next_step(action: Action, attempts: Sequence[Attempt], held_back: HeldBack | None) -> str:
    """Return what it waits for, or where to find the work of the last attempt."""
    if held_back is not None:
        return f"It is held back: it {held_back.text}."
    if not attempts:
        return "It has not started; `scaffold tasks` shows what it waits for."
    attempt = attempts[-1]
    if attempt.outcome in {"landed", "recorded"}:
        return f"Its work has landed: `scaffold diff {action.key}` shows it."
    if attempt.status != "ended":
        return f"Its work is pinned: `git show {work_ref(attempt.id)}`."
    same = first_same(attempts, attempt)
    again = f" It failed in the same way as attempt {same.number}." if same else ""
    return f"Its unfinished work, if any, is pinned: `git show {rescue_ref(attempt.id)}`, or `scaffold salvage`.{again}"
