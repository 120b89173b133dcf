"""Slash commands as the task of a one-shot: carried out without a model, on the conversation that is gone on with."""

import os
import shutil
from typing import assert_never

from msgspec import Struct

from scaffold.agent.model_access import resolve_model
from scaffold.agent.modes import parse_mode
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
from scaffold.config.settings import resolve_model_name
from scaffold.core.errors import UsageError
from scaffold.core.model import Usage
from scaffold.host.clock import SystemClock
from scaffold.host.identity import own_identity
from scaffold.llm.registry.cards import known_models
from scaffold.session.options import SessionOptions
from scaffold.session.slash_queries import (
    ConversationInfo,
    SlashQuery,
    UsageSummary,
    answer_query,
    conversation_listing,
    subagent_usage,
)
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore

MAX_LISTED = 20
"""Conversations that are listed."""


class SlashContext(Struct, frozen=True):
    """A call of `ralph` with a slash command; `stored` is None where no conversation is gone on with."""

    order: SessionOptions
    store: UserStore
    stored: StoredConversation | None
    model: str


def run_oneshot_slash(command: Command, shot: SlashContext) -> str:
    """Return what the command says; UsageProblem for one that is none, or makes no sense without a talk."""
    match command:
        case InvalidCommand(what=what, fix=fix):
            raise UsageError(what, fix)
        case Help() | ShowModels():
            return answer_query(command, _conversation_info(shot))
        case ShowMode() | ShowTasks() | ShowAgents() | ShowCost():
            return _answer(command, shot)
        case SwitchModel(model=model):
            return _switch_model(shot, model)
        case SwitchMode(mode=mode):
            return _switch_mode(shot, mode)
        case Resume(conversation=""):
            return _list(shot)
        case Resume(conversation=conversation):
            raise UsageError("there is no talk to go on in", f"Begin one: `ralph --resume {conversation}`.")
        case Compact() | Clear() | QuitSession() | ShowTools():
            raise UsageError("this command is for a talk", "Begin one: `ralph`, or `ralph -c`.")
        case _:
            assert_never(command)


def _answer(inquiry: SlashQuery, shot: SlashContext) -> str:
    _require_conversation(shot)
    return answer_query(inquiry, _conversation_info(shot))


def _require_conversation(shot: SlashContext) -> StoredConversation:
    if shot.stored is None:
        raise UsageError("no conversation is meant", "Add -c for this directory's latest, or `--resume ID`.")
    return shot.stored


def _conversation_info(shot: SlashContext) -> ConversationInfo:
    stored, store = shot.stored, shot.store
    standing = None if stored is None else store.conversations.standing(stored.id)
    roster = () if stored is None else store.subagents.of_parent(stored.id)
    return ConversationInfo(
        model=shot.model,
        models=[known.model for known in known_models()],
        mode=standing.mode if standing else "default",
        todos=standing.todos.entries if standing else (),
        roster=roster,
        spending=UsageSummary(total=stored.usage if stored else Usage(), agents=subagent_usage(roster)),
        rules=shot.order.rules,
        now=SystemClock().now(),
        width=_width(),
    )


def _switch_model(shot: SlashContext, model: str) -> str:
    if shot.stored is None:
        raise UsageError("there is no conversation to switch", "Add -c, or start one with `--model`.")
    pinned, _ = resolve_model(resolve_model_name(model, os.environ, shot.order.cwd))
    conversation, conversations, me = shot.stored.id, shot.store.conversations, own_identity()
    with shot.store.transaction():
        conversations.claim(conversation, me)
        conversations.switch_model(conversation, pinned, me=me)
        conversations.release(conversation, me)
    return f"{conversation} goes on with {pinned}"


def _switch_mode(shot: SlashContext, word: str) -> str:
    mode = parse_mode(word)
    conversation, conversations, me = _require_conversation(shot).id, shot.store.conversations, own_identity()
    with shot.store.transaction():
        conversations.claim(conversation, me)
        conversations.keep_mode(conversation, mode, me=me)
        conversations.release(conversation, me)
    return f"{conversation} goes on in mode {mode}"


def _list(shot: SlashContext) -> str:
    found = shot.store.conversations.listed(str(shot.order.cwd), limit=MAX_LISTED)
    current = shot.stored.id if shot.stored else ""
    return conversation_listing(found, current, now=SystemClock().now(), width=_width())


def _width() -> int:
    return shutil.get_terminal_size().columns
