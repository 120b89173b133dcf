"""`send`: a message to the agent of an action, which reads it before its next request."""

import sys

import click

from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.request import STDIN
from scaffold.cli.wiring import context_with_run
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.user_control.inbox_decisions import send_message
from scaffold.views.name_lookup import find_action
from scaffold.worker.agent.incoming_messages import MAX_MESSAGE_CHARS

MAX_UTF8_BYTES = 4


@click.command()
@click.argument("action_name", metavar="ACTION")
@click.argument("words", metavar="TEXT", nargs=-1, required=True)
@click.option("--run", "run_name", metavar="RUN", help="The run of the action; default: the latest.")
def send(action_name: str, words: tuple[str, ...], run_name: str | None) -> None:
    """Send TEXT (`-`: standard input) to the agent of ACTION, which reads it before its next request.

    Later attempts of the action also receive it. If no agent works on the action yet, the message waits.
    """
    text = " ".join(words)
    if words == (STDIN,):
        # Cut off just above the longest message, so that its check still refuses a longer one.
        content = sys.stdin.buffer.read(MAX_MESSAGE_CHARS * MAX_UTF8_BYTES + 1)
        text = content.decode(errors="surrogateescape")

    async def send_text() -> None:
        async with context_with_run(run_name, part=action_name) as (context, run):
            action = find_action(context, run, action_name)
            attempt = send_message(context, run, action, text)
        if attempt is None:
            print_text(f"no agent is working on {action.key}; its next attempt reads the message")
        else:
            print_text(f"{action.key}#{attempt.number} reads the message before its next request")

    run_async(send_text())
