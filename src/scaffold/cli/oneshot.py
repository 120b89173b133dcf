"""One task, one answer: `ralph "TASK"`, and what is told of how it ended."""

import asyncio

from msgspec import Struct

from scaffold.cli.exits import FAILED, OK, exit_code
from scaffold.cli.order import Order
from scaffold.cli.outcome import shape, stop_reason
from scaffold.cli.session import Session, opened_session
from scaffold.cli.sitting import Sitting
from scaffold.cli.telling import Teller
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Usage


class Task(Struct, frozen=True):
    """What is to be done."""

    words: str
    """The user's own; `@path` in them attaches a file."""
    piped: str
    """What came on standard input: material, in which `@path` means nothing."""


class _Ending(Struct):
    stop: str = "end"
    error: str | None = None
    code: int = OK


async def carry_out(task: Task, order: Order, sitting: Sitting, teller: Teller) -> int:
    """Let the agent do `task`, and return the exit code.

    `teller` gets the end, whatever it is. Raises ScaffoldError after it where people are to be told in words.
    """
    ending, session = _Ending(), None
    try:
        async with opened_session(order, sitting, teller) as session:
            ending = await _worked(task, session)
    except ScaffoldError as trouble:
        ending = _Ending(stop_reason(trouble), trouble.in_full, exit_code(trouble))
        if teller.for_people:
            raise
    except asyncio.CancelledError:
        ending = _Ending("interrupted", f"interrupted: go on with `ralph --resume {sitting.id}`")
        raise
    finally:
        teller.result(
            shape(
                session=sitting.id,
                model=sitting.model,
                result=session.tally.text if session else "",
                usage=session.tally.usage if session else Usage(),
                others=session.company.used if session else Usage(),
                stop=ending.stop,
                error=ending.error,
            )
        )
    return ending.code


async def _worked(task: Task, session: Session) -> _Ending:
    """Take the turn that was asked for, then one about each word of subagents, until none is to come."""
    finish = await session.say(task.words, task.piped)
    while session.company.running or session.company.waiting:
        await session.company.arrival()
        finish = await session.agent.turn(())
    if finish.stop == "refused":
        return _Ending("refused", "the model declined to answer", FAILED)
    return _Ending()
