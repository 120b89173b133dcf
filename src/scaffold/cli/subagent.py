"""The hidden command `subagent`: one agent, one task, then gone. Its session holds the other end of standard input."""

import asyncio
import os
import signal

import click

from scaffold.agent.agent import Finish
from scaffold.agent.discretion import redactor_for
from scaffold.agent.referral import Referral
from scaffold.cli.discreet import Discreet
from scaffold.cli.exits import FAILED, INTERRUPTED, OK
from scaffold.cli.models import open_user_store
from scaffold.cli.order import read_charge
from scaffold.cli.session import Session, opened_session
from scaffold.cli.sitting import Sitting, sitting
from scaffold.cli.staff import Post
from scaffold.cli.telling import Plain
from scaffold.core.conversation import Text
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ConversationId
from scaffold.host.clock import SystemClock
from scaffold.host.collector import calm_down
from scaffold.host.identity import own_identity
from scaffold.host.lifeline import hold
from scaffold.host.loop import run_async
from scaffold.store.subagents import Outcome, Subagent
from scaffold.store.user import UserStore

BRIEFING = """\
You are {name}, a subagent: another agent gave you the task below. It reads nothing of you but your last message, whole:
put into it all that it needs. Do this task and nothing else."""


@click.command(hidden=True)
@click.argument("subagent_id", metavar="ID")
def subagent(subagent_id: str) -> int:
    """Do the task of a subagent; started by its session."""
    hold()
    calm_down()
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
        with sitting(store, stored, cwd="", model=mine.model, title="", me=own_identity()) as seat:
            return await _carry_out(mine, seat, store)
    finally:
        store.close()


async def _carry_out(mine: Subagent, seat: Sitting, store: UserStore) -> int:
    """Do the task, and report how it went."""
    session: Session | None = None
    charge = read_charge(mine.commission)
    refer = Referral(store, SystemClock(), me=mine.id, parent=mine.parent)
    post = Post(name=mine.name, account=charge.account, refer=refer)
    teller = Discreet(Plain(live=False), redactor_for(os.environ, charge.order.cwd))
    try:
        async with opened_session(charge.order, seat, teller, post=post) as session:
            finish = await session.agent.turn((Text(briefing(mine)),))
    except ScaffoldError as trouble:
        said = session.tally.text if session else ""
        _report(store, mine, "failure", result=said or None, error=trouble.in_full)
        return OK
    _report_finish(store, mine, finish)
    return OK


def briefing(mine: Subagent) -> str:
    """Return the first thing a subagent is told."""
    parts = [BRIEFING.format(name=mine.name), f"# Task\n\n{mine.task}"]
    if mine.context.strip():
        parts.append(f"# What you are told besides\n\n{mine.context}")
    return "\n\n".join(parts)


def _report_finish(store: UserStore, mine: Subagent, finish: Finish) -> None:
    if finish.stop == "refused":
        _report(store, mine, "failure", result=finish.text or None, error="the model declined to do it")
    else:
        _report(store, mine, "success", result=finish.text, error=None)


def _report(store: UserStore, mine: Subagent, outcome: Outcome, *, result: str | None, error: str | None) -> None:
    with store.transaction(durable=True):
        store.subagents.report(mine.id, outcome, result=result, error=error)
