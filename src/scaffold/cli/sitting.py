"""One call of `ralph`: the parts that carry it out, and how it ends."""

import asyncio
import os
import platform
from pathlib import Path

from msgspec import Struct

from scaffold.agent.agent import Agent, Books, Brief
from scaffold.agent.attachments import attach
from scaffold.agent.conversation import Conversation
from scaffold.agent.instructions import find_instructions
from scaffold.agent.journal import noting
from scaffold.agent.prompts import session_context, session_prompt
from scaffold.cli.exits import FAILED, OK, exit_code
from scaffold.cli.models import opened_model, unheld
from scaffold.cli.outcome import Tally, shape, stop_reason
from scaffold.cli.telling import Teller
from scaffold.core.conversation import Caller, Image, Text
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ConversationId, ReservationId
from scaffold.core.model import Usage
from scaffold.core.ports import Budget
from scaffold.host.clock import SystemClock
from scaffold.host.environment import child_environment
from scaffold.host.identity import own_identity
from scaffold.host.ids import new_id
from scaffold.llm.naming import parse_model
from scaffold.llm.registry import card
from scaffold.policy.consent import Gate
from scaffold.policy.gate import Rules
from scaffold.store.history import ConversationHistory
from scaffold.store.session_budget import session_budget
from scaffold.store.user import UserStore
from scaffold.tools.builtin import builtin_tools
from scaffold.tools.workspace import Workspace

CALLER = Caller(role="agent")


class Order(Struct, frozen=True, kw_only=True):
    """What one call of `ralph` is to do."""

    task: str
    """The user's own words; `@path` in them attaches a file."""
    piped: str
    """What came on standard input: material, in which `@path` means nothing."""
    cwd: Path
    home: Path
    rules: Rules
    max_turns: int
    budget_usd: float | None
    stream: bool
    own_prompt: str | None
    """What replaces the built-in base prompt."""


class Sitting(Struct, frozen=True, kw_only=True):
    """A conversation that this process goes on with, and the model that answers in it."""

    id: ConversationId
    model: str
    conversation: Conversation
    store: UserStore


async def carry_out(order: Order, sitting: Sitting, teller: Teller) -> int:
    """Let the agent do what `order` says, and return the exit code.

    `teller` gets the end, whatever it is. Raises ScaffoldError after it where people are to be told in words.
    """
    tally = Tally(ConversationHistory(sitting.store, sitting.id, own_identity()))
    stop, error, code = "end", None, OK
    try:
        stop = await _turn(order, sitting, tally, teller)
        if stop == "refused":
            error, code = "the model declined to answer", FAILED
    except ScaffoldError as trouble:
        stop, error, code = stop_reason(trouble), f"{trouble.what.rstrip('.')}. {trouble.fix}", exit_code(trouble)
        if teller.for_people:
            raise
    except asyncio.CancelledError:
        stop, error = "interrupted", f"interrupted: go on with `ralph --resume {sitting.id}`"
        raise
    finally:
        teller.result(
            shape(session=sitting.id, model=sitting.model, result=tally.text, usage=tally.usage, stop=stop, error=error)
        )
    return code


async def _turn(order: Order, sitting: Sitting, tally: Tally, teller: Teller) -> str:
    """Take one turn with everything wired, and return how it ended."""
    async with opened_model(sitting.model, sitting.store, stream=order.stream) as model:
        budget = _budget(order, sitting, teller)
        gate = Gate(order.rules, root=order.cwd, clock=SystemClock(), tell=noting(teller))
        workspace = Workspace(order.cwd, child_environment(os.environ))
        agent = Agent(
            model=model,
            tools=tuple(gate.guard(tool) for tool in builtin_tools(workspace)),
            brief=_brief(order, teller),
            books=Books(journal=teller, budget=budget, history=tally),
            conversation=sitting.conversation,
            hear=teller.hear,
        )
        return (await agent.turn(_said(order, sitting, teller))).stop


def _said(order: Order, sitting: Sitting, teller: Teller) -> tuple[Text | Image, ...]:
    """Return what the agent is told: the task, what it names, and what was piped in."""
    images = card(parse_model(sitting.model)).images
    attached = attach(order.task, cwd=order.cwd, home=order.home, images=images)
    for notice in attached.notices:
        teller.note("notice", text=notice)
    words = (*attached.parts, Text(order.piped))
    return tuple(part for part in words if isinstance(part, Image) or part.text.strip())


def _brief(order: Order, teller: Teller) -> Brief:
    instructions = find_instructions(order.cwd, home=order.home)
    if instructions is not None and instructions.notice:
        teller.note("notice", text=instructions.notice)
    today = SystemClock().now().date()
    return Brief(
        caller=CALLER,
        system=session_prompt(instructions, own=order.own_prompt),
        context=session_context(cwd=order.cwd, today=today, platform=platform.system()),
        max_requests=order.max_turns,
    )


def _budget(order: Order, sitting: Sitting, teller: Teller) -> Budget:
    """Return what pays in this call; UsageProblem for a limit that nobody can hold."""
    limit_usd = order.budget_usd
    if notice := unheld(sitting.model, limit_usd):
        teller.note("notice", text=notice)
    if limit_usd is None:
        return NoLimit()
    account, me = f"{sitting.id}/{new_id()}", own_identity()
    return session_budget(sitting.store, account, limit_usd=limit_usd, clock=SystemClock(), owner=me)


class NoLimit:
    """A budget without an end: the conversation counts what is used."""

    async def reserve(self, estimate: Usage) -> ReservationId:  # noqa: ARG002 - whatever it is
        """Return at once."""
        return ReservationId("")

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book nothing."""
