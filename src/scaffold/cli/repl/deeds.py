"""Slash commands in a talk, carried out."""

import os
import shutil
from typing import Protocol, assert_never

from scaffold.agent.slash import (
    Clear,
    Command,
    Compact,
    Help,
    Misunderstood,
    Quit,
    Resume,
    ShowAgents,
    ShowCost,
    ShowMode,
    ShowModels,
    ShowTasks,
    ShowTools,
    SwitchMode,
    SwitchModel,
)
from scaffold.cli.inquiry import Known, Spending, answer, conversation_listing, used_by
from scaffold.cli.repl.chair import Chair
from scaffold.cli.repl.narrator import Narrator
from scaffold.cli.repl.trade import Trade
from scaffold.cli.settings import named_model
from scaffold.core.errors import UsageProblem
from scaffold.host.clock import SystemClock
from scaffold.llm.registry import known_models
from scaffold.policy.paths import Refusal


class Talk(Protocol):
    """What commands work on."""

    chair: Chair
    narrator: Narrator
    trade: Trade

    def leave(self) -> None:
        """End the talk."""
        ...


def needs_rest(command: Command) -> bool:
    """Tell whether a command has to wait until the agent is idle."""
    elsewhere = isinstance(command, Resume) and bool(command.conversation)
    return elsewhere or isinstance(command, (SwitchModel, Compact, Clear))


async def carry_out(command: Command, talk: Talk) -> None:
    """Do what a command says, and tell; ScaffoldError leaves everything as it was."""
    match command:
        case Misunderstood(what=what, fix=fix):
            raise UsageProblem(what, fix)
        case Help() | ShowModels() | ShowMode() | ShowTasks() | ShowAgents() | ShowCost() | ShowTools():
            talk.narrator.answer(answer(command, known(talk)))
        case SwitchModel(model=model):
            session = talk.chair.session
            named = named_model(model, os.environ, session.order.cwd)
            talk.narrator.session(model=await session.switch(named))
            talk.narrator.tell(f"{talk.chair.session.model} answers from now on")
        case SwitchMode(mode=mode):
            _switch_mode(talk, mode)
        case Compact():
            _compact(talk)
        case Clear():
            await _clear(talk)
        case Resume(conversation=""):
            _list(talk)
        case Resume(conversation=conversation):
            await _resume(talk, conversation)
        case Quit():
            talk.leave()
        case _:
            assert_never(command)


def known(talk: Talk) -> Known:
    """Return what can be told of the conversation."""
    session = talk.chair.session
    roster = session.company.roster()
    return Known(
        model=session.model,
        models=[each.model for each in known_models()],
        mode=session.modes.current,
        todos=session.todos.entries,
        roster=roster,
        spending=Spending(
            total=session.sitting.used_before + session.tally.usage,
            now=session.tally.usage,
            models=talk.narrator.models,
            agents=used_by(roster),
            limit_usd=session.order.budget_usd,
            left_usd=session.left_usd,
        ),
        tools=session.tools,
        rules=session.order.rules,
        now=SystemClock().now(),
        width=_width(),
        talking=True,
        own=talk.trade.own,
    )


def _switch_mode(talk: Talk, mode: str) -> None:
    refusal = talk.chair.session.modes.switch(mode)
    if isinstance(refusal, Refusal):
        raise UsageProblem(refusal.reason.rstrip("."), "`/mode` tells what they are for.")
    talk.narrator.tell(f"the agent works in mode {talk.chair.session.modes.current} from now on")


def _compact(talk: Talk) -> None:
    agent = talk.chair.session.agent
    before = agent.tokens
    if agent.compact():
        talk.narrator.tell(f"about {before:,} tokens before, {agent.tokens:,} now")
    else:
        talk.narrator.tell(
            f"it cannot be any shorter: about {before:,} tokens, of which most are instructions and tools"
        )


async def _clear(talk: Talk) -> None:
    before, kept = talk.chair.session.sitting.id, talk.chair.kept
    await talk.chair.take(None, talk.chair.session.model)
    way_back = f"; the one before is kept: /resume {before}" if kept else ""
    talk.narrator.tell(f"a new conversation, {talk.chair.session.sitting.id}{way_back}")


async def _resume(talk: Talk, conversation: str) -> None:
    chair = talk.chair
    found = chair.store.conversations.get(conversation)
    if found is None:
        raise UsageProblem(f"there is no conversation `{conversation}`", "`/resume` lists this directory's.")
    if found.id == chair.session.sitting.id:
        raise UsageProblem("this is that conversation", "`/resume` lists the others.")
    await chair.take(found, found.model)
    talk.narrator.tell(chair.recap())


def _list(talk: Talk) -> None:
    chair = talk.chair
    found = chair.listed()
    now, current = SystemClock().now(), chair.session.sitting.id
    talk.narrator.answer(conversation_listing(found, current, now=now, width=_width()))


def _width() -> int:
    return shutil.get_terminal_size().columns
