"""One task, one answer: `ralph "TASK"`, and what is told of how it ended."""

import asyncio

from msgspec import Struct

from scaffold.cli.exit_codes import FAILED, OK, exit_code
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Usage
from scaffold.session.agent_session import Session, open_session
from scaffold.session.conversation import OpenConversation
from scaffold.session.options import SessionOptions
from scaffold.session.reporter import Reporter
from scaffold.session.result import result_json, stop_reason


class OneshotTask(Struct, frozen=True):
    """What is to be done."""

    words: str
    """The user's own; `@path` in them attaches a file."""
    piped: str
    """What came on standard input: material, in which `@path` means nothing."""


class _OneshotOutcome(Struct):
    stop: str = "end"
    error: str | None = None
    code: int = OK


async def run_oneshot(task: OneshotTask, order: SessionOptions, sitting: OpenConversation, teller: Reporter) -> int:
    """Let the agent do `task`, and return the exit code.

    `teller` gets the end, whatever it is. Raises ScaffoldError after it where people are to be told in words.
    """
    ending, session = _OneshotOutcome(), None
    try:
        async with open_session(order, sitting, teller) as session:
            ending = await _run_turns(task, session)
    except ScaffoldError as trouble:
        ending = _OneshotOutcome(stop_reason(trouble), trouble.in_full, exit_code(trouble))
        if teller.for_people:
            raise
    except asyncio.CancelledError:
        ending = _OneshotOutcome("interrupted", f"interrupted: go on with `ralph --resume {sitting.id}`")
        raise
    finally:
        teller.result(
            result_json(
                session=sitting.id,
                model=sitting.model,
                result=session.usage_counter.text if session else "",
                usage=session.usage_counter.usage if session else Usage(),
                others=session.peers.used if session else Usage(),
                stop=ending.stop,
                error=ending.error,
            )
        )
    return ending.code


async def _run_turns(task: OneshotTask, session: Session) -> _OneshotOutcome:
    """Take the turn that was asked for, then one about each word of subagents, until none is to come."""
    finish = await session.say(task.words, task.piped)
    while session.peers.running or session.peers.waiting:
        await session.peers.arrival()
        finish = await session.agent.turn(())
    if finish.stop == "refused":
        return _OneshotOutcome("refused", "the model declined to answer", FAILED)
    return _OneshotOutcome()
