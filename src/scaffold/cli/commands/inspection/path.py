"""`path`: the worktree in which an action's agent is working."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option, run_option
from scaffold.cli.render.terminal.style import print_json, print_note
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Action, Attempt
from scaffold.core.states import WORKER_PHASES
from scaffold.git.refs import rescue_ref, work_ref
from scaffold.plan.collisions.rules import HeldBack
from scaffold.plan.failures.recurrence import first_same
from scaffold.run.resources.attempt_resources import resources_in_use
from scaffold.views.agent_list import read_held_back
from scaffold.views.name_lookup import find_action
from scaffold.views.run_json import failure_json
from scaffold.views.store_reader import find_run, no_run_error, store_reader_if_any


@click.command()
@click.argument("action_name", metavar="ACTION")
@run_option
@json_option
def path(action_name: str, run_name: str | None, *, as_json: bool) -> None:
    """Print the worktree in which the agent of ACTION is working, e.g. for `cd "$(scaffold path store)"`."""
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        if reader is None:
            raise no_run_error()
        run = find_run(reader, run_name, part=action_name, tell=reader.show)
        action = find_action(reader, run, action_name)
        store = reader.store.attempts
        held_back = next((each.why for each in read_held_back(reader, run) if each.key == action.key), None)
        attempts = store.for_workspace(action.id) if action.kind == "compound" else store.for_action(action.id)
    last = attempts[-1] if attempts else None
    at_work = last is not None and last.status == "claimed" and last.phase in WORKER_PHASES
    folder = last.worktree if last is not None and at_work else None
    if not folder or not Path(folder).is_dir():  # a worktree may have been removed by hand
        raise ScaffoldError(f"no agent is working on `{action.key}`", _next_step(action, attempts, held_back))
    if as_json:
        shown = {"run": run.id, "action": action.key, "attempt": attempts[-1].number, "path": folder}
        failed = [each for each in attempts[:-1] if each.escalation is not None]
        failures = [{"attempt": each.number, **failure_json(each, attempts)} for each in failed]
        shown |= {"alternative": attempts[-1].alternative, "failures": failures}
        print_json({**shown, **resources_in_use(folder).fields})
    else:
        # As bytes: a path need not be UTF-8, and the shell needs it as it is.
        click.echo(os.fsencode(folder))


def _next_step(action: Action, attempts: Sequence[Attempt], held_back: HeldBack | None) -> str:
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
