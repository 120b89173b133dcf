"""A program as an agent that changes no files: it reads one folder, can write in none, and acts by our tools alone."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from msgspec import structs

from scaffold.agent.agent_spec import AgentRecords, AgentSpec
from scaffold.agent.io_port import AgentIO
from scaffold.agent.toolbox import Toolbox
from scaffold.core.errors import EnvironmentNotReady, ModelError
from scaffold.core.tool import Tool
from scaffold.executors.port import ProgramTurn
from scaffold.executors.program_zone import ProgramPlace, find_installed
from scaffold.host.child_environment import child_environment
from scaffold.host.random_ids import new_id
from scaffold.run.resources.sandbox import open_sandbox, remove_temporary_folder
from scaffold.worker.agent.agent_source import AgentProgram
from scaffold.worker.agent.program_agent import ProgramAgent
from scaffold.worker.agent.program_turns import ProgramPart, ProgramTurns


def reading_agent(
    program: AgentProgram, *, tools: Sequence[Tool], brief: AgentSpec, io: AgentIO, records: AgentRecords
) -> ProgramAgent:
    """Return the program as an agent with a new conversation; it has its own tools to read files."""
    context, run, folder = program.context, program.run, program.folder
    place = ProgramPlace(
        root=folder, environ=child_environment(context.environ, {}), user_environ=context.environ, sandbox=None
    )
    # A worktree has what agents wrote, and the user's checkout does not.
    trusted = run.settings.environment.trusted and folder == context.repository.root
    part = ProgramPart(
        turn=ProgramTurn(prompt="", folder=folder, mode="read", trusted=trusted, system=brief.system),
        place=place,
        gate=None,
        tools=Toolbox([each for each in tools if each.category != "file_read"], io.redactor, io.watch),
        opened=partial(_without_writing, program),
    )
    turns = ProgramTurns(program.spec, part, io, records, patience=program.patience, clock=context.clock)
    return ProgramAgent(turns, io, records)


@asynccontextmanager
async def _without_writing(program: AgentProgram, place: ProgramPlace) -> AsyncIterator[ProgramPlace]:
    try:
        find_installed(program.spec, place)
    except EnvironmentNotReady as missing:
        # As a model that cannot be used: what it is asked about is not lost.
        raise ModelError(missing.what, missing.fix) from missing
    # A folder for each turn: agents of several goals may work at the same time.
    context, run, name = program.context, program.run, f"program-{new_id(4)}"
    try:
        async with open_sandbox(context, run, place.root, name=name) as sandbox:
            if sandbox is None:
                yield place
                return
            zone = sandbox.confinement
            zone = structs.replace(zone, writable=(), readable=(*zone.readable, place.root))
            yield structs.replace(place, sandbox=structs.replace(sandbox, confinement=zone))
    finally:
        remove_temporary_folder(context, run, name=name)
