"""One turn of a program: its process, the conversation with it, and the end of all that it started."""

import asyncio
from contextlib import suppress

from scaffold.executors.port import Noticed, ProgramEnd, ProgramProtocol, ProgramTurn, TurnListener
from scaffold.executors.program_lines import ProgramBroken, ProgramLines, StartHung
from scaffold.host.process.piped_process import PipedCommand

START_S = 90.0
"""How long a program may take to its first message: the slowest one measured needed 30 s on a busy machine."""
MAX_START_RETRIES = 2
INTERRUPT_GRACE_S = 2.0
"""How long a program that is interrupted has to save its conversation."""


async def take_program_turn(
    protocol: ProgramProtocol,
    command: PipedCommand,
    turn: ProgramTurn,
    listener: TurnListener,
    *,
    start_s: float = START_S,
) -> ProgramEnd:
    """Start the program, follow one turn, and return how it ended; no process of it is left, however this ends.

    `command` is complete but for the arguments of the protocol. Raises whatever the listener raises when it is asked
    for a permission.
    """
    argv = (*command.argv, *protocol.arguments(turn))
    started = PipedCommand(argv=argv, cwd=command.cwd, env=command.env, sandbox=command.sandbox)
    retries = 0
    while True:
        lines = ProgramLines(started, lambda text: listener.hear(Noticed(text)), start_s=start_s)
        try:
            return await _follow_program(protocol, lines, turn, listener)
        except ProgramBroken as broken:
            return ProgramEnd(failure="program", why=str(broken))
        except StartHung as hung:
            # Protocols send the prompt after the first answer: a silent program has made no request that is paid.
            if not lines.is_silent or retries == MAX_START_RETRIES:
                return ProgramEnd(failure="program", why=str(hung))
            retries += 1
            listener.hear(Noticed(f"started again: {hung}"))
        finally:
            await lines.close()


async def _follow_program(
    protocol: ProgramProtocol, lines: ProgramLines, turn: ProgramTurn, listener: TurnListener
) -> ProgramEnd:
    is_cut_short = True
    try:
        end = await protocol.converse(lines, turn, listener)
        is_cut_short = False
    except (ProgramBroken, StartHung):
        is_cut_short = False
        raise
    finally:
        if is_cut_short:
            with suppress(ProgramBroken, StartHung, TimeoutError):
                async with asyncio.timeout(INTERRUPT_GRACE_S):
                    await protocol.interrupt(lines)
    return end
