"""Slash commands in a talk, carried out."""

import os
import shutil
from typing import Protocol, assert_never

from scaffold.agent.slash import (
    Clear,
    Command,
    Compact,
    Help,
    InvalidCommand,
    QuitSession,
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
from scaffold.cli.repl.current_conversation import CurrentConversation
from scaffold.cli.repl.profile import ReplProfile
from scaffold.cli.repl.transcript import Transcript
from scaffold.config.settings import resolve_model_name
from scaffold.core.errors import UsageError
from scaffold.host.clock import SystemClock
from scaffold.llm.registry.cards import known_models
from scaffold.policy.path.containment import Refusal
from scaffold.session.slash_queries import (
    ConversationInfo,
    UsageSummary,
    answer_query,
    conversation_listing,
    subagent_usage,
)


class SlashCommandTarget(Protocol):
    """What commands work on."""

    current: CurrentConversation
    narrator: Transcript
    profile: ReplProfile

    def leave(self) -> None:
        """End the talk."""
        ...


def needs_idle_agent(command: Command) -> bool:
    """Tell whether a command has to wait until the agent is idle."""
    elsewhere = isinstance(command, Resume) and bool(command.conversation)
    return elsewhere or isinstance(command, (SwitchModel, Compact, Clear))


async def run_slash_command(command: Command, talk: SlashCommandTarget) -> None:
    """Do what a command says, and tell; ScaffoldError leaves everything as it was."""
    match command:
        case InvalidCommand(what=what, fix=fix):
            raise UsageError(what, fix)
        case Help() | ShowModels() | ShowMode() | ShowTasks() | ShowAgents() | ShowCost() | ShowTools():
            talk.narrator.answer(answer_query(command, conversation_info(talk)))
        case SwitchModel(model=model):
            session = talk.current.session
            named = resolve_model_name(model, os.environ, session.options.cwd)
            talk.narrator.session(model=await session.switch(named))
            talk.narrator.tell(f"{talk.current.session.model} answers from now on")
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
        case QuitSession():
            talk.leave()
        case _:
            assert_never(command)


def conversation_info(talk: SlashCommandTarget) -> ConversationInfo:
    """Return what can be told of the conversation."""
    session = talk.current.session
    roster = session.peers.roster()
    return ConversationInfo(
        model=session.model,
        models=[each.model for each in known_models()],
        mode=session.modes.current,
        todos=session.todos.entries,
        roster=roster,
        spending=UsageSummary(
            total=session.open_conversation.prior_usage + session.usage_counter.usage,
            now=session.usage_counter.usage,
            models=talk.narrator.models,
            agents=subagent_usage(roster),
            limit_usd=session.options.budget_usd,
            left_usd=session.remaining_usd,
        ),
        tools=session.tools,
        rules=session.options.rules,
        now=SystemClock().now(),
        width=_width(),
        talking=True,
        own=talk.profile.own,
    )


def _switch_mode(talk: SlashCommandTarget, mode: str) -> None:
    refusal = talk.current.session.modes.switch(mode)
    if isinstance(refusal, Refusal):
        raise UsageError(refusal.reason.rstrip("."), "`/mode` tells what they are for.")
    talk.narrator.tell(f"the agent works in mode {talk.current.session.modes.current} from now on")


def _compact(talk: SlashCommandTarget) -> None:
    agent = talk.current.session.agent
    before = agent.tokens
    if agent.compact():
        talk.narrator.tell(f"about {before:,} tokens before, {agent.tokens:,} now")
    else:
        talk.narrator.tell(
            f"it cannot be any shorter: about {before:,} tokens, of which most are instructions and tools"
        )


async def _clear(talk: SlashCommandTarget) -> None:
    before, kept = talk.current.session.open_conversation.id, talk.current.has_messages
    await talk.current.switch_to(None, talk.current.session.model)
    way_back = f"; the one before is kept: /resume {before}" if kept else ""
    talk.narrator.tell(f"a new conversation, {talk.current.session.open_conversation.id}{way_back}")


async def _resume(talk: SlashCommandTarget, conversation: str) -> None:
    chair = talk.current
    found = chair.store.conversations.get(conversation)
    if found is None:
        raise UsageError(f"there is no conversation `{conversation}`", "`/resume` lists this directory's.")
    if found.id == chair.session.open_conversation.id:
        raise UsageError("this is that conversation", "`/resume` lists the others.")
    await chair.switch_to(found, found.model)
    talk.narrator.tell(chair.recap())


def _list(talk: SlashCommandTarget) -> None:
    chair = talk.current
    found = chair.listed()
    now, current = SystemClock().now(), chair.session.open_conversation.id
    talk.narrator.answer(conversation_listing(found, current, now=now, width=_width()))


def _width() -> int:
    return shutil.get_terminal_size().columns
