"""Slash commands as the task of a one-shot: carried out without a model, on the conversation that is gone on with."""

import os
import shutil
from typing import assert_never

from msgspec import Struct

from scaffold.agent.modes import parse_mode
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
from scaffold.cli.inquiry import Inquiry, Known, Spending, answer, conversation_listing, used_by
from scaffold.cli.models import usable_model
from scaffold.cli.order import Order
from scaffold.cli.settings import named_model
from scaffold.core.errors import UsageProblem
from scaffold.core.model import Usage
from scaffold.host.clock import SystemClock
from scaffold.host.identity import own_identity
from scaffold.llm.registry import known_models
from scaffold.store.conversations import StoredConversation
from scaffold.store.user import UserStore

LISTED = 20
"""Conversations that are listed."""


class Shot(Struct, frozen=True):
    """A call of `ralph` with a slash command; `stored` is None where no conversation is gone on with."""

    order: Order
    store: UserStore
    stored: StoredConversation | None
    model: str


def obey(command: Command, shot: Shot) -> str:
    """Return what the command says; UsageProblem for one that is none, or makes no sense without a talk."""
    match command:
        case Misunderstood(what=what, fix=fix):
            raise UsageProblem(what, fix)
        case Help() | ShowModels():
            return answer(command, _known(shot))
        case ShowMode() | ShowTasks() | ShowAgents() | ShowCost():
            return _answer(command, shot)
        case SwitchModel(model=model):
            return _switch_model(shot, model)
        case SwitchMode(mode=mode):
            return _switch_mode(shot, mode)
        case Resume(conversation=""):
            return _list(shot)
        case Resume(conversation=conversation):
            raise UsageProblem("there is no talk to go on in", f"Begin one: `ralph --resume {conversation}`.")
        case Compact() | Clear() | Quit() | ShowTools():
            raise UsageProblem("this command is for a talk", "Begin one: `ralph`, or `ralph -c`.")
        case _:
            assert_never(command)


def _answer(inquiry: Inquiry, shot: Shot) -> str:
    _held(shot)
    return answer(inquiry, _known(shot))


def _held(shot: Shot) -> StoredConversation:
    if shot.stored is None:
        raise UsageProblem("no conversation is meant", "Add -c for this directory's latest, or `--resume ID`.")
    return shot.stored


def _known(shot: Shot) -> Known:
    stored, store = shot.stored, shot.store
    standing = None if stored is None else store.conversations.standing(stored.id)
    roster = () if stored is None else store.subagents.of_parent(stored.id)
    return Known(
        model=shot.model,
        models=[known.model for known in known_models()],
        mode=standing.mode if standing else "default",
        todos=standing.todos.entries if standing else (),
        roster=roster,
        spending=Spending(total=stored.usage if stored else Usage(), agents=used_by(roster)),
        rules=shot.order.rules,
        now=SystemClock().now(),
        width=_width(),
    )


def _switch_model(shot: Shot, model: str) -> str:
    if shot.stored is None:
        raise UsageProblem("there is no conversation to switch", "Add -c, or start one with `--model`.")
    pinned, _ = usable_model(named_model(model, os.environ, shot.order.cwd))
    conversation, conversations, me = shot.stored.id, shot.store.conversations, own_identity()
    with shot.store.transaction():
        conversations.claim(conversation, me)
        conversations.switch_model(conversation, pinned, me=me)
        conversations.release(conversation, me)
    return f"{conversation} goes on with {pinned}"


def _switch_mode(shot: Shot, word: str) -> str:
    mode = parse_mode(word)
    conversation, conversations, me = _held(shot).id, shot.store.conversations, own_identity()
    with shot.store.transaction():
        conversations.claim(conversation, me)
        conversations.keep_mode(conversation, mode, me=me)
        conversations.release(conversation, me)
    return f"{conversation} goes on in mode {mode}"


def _list(shot: Shot) -> str:
    found = shot.store.conversations.listed(str(shot.order.cwd), limit=LISTED)
    current = shot.stored.id if shot.stored else ""
    return conversation_listing(found, current, now=SystemClock().now(), width=_width())


def _width() -> int:
    return shutil.get_terminal_size().columns
