"""The hidden command `subagent`: one agent, one task, then gone. Its session holds the other end of standard input."""

import asyncio
import os
import signal

import click

from scaffold.agent.model_access import open_user_store
from scaffold.agent.subagents.approval_relay import ApprovalRelay
from scaffold.agent.turn_loop import TurnResult
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, OK
from scaffold.cli.render.reporters import TextReporter
from scaffold.core.conversation import Text
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ConversationId
from scaffold.host.clock import SystemClock
from scaffold.host.identity import own_identity
from scaffold.host.process.async_runner import run_async
from scaffold.host.process.gc_tuning import relax_gc
from scaffold.host.process.lifeline import watch_lifeline
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.agent_session import Session, open_session
from scaffold.session.conversation import OpenConversation, open_conversation
from scaffold.session.options import read_subagent_options
from scaffold.session.redacted_output import RedactingReporter
from scaffold.session.subagent_launcher import ParentLink
from scaffold.store.user.subagents import StoredSubagent, SubagentOutcome
from scaffold.store.user_store import UserStore

TASK_PROMPT = """\
You are {name}, a subagent: another agent gave you the task below. It reads nothing of you but your last message, whole:
put into it all that it needs. Do this task and nothing else."""


@click.command(hidden=True)
@click.argument("subagent_id", metavar="ID")
def subagent(subagent_id: str) -> int:
    """Do the task of a subagent; started by its session."""
    watch_lifeline()
    relax_gc()
    try:
        return run_async(_work(ConversationId(subagent_id)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


async def _work(subagent_id: ConversationId) -> int:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    store = open_user_store()
    try:
        mine, stored = store.subagents.get(subagent_id), store.conversations.get(subagent_id)
        if mine.status != "running":
            return FAILED
        with open_conversation(store, stored, cwd="", model=mine.model, title="", me=own_identity()) as seat:
            return await _run_task(mine, seat, store)
    finally:
        store.close()


async def _run_task(mine: StoredSubagent, seat: OpenConversation, store: UserStore) -> int:
    """Do the task, and report how it went."""
    session: Session | None = None
    charge = read_subagent_options(mine.spec)
    refer = ApprovalRelay(store, SystemClock(), me=mine.id, parent=mine.parent)
    post = ParentLink(name=mine.name, account=charge.account, ask_parent=refer)
    teller = RedactingReporter(TextReporter(live=False), redactor_for(os.environ, charge.order.cwd))
    try:
        async with open_session(charge.order, seat, teller, post=post) as session:
            finish = await session.agent.turn((Text(task_prompt(mine)),))
    except ScaffoldError as trouble:
        said = session.usage_counter.text if session else ""
        _report(store, mine, "failure", result=said or None, error=trouble.in_full)
        return OK
    _report_finish(store, mine, finish)
    return OK


def task_prompt(mine: StoredSubagent) -> str:
    """Return the first thing a subagent is told."""
    parts = [TASK_PROMPT.format(name=mine.name), f"# Task\n\n{mine.task}"]
    if mine.context.strip():
        parts.append(f"# What you are told besides\n\n{mine.context}")
    return "\n\n".join(parts)


def _report_finish(store: UserStore, mine: StoredSubagent, finish: TurnResult) -> None:
    if finish.stop == "refused":
        _report(store, mine, "failure", result=finish.text or None, error="the model declined to do it")
    else:
        _report(store, mine, "success", result=finish.text, error=None)


def _report(
    store: UserStore, mine: StoredSubagent, outcome: SubagentOutcome, *, result: str | None, error: str | None
) -> None:
    with store.transaction(durable=True):
        store.subagents.report(mine.id, outcome, result=result, error=error)
