"""`send`: a word to the agent of an action, which it reads before its next request."""

import sys

import click

from scaffold.cli.wiring import open_context
from scaffold.core.errors import UsageError
from scaffold.core.model import Action, Run
from scaffold.core.printable_text import utf8_safe
from scaffold.core.states import WORKER_PHASES, Cancelled, Completed, Skipped, status_of
from scaffold.host.process.async_runner import run_async
from scaffold.run.context import RunContext
from scaffold.views.lookup import find_action
from scaffold.views.store_reader import find_run
from scaffold.worker.human_messages import HUMAN_SENDER, MAX_MESSAGE_CHARS

STDIN = "-"
MAX_UTF8_BYTES = 4


@click.command()
@click.argument("action_name", metavar="ACTION")
@click.argument("words", metavar="TEXT", nargs=-1, required=True)
@click.option("--run", "run_name", metavar="RUN", help="The run the action belongs to; the latest without it.")
def send(action_name: str, words: tuple[str, ...], run_name: str | None) -> None:
    """Tell the agent of ACTION something; it reads TEXT (`-`: standard input) before its next request.

    Every later attempt of the action is told, too. Where nobody works on it yet, the text waits.
    """
    text = _piped() if words == (STDIN,) else " ".join(words)
    run_async(_send(action_name, _checked_text(text), run_name))


def _piped() -> str:
    """Return what is passed on standard input, no more of it than tells that it is too long."""
    content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_MESSAGE_CHARS * MAX_UTF8_BYTES + 1)
    return content.decode(errors="surrogateescape")


def _checked_text(text: str) -> str:
    said = utf8_safe(text).strip()
    if not said:
        raise UsageError("there is nothing to send", "Say it behind the action, or pipe it in: `... | send ACTION -`")
    if len(said) > MAX_MESSAGE_CHARS:
        what = f"the text is longer than the {MAX_MESSAGE_CHARS:,} characters that an agent is told at once"
        raise UsageError(what, "Put it into a file that the agent can read, and send it the file's name.")
    return said


async def _send(action_name: str, text: str, run_name: str | None) -> None:
    site = await open_context()
    try:
        run = find_run(site, run_name)
        action = find_action(site, run, action_name)
        _require_deliverable(site, run, action)
        with site.store.transaction(durable=True):
            site.store.messages.send(
                run.id, sender=HUMAN_SENDER, recipient=action.id, body={"text": site.redactor.clean(text)}
            )
        click.echo(_delivery_note(site, action))
    finally:
        site.store.close()


def _require_deliverable(site: RunContext, run: Run, action: Action) -> None:
    """Raise UsageProblem where no agent will ever read it."""
    if isinstance(run.state, Completed | Cancelled):
        raise UsageError(f"run {run.id} is {status_of(run.state)}: nobody reads letters any more", "Start a new run.")
    if isinstance(action.state, Completed | Cancelled | Skipped):
        raise UsageError(f"`{action.key}` is {status_of(action.state)}: nobody works on it any more", SEE_TASKS)
    if action.kind == "compound":
        keys = ", ".join(f"`{child.key}`" for child in site.store.actions.children(action.id)[:5])
        fix = f"Send it to one of its actions: {keys}." if keys else SEE_TASKS
        raise UsageError(f"`{action.key}` is a compound: nobody works on it itself", fix)


def _delivery_note(site: RunContext, action: Action) -> str:
    attempts = site.store.attempts.of_action(action.id)
    if attempts and attempts[-1].status != "ended" and attempts[-1].phase in WORKER_PHASES:
        return f"{action.key}#{attempts[-1].number} reads it before its next request"
    return f"nobody works on {action.key} just now: its next attempt reads it"


SEE_TASKS = "`scaffold tasks` shows every action."
