"""The tools of a worker's agent: files, commands, questions, requests, items and memories."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from scaffold.agent.journal import Journal, approval_logger
from scaffold.agent.skills import SkillPlace, kept_tools, skill_folders, skill_tools
from scaffold.agent.toolbox import repeated_on
from scaffold.core.errors import ScaffoldError
from scaffold.core.extension_set import Role
from scaffold.core.ids import AttemptId
from scaffold.core.knowledge import MEMORIES, ChunkFilter
from scaffold.core.printable_text import one_line, printable, utf8_safe
from scaffold.core.tool import Tool, ToolOutput
from scaffold.core.work_item import WorkItem
from scaffold.host.random_ids import new_id
from scaffold.memory.memories import Memories, MemoryDatabases
from scaffold.memory.notes import type_of
from scaffold.memory.recall import recalled_text, remembered_text
from scaffold.run.attempts.assignment import Assignment
from scaffold.run.item_changes import add_item
from scaffold.run.learning.landed_memories import source_of
from scaffold.run.resources.sandbox import folders_without_sandbox
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.command.background_commands import BackgroundCommands
from scaffold.tools.content.seen_files import SeenFiles
from scaffold.tools.human_question import ask_human, file_item, request_files
from scaffold.tools.memory_tools import recall_memories, remember
from scaffold.tools.read_cache import is_read_only, with_read_cache
from scaffold.tools.todos import Todos, todo_read, todo_write
from scaffold.tools.workspace import Workspace as ToolRoot
from scaffold.verify.contract.review_verdict import is_review
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.watchdog import worktree_fingerprint
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.file_requests import FileRequests
from scaffold.worker.human.inbox_approval import worker_gate
from scaffold.worker.human.questions import AgentQuestions
from scaffold.worker.story.edits import edit_workflow
from scaffold.worker.workspace.workplace import Workplace

MOST_ITEMS = 20
"""The most items of one attempt; an agent that files more does not work at its task."""


class FiledItems:
    """Files items for one attempt; people decide what becomes of them."""

    def __init__(self, records: AttemptRecords) -> None:
        self._records = records

    def file(self, title: str, description: str, labels: Sequence[str]) -> ToolOutput:
        """Store an item without its secrets, and return what became of it."""
        run_context, task = self._records.run_context, self._records.task
        if run_context.store.work_items.count_of_attempt(task.attempt.id) >= MOST_ITEMS:
            why = f"this attempt has filed {MOST_ITEMS} already. Name the rest in your final message"
            return ToolOutput(f"Not filed: {why}.", failed=True)
        clean, now = run_context.redactor.clean, run_context.clock.now()
        item = WorkItem(
            id=new_id(6),
            title=one_line(clean(utf8_safe(title))),
            description=printable(clean(utf8_safe(description))),
            labels=tuple(dict.fromkeys(one_line(clean(utf8_safe(each))).removeprefix("#") for each in labels)),
            run=task.run.id,
            action=task.action.key,
            by_agent=True,
            created_at=now,
            updated_at=now,
        )
        stored = add_item(run_context.store, item, attempt=task.attempt)
        if isinstance(stored, str):
            return ToolOutput(f"Not filed: {stored}.", failed=True)
        if stored.id != item.id:
            return ToolOutput(f"Item {stored.id} says that already. Go on with your task.")
        self._records.inform(f"{task.action.key} filed item {stored.id}: {stored.title}")
        return ToolOutput(f"Filed as item {stored.id}. Go on with your task, and leave this as it is.")


MOST_MEMORIES = 5
"""The most memories of one attempt, so that its agent chooses."""
CONFIRMED = ChunkFilter(states=("active",))


class AttemptMemories:
    """The memories of one attempt's agent. Implements `tools.memory.NotedMemories`."""

    def __init__(self, records: AttemptRecords) -> None:
        self._context = records.run_context
        self._attempt: AttemptId = records.task.attempt.id

    @property
    def _memories(self) -> Memories:
        run = self._context
        # By words alone: many workers may share this machine.
        databases = MemoryDatabases(run.store, None, run.cache, by_meaning=False)
        return Memories(databases, clock=run.clock, redactor=run.redactor)

    def remember(self, content: str, kind: str, scope: str, supersedes: str) -> ToolOutput:
        """Store a memory of this repository, which is unconfirmed until the attempt has landed."""
        source = source_of(self._attempt)
        own = self._context.store.knowledge.chunks.newest(MEMORIES, ChunkFilter(source=source), most=MOST_MEMORIES)
        if len(own) >= MOST_MEMORIES:
            return ToolOutput(f"Not remembered: this attempt has {MOST_MEMORIES} memories already.", failed=True)
        if scope == "user":
            return ToolOutput("Not remembered: an agent of a run can remember for its repository only.", failed=True)
        if supersedes:
            return ToolOutput("Not remembered: only a human can replace another memory.", failed=True)
        try:
            done = self._memories.remember(content, source=source, scope="project", kind=type_of(kind))
        except ScaffoldError as error:
            return ToolOutput(f"Not remembered: {error.in_full}", failed=True)
        return ToolOutput(self._context.clean(remembered_text(done)))

    async def recall(self, query: str, most: int) -> ToolOutput:
        """Return the confirmed memories that fit a query, as data."""
        try:
            found = [each.memory for each in await self._memories.find(query, most=most, wanted=CONFIRMED)]
        except ScaffoldError as error:
            return ToolOutput(f"Memories cannot be read: {error.in_full}", failed=True)
        return ToolOutput(self._context.clean(recalled_text(found)))


def reading_tools(place: Workplace, records: AttemptRecords, journal: Journal) -> Iterator[Tool]:
    """Yield the tools that only read files of the worktree, for an agent that judges; nothing is asked for it."""
    root, outputs = _tool_root(place, records, SeenFiles())
    tools = with_read_cache(builtin_tools(root, outputs=outputs), root.root)
    yield from _guard_tools(place, records, journal, None, (each for each in tools if each.category == "file_read"))


def worker_tools(
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
    reviews = is_review(records.task.action)
    root, outputs = _tool_root(place, records, seen)
    built_in = builtin_tools(root, outputs=outputs, commands=commands)
    tools = with_read_cache((*built_in, todo_write(todos), todo_read(todos)), root.root, seen)
    offered = (each for each in tools if not (reviews and each.category == "file_write"))
    kept = kept_tools(tuple(offered), custom_role(records.task))
    yield from _guard_tools(place, records, journal, capabilities, kept)
    yield from run_tools(place, capabilities, records, journal)


def run_tools(
    place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords, journal: Journal
) -> Iterator[Tool]:
    """Yield the tools of a worker that a program does not have itself: of its run, and of extensions.

    A reviewer gets none to ask for files.
    """
    human = capabilities.human
    kept = kept_tools(capabilities.extension_tools, custom_role(records.task))
    yield from _guard_tools(place, records, journal, capabilities, kept)
    # With `--yolo` no human is expected to answer, and a question would only block the action.
    if not records.task.run.settings.permissions.yolo:
        yield ask_human(AgentQuestions(place.workspace, human, records).answer)
    yield file_item(FiledItems(records).file)
    memories = AttemptMemories(records)
    yield from (remember(memories), recall_memories(memories))
    yield from skill_tools(_skill_place(place))
    if (edits := edit_workflow(place.shared, capabilities.asked_edits, records)) is not None:
        yield edits
    if not is_review(records.task.action):
        requests = FileRequests(place, human, capabilities.reviewer, records)
        yield request_files(requests.ask)


def _tool_root(place: Workplace, records: AttemptRecords, seen: SeenFiles) -> tuple[ToolRoot, Path]:
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


def _guard_tools(
    place: Workplace,
    records: AttemptRecords,
    journal: Journal,
    capabilities: AgentCapabilities | None,
    tools: Iterable[Tool],
) -> Iterator[Tool]:
    # Without `capabilities` no human is asked: an agent that only judges must not wait for one.
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
        gate.hooks, tools = capabilities.extensions.calls, (_repeated_if_safe(each, place) for each in tools)
    yield from map(gate.guard, tools)


def _repeated_if_safe(tool: Tool, place: Workplace) -> Tool:
    # A file tool sees by itself what it wrote before. What a command does outside of a sandbox nobody knows.
    if is_read_only(tool) or tool.category == "file_write":
        return tool
    inside = place.sandbox is not None and tool.category in {"shell", "python"}
    files = partial(worktree_fingerprint, place.workspace.git) if inside else None
    return repeated_on(tool, files)


def custom_role(task: Assignment) -> Role | None:
    """Return the user's role named like the action's; None if there is none."""
    return next((role for role in task.run.settings.extensions.roles if role.name == task.action.role), None)


def _skill_place(place: Workplace) -> SkillPlace:
    # Files beside the project's skills are read as the worktree has them.
    return SkillPlace(place.task.run.settings.extensions, place.workspace.path)
