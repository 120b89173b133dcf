"""The native executor: ralph itself, in the attempt's worktree."""

import platform
from functools import partial

from msgspec import structs

from scaffold.agent.agent_spec import AgentRecords, AgentSpec, TurnResult
from scaffold.agent.extensions.port import NO_EXTENSIONS, AgentExtensions
from scaffold.agent.files_note import files_note
from scaffold.agent.io_port import AgentIO, MergedIncoming
from scaffold.agent.session_context import TodoContext
from scaffold.agent.turn_loop import Agent
from scaffold.core.conversation import Caller, KeptTurn
from scaffold.core.executor_settings import NATIVE
from scaffold.host.startup import importing
from scaffold.tools.command.background_commands import BackgroundCommands
from scaffold.tools.content.seen_files import SeenFiles
from scaffold.tools.todos import EMPTY_LIST, Todos
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.continued_turn import KeptWork
from scaffold.worker.agent.incoming_messages import IncomingMessages
from scaffold.worker.agent.system_prompts import system_prompts
from scaffold.worker.agent.watchdog import RepeatGuard, TurnTaker, WatchedAgent, worktree_fingerprint
from scaffold.worker.agent.worker_tools import worker_tools
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.workspace.workplace import Workplace


def watched_agent(
    place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords, kept: KeptWork
) -> WatchedAgent:
    """Return a watched agent that works in the attempt's workspace and is paid from the run's budget.

    Its turns are stored as `kept`, which also has the one that it continues, if any.
    """
    repeats = RepeatGuard(partial(worktree_fingerprint, place.workspace.git))
    task = records.task
    commands = BackgroundCommands(records.run_context.outputs(task.attempt.run_id, task.attempt.id))
    if task.attempt.executor == NATIVE:
        agent: TurnTaker = native_agent(place, capabilities, records, repeats, commands, kept)
    else:
        with importing():
            from scaffold.worker.agent.program_agent import program_agent
        agent = program_agent(place, capabilities, records, repeats, kept)
    without_leftovers = AgentWithoutLeftovers(agent, commands, capabilities.extensions)
    return WatchedAgent(without_leftovers, records.activity, repeats, idle_s=task.run.settings.limits.idle_s)


class AgentWithoutLeftovers:
    """An agent whose background commands end with each turn: nothing may change the worktree while it is checked."""

    def __init__(
        self, agent: TurnTaker, commands: BackgroundCommands, extensions: AgentExtensions = NO_EXTENSIONS
    ) -> None:
        """`extensions` may want it to go on."""
        self._agent = agent
        self._extensions = extensions
        self._commands = commands

    async def turn(self, prompt: str | KeptTurn, /) -> TurnResult:
        """Take one turn."""
        try:
            return await self._extensions.turn(self._agent, prompt)
        finally:
            await self._commands.end_all()


def native_agent(
    place: Workplace,
    capabilities: AgentCapabilities,
    records: AttemptRecords,
    repeats: RepeatGuard,
    commands: BackgroundCommands,
    kept: KeptWork,
) -> Agent:
    """Return the agent without its watchdog; `repeats` sees its failing tool calls and can send it a message."""
    run_context, task, attempt = records.run_context, records.task, records.task.attempt
    journal = records.open_journal()
    own = task.run.settings.worker_model(task.action.role, task.action.type)
    budget = records.open_budget(task.action.role, own.name)
    known = dict(kept.turn.seen) if kept.turn else {}
    todos, seen = Todos(kept.turn.todos if kept.turn else EMPTY_LIST), SeenFiles(known)

    def keep(turn: KeptTurn) -> None:
        for path, version in seen.take_changes().items():
            known.pop(path, None)
            known.update({path: version} if version else {})
        kept.keep(structs.replace(turn, todos=todos.saved, seen=known))

    tools = map(
        capabilities.extensions.watch, worker_tools(place, capabilities, records, journal, todos, commands, seen)
    )
    system, short = system_prompts(place, records, journal)
    return Agent(
        model=capabilities.extensions.hooked(capabilities.work_model),
        tools=tuple(map(records.activity.guard, tools)),
        brief=AgentSpec(
            caller=Caller(role=task.action.role, action=task.action.key, attempt=attempt.number),
            system=system,
            short_system=short,
            context=TodoContext(f"Platform: {platform.system()}\n{files_note(place.workspace.path)}", todos),
            effort=own.effort_of("worker"),
            compaction=own.compaction,
            whole_prompt=True,
        ),
        io=AgentIO(
            on_delta=records.activity.on_delta,
            on_compaction=seen.forget_lines,
            incoming=MergedIncoming(repeats, IncomingMessages(run_context, attempt)),
            watch=repeats.watch,
            redactor=journal.redactor,
        ),
        records=AgentRecords(journal=journal, budget=budget, keep=keep),
    )
