"""Agents by their role: the one place that decides who takes the turns of one that changes no files."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from scaffold.agent.agent_spec import AgentRecords, AgentSpec
from scaffold.agent.io_port import AgentIO
from scaffold.agent.model_access import connect_run_model
from scaffold.agent.turn_loop import Agent
from scaffold.core.errors import UsageError
from scaffold.core.executor_settings import NATIVE
from scaffold.core.model import Run
from scaffold.core.tool import Tool
from scaffold.host.startup import importing
from scaffold.llm.transport.live_context import Patience
from scaffold.run.context import RunContext
from scaffold.worker.agent.agent_source import AgentProgram, AgentSource
from scaffold.worker.agent.watchdog import TurnTaker

ACTING_ROLES = frozenset({"planner", "supervisor"})
"""Those that answer by tools alone."""


@asynccontextmanager
async def open_source(context: RunContext, run: Run, role: str, *, patience: Patience) -> AsyncIterator[AgentSource]:
    """Yield who takes the turns of the run's agent with this role; a program reads the user's checkout.

    Raises UsageError if a model cannot be opened, or a program that acts by tools cannot be given ours.
    """
    if (program := program_of(context, run, role, context.repository.root, patience)) is not None:
        with importing():
            from scaffold.executors.catalog import takes_tools
        if role in ACTING_ROLES and not takes_tools(program.spec):
            what = f"{program.spec.name} cannot be given tools, so it cannot be the {role}"
            raise UsageError(what, f"Choose another with `scaffold config executors.roles.{role} NAME`.")
        yield program
        return
    async with connect_run_model(run.settings.agent_model(role), patience=patience) as model:
        yield model


def program_of(context: RunContext, run: Run, role: str, folder: Path, patience: Patience) -> AgentProgram | None:
    """Return the program that takes the turns of the run's agent with this role; None if a model does."""
    executor = run.settings.agent_executor(role)
    if executor == NATIVE:
        return None
    with importing():
        from scaffold.executors.catalog import find_program
        from scaffold.worker.agent.program_turns import spender_name
    spec = find_program(executor, run.settings.executors.programs)
    spender = spender_name(spec, context.environ)
    return AgentProgram(context=context, run=run, spec=spec, spender=spender, folder=folder, patience=patience)


def new_agent(
    source: AgentSource, *, tools: Sequence[Tool], brief: AgentSpec, io: AgentIO, records: AgentRecords
) -> TurnTaker:
    """Return an agent with a new conversation."""
    if not isinstance(source, AgentProgram):
        return Agent(model=source, tools=tools, brief=brief, io=io, records=records)
    with importing():
        from scaffold.worker.agent.program_reading import reading_agent
    return reading_agent(source, tools=tools, brief=brief, io=io, records=records)
