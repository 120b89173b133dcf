"""The hidden command `subagent`: an agent that does one task for a session."""

import asyncio
import signal

import click

from scaffold.agent.model_access import open_user_store
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, OK
from scaffold.cli.render.reporters import TextReporter
from scaffold.core.ids import ConversationId
from scaffold.host.process.async_runner import run_async, watch_lifeline
from scaffold.host.startup import relax_gc
from scaffold.session.subagent_task import do_subagent_task


@click.command(hidden=True)
@click.argument("subagent_id", metavar="ID")
def subagent(subagent_id: str) -> int:
    """Do the task of a subagent; started by its session, which holds the other end of standard input."""
    watch_lifeline()
    relax_gc()
    try:
        return run_async(_do_task(ConversationId(subagent_id)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


async def _do_task(subagent_id: ConversationId) -> int:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    store = open_user_store()
    try:
        return OK if await do_subagent_task(store, subagent_id, TextReporter(live=False)) else FAILED
    finally:
        store.close()
