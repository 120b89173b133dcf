"""The native executor: ralph itself, in the attempt's worktree."""

import platform
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from msgspec import structs

from scaffold.agent.extensions.hook_access import NO_HOOKS, AgentHooks
from scaffold.agent.files_note import files_note
from scaffold.agent.instruction_files import find_instructions
from scaffold.agent.io_port import AgentIO, MergedIncoming
from scaffold.agent.journal import Journal, approval_logger
from scaffold.agent.prompts import auditor_prompt, step_prompt_rules, with_instructions, worker_prompt
from scaffold.agent.role_tools import kept_tools
from scaffold.agent.skills import SkillPlace, skill_folders, skill_tools, skills_section
from scaffold.agent.todo_reminder import TodoContext
from scaffold.agent.turn_loop import Agent, AgentRecords, AgentSpec, TurnResult
from scaffold.core.conversation import Caller, WaitingTurn
from scaffold.core.extension_set import Role
from scaffold.core.spending import Spender
from scaffold.core.tool import Tool
from scaffold.host.process_identity import own_identity
from scaffold.run.attempts.assignment import Assignment
from scaffold.run.resources.sandbox import folders_without_sandbox
from scaffold.store.spending.run_budget import RunBudget
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.command.background_commands import BackgroundCommands
from scaffold.tools.content.seen_files import SeenFiles
from scaffold.tools.file_item import file_item
from scaffold.tools.human_question import ask_human
from scaffold.tools.memory_tools import recall_memories, remember
from scaffold.tools.read_cache import with_read_cache
from scaffold.tools.request_files import request_files
from scaffold.tools.todos import EMPTY_LIST, Todos, todo_read, todo_write
from scaffold.tools.workspace import Workspace as ToolRoot
from scaffold.verify.contract.review_verdict import is_audit, is_review
from scaffold.worker.activity_clock import WaitAwareBudget
from scaffold.worker.agent.attempt_memories import AttemptMemories
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.filed_items import FiledItems
from scaffold.worker.agent.incoming_messages import IncomingMessages
from scaffold.worker.agent.watchdog import RepeatGuard, TurnTaker, WatchedAgent, worktree_fingerprint
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.file_requests import FileRequests
from scaffold.worker.human.inbox_approval import worker_gate
from scaffold.worker.human.questions import AgentQuestions
from scaffold.worker.story.edit_tool import edit_workflow
from scaffold.worker.workspace.workplace import Workplace


def watched_agent(
    place: Workplace,
    capabilities: AgentCapabilities,
    records: AttemptRecords,
    continued: WaitingTurn | None = None,
) -> WatchedAgent:
    """Return a watched agent that works in the attempt's workspace and is paid from the run's budget.

    `continued` is the turn that it continues, if any.
    """
    repeats = RepeatGuard(partial(worktree_fingerprint, place.workspace.git, place.workspace.base))
    task = records.task
    commands = BackgroundCommands(records.run_context.outputs(task.attempt.run_id, task.attempt.id))
    agent = native_agent(place, capabilities, records, repeats, commands, continued)
    without_leftovers = AgentWithoutLeftovers(agent, commands, capabilities.hooks)
    return WatchedAgent(without_leftovers, records.activity, repeats, idle_s=task.run.settings.limits.idle_s)


class AgentWithoutLeftovers:
    """An agent whose background commands end with each turn: nothing may change the worktree while it is checked."""

    def __init__(self, agent: TurnTaker, commands: BackgroundCommands, hooks: AgentHooks = NO_HOOKS) -> None:
        """`hooks` may want it to go on."""
        self._agent = agent
        self._hooks = hooks
        self._commands = commands

    async def turn(self, prompt: str | WaitingTurn, /) -> TurnResult:
        """Take one turn."""
        try:
            return await self._hooks.turn(self._agent, prompt)
        finally:
            await self._commands.end_all()


def native_agent(
    place: Workplace,
    capabilities: AgentCapabilities,
    records: AttemptRecords,
    repeats: RepeatGuard,
    commands: BackgroundCommands,
    continued: WaitingTurn | None = None,
) -> Agent:
    """Return the agent without its watchdog; `repeats` sees its failing tool calls and can send it a message."""
    run_context, task, attempt = records.run_context, records.task, records.task.attempt
    journal = records.open_journal()
    own = task.run.settings.worker_model(task.action.role, task.action.type)
    budget = RunBudget(
        run_context.store,
        attempt,
        Spender(task.action.role, own.name),
        limits=task.run.settings.limits,
        clock=run_context.clock,
        owner=own_identity(),
    )
    todos, seen = Todos(continued.todos if continued else EMPTY_LIST), SeenFiles()
    tools = map(capabilities.plugins.watch, _tools(place, capabilities, records, journal, todos, commands, seen))
    agent = Agent(
        model=capabilities.plugins.hooked(capabilities.model),
        tools=tuple(map(records.activity.guard, tools)),
        brief=AgentSpec(
            caller=Caller(role=task.action.role, action=task.action.key, attempt=attempt.number),
            system=_system_prompt(place, records, journal),
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
            redactor=run_context.redactor,
        ),
        records=AgentRecords(
            journal=journal, budget=WaitAwareBudget(budget, records.activity, capabilities.human.goes_on)
        ),
    )
    capabilities.human.keeps(partial(_waiting_turn, agent, todos))
    return agent


def _waiting_turn(agent: Agent, todos: Todos) -> WaitingTurn | None:
    turn = agent.waiting_turn
    return None if turn is None else structs.replace(turn, todos=todos.saved)


def _system_prompt(place: Workplace, records: AttemptRecords, journal: Journal) -> str:
    """Return the system prompt of the action's role; warn once in a run about an unusable custom prompt."""

    def notice(text: str) -> None:
        journal.note("notice", text=text)
        records.warn(text)

    task, root = records.task, place.workspace.path
    action, folders = task.action, task.run.settings.planning.prompts
    if action.method == "story":
        prompt = step_prompt_rules()
    elif is_audit(action):
        prompt = auditor_prompt(folders, notice)
    else:
        role = _custom_role(task)
        given = role.prompt if role else ""
        prompt = worker_prompt(action.role, reviews=is_review(action), folders=folders, notice=notice, given=given)
    prompt = "\n\n".join(filter(None, (prompt, skills_section(task.run.settings.extensions.skills))))
    instructions = find_instructions(root, home=root)
    for each in instructions:
        if each.notice:
            notice(each.notice)
    return records.redactor.clean(with_instructions(prompt, instructions))


def reading_tools(place: Workplace, records: AttemptRecords, journal: Journal) -> Iterator[Tool]:
    """Yield the tools that only read files of the worktree, for an agent that judges; nothing is asked for it."""
    root, outputs = _tool_root(place, records, SeenFiles())
    tools = with_read_cache(builtin_tools(root, outputs=outputs), root.root)
    yield from _guarded(place, records, journal, None, (each for each in tools if each.category == "file_read"))


def _tools(
    place: Workplace,
    capabilities: AgentCapabilities,
    records: AttemptRecords,
    journal: Journal,
    todos: Todos,
    commands: BackgroundCommands,
    seen: SeenFiles,
) -> Iterator[Tool]:
    """Yield a worker's tools: files, commands and Python in its worktree, a todo list, and questions to the human.

    A reviewer gets no tools to write files, nor to ask for some.
    """
    reviews, human = is_review(records.task.action), capabilities.human
    root, outputs = _tool_root(place, records, seen)
    built_in = builtin_tools(root, outputs=outputs, commands=commands)
    tools = with_read_cache((*built_in, todo_write(todos), todo_read(todos)), root.root, seen)
    offered = (each for each in tools if not (reviews and each.category == "file_write"))
    role = _custom_role(records.task)
    all_tools = (*offered, *capabilities.plugins.tools, *capabilities.server_tools)
    kept = all_tools if role is None else kept_tools(all_tools, role)
    yield from _guarded(place, records, journal, capabilities, kept)
    # With `--yolo` no human is expected to answer, and a question would only block the action.
    if not records.task.run.settings.permissions.yolo:
        yield ask_human(AgentQuestions(place.workspace, human, records).answer)
    yield file_item(FiledItems(records).file)
    memories = AttemptMemories(records)
    yield from (remember(memories), recall_memories(memories))
    yield from skill_tools(_skill_place(place))
    if (edits := edit_workflow(place.shared, capabilities.asked_edits, records)) is not None:
        yield edits
    if not reviews:
        requests = FileRequests(place, human, capabilities.reviewer, records)
        yield human.guard(request_files(requests.ask))


def _tool_root(place: Workplace, records: AttemptRecords, seen: SeenFiles) -> tuple[ToolRoot, Path]:
    """Return the workspace of the attempt's tools, and the folder of their long outputs."""
    run, attempt = records.task.run, records.task.attempt
    outputs = records.run_context.outputs(attempt.run_id, attempt.id)
    folders = folders_without_sandbox(records.run_context, run, place.sandbox, name=attempt.id)
    root = ToolRoot(
        place.workspace.path,
        place.environ | folders,
        readable=(outputs, *skill_folders(_skill_place(place))),
        sandbox=place.sandbox,
        redactor=records.redactor,
        on_output=records.activity.beat,
        seen=seen,
        replaces_unread=True,
    )
    return root, outputs


def _guarded(
    place: Workplace,
    records: AttemptRecords,
    journal: Journal,
    capabilities: AgentCapabilities | None,
    tools: Iterable[Tool],
) -> Iterator[Tool]:
    """Yield the tools, each guarded; a human decides what the rules leave open, unless there are no `capabilities`."""
    human = capabilities.human if capabilities is not None else None
    gate = worker_gate(
        records.run_context,
        records.task.run.settings.permissions,
        place.workspace.path,
        human,
        confined=place.sandbox is not None,
        tell=approval_logger(journal),
    )
    if capabilities is not None:
        gate.hooks, tools = capabilities.hooks, map(capabilities.human.guard, tools)
    yield from map(gate.guard, tools)


def _custom_role(task: Assignment) -> Role | None:
    """Return the user's role of the name that the action's has; None if there is none."""
    return next((role for role in task.run.settings.extensions.roles if role.name == task.action.role), None)


def _skill_place(place: Workplace) -> SkillPlace:
    # Files beside the project's skills are read as the worktree has them.
    return SkillPlace(place.task.run.settings.extensions, place.workspace.path)
