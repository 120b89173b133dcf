"""A session of `ralph`: one agent with its model, tools, approval gate and budget, for one-shot calls and the REPL."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import msgspec

from scaffold.agent.agent_spec import AgentRecords, AgentSpec, TurnResult
from scaffold.agent.context.attachments import AttachmentPlaces, attach
from scaffold.agent.extensions.port import (
    AgentExtensions,
    Compacting,
    DroppedInput,
    Prompt,
    SessionEnded,
    SessionStarted,
)
from scaffold.agent.io_port import AgentIO, HeldIncoming, MergedIncoming
from scaffold.agent.journal import DecisionRecord, JournalFile
from scaffold.agent.messages.mailbox import ClaimedSession
from scaffold.agent.model_access import connect_model, resolve_model, unenforced_limit_notice
from scaffold.agent.repeated_calls import RepeatNotes
from scaffold.agent.session_context import SessionContext, SessionEnvironment, folder_note
from scaffold.agent.skills import skill_folders, skill_tools
from scaffold.agent.subagents.peers import Peers
from scaffold.agent.subagents.process_pool import SubagentSpec
from scaffold.agent.toolbox import shown_result
from scaffold.agent.turn_loop import Agent
from scaffold.core.conversation import Caller, Image, Text
from scaffold.core.extension_set import Role
from scaffold.core.model import Usage
from scaffold.core.ports import Budget, Model
from scaffold.core.run_settings import Effort
from scaffold.core.tool import Tool, ToolOutput
from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.host.clock import SystemClock
from scaffold.host.contained_path import ContainedPath
from scaffold.host.random_ids import new_id
from scaffold.host.sandbox.confinement import CommandSandbox
from scaffold.host.user_dirs import user_dirs
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.policy.permission.approval_gate import ApprovalGate, ApprovalPrompt, Delegation
from scaffold.policy.secret.sources import redactor_for
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.session.file_history import FILE_HISTORY_FOLDER, FileHistory
from scaffold.session.memory.embedding import memory_access
from scaffold.session.memory.lazy_memories import LazyMemories
from scaffold.session.open_conversation import (
    OpenConversation,
    first_effort,
    store_effort,
    stored_modes,
    stored_seen_files,
    stored_todos,
)
from scaffold.session.opened_extensions import (
    SessionExtensions,
    SessionToolbox,
    extension_setup,
    require_session_agreement,
)
from scaffold.session.options import SessionOptions, SubagentOptions
from scaffold.session.reporter import NO_OBSERVER, Reporter, SessionObserver
from scaffold.session.result import UsageCounter
from scaffold.session.shell_sandbox import (
    command_variables,
    missing_sandbox_notice,
    session_sandbox,
    tell_what_is_left_out,
    with_named_hosts,
)
from scaffold.session.subagent_launcher import ParentLink, SubagentLauncher, model_of_role, system_prompts
from scaffold.session.tool_setup import ToolSetup, load_session_tools, load_shell_policy
from scaffold.session.user_command import command_note, run_user_command, stopped_note
from scaffold.store.spending.session_budget import session_budget
from scaffold.store.user_store import ConversationHistory
from scaffold.tools.command.background_commands import BackgroundCommands

CALLER = Caller(role="agent")


class Session:
    """An open conversation with its agent; made by `open_session`."""

    agent: Agent
    _context: SessionContext
    _offered: SessionToolbox

    def __init__(
        self,
        options: SessionOptions,
        conversation: OpenConversation,
        reporter: Reporter,
        *,
        ask: ApprovalPrompt | None,
        observer: SessionObserver = NO_OBSERVER,
        parent: ParentLink | None = None,
    ) -> None:
        self.options = options
        self.open_conversation = conversation
        self._redactor = redactor_for(os.environ, options.cwd)
        record = ContainedPath(user_dirs().data, f"approvals/{conversation.id}.jsonl")
        self.decisions = DecisionRecord(reporter, JournalFile(record, clock=SystemClock(), redactor=self._redactor))
        """What the user and the rules decided about its calls, those of subagents included."""
        self._seen = seen = stored_seen_files(conversation)
        history = ConversationHistory(conversation.store, conversation.id, conversation.owner, seen=seen.take_changes)
        self.usage_counter = UsageCounter(history, conversation.model)
        self.modes = stored_modes(conversation, options.mode)
        self.gate = ApprovalGate(
            options.rules,
            workspace=WorkspacePaths.on_disk(options.cwd, options.home, options.hook_scripts),
            clock=SystemClock(),
            tell=self.decisions.add,
            shell=load_shell_policy,
            approver=Delegation(parent.ask_parent) if parent else ask,
            mode=lambda: self.modes.current,
        )
        self.modes.gate = self.gate
        self.todos = stored_todos(conversation)
        self.tools: tuple[Tool, ...] = ()
        """The tools the agent may call, gated; empty before the session is open."""
        self._opened = SessionExtensions(options)
        self.file_history = FileHistory(user_dirs().data / FILE_HISTORY_FOLDER / conversation.id)
        """What its tools changed."""
        self._memories = LazyMemories(memory_access(options, conversation, self._redactor))
        self._commands = BackgroundCommands(user_dirs().cache / "outputs" / conversation.id)
        self.peers = self._make_peers()
        """Its subagents and messages; not used in a subagent's session."""
        self._parent = parent
        self._account = parent.account if parent else f"{conversation.id}/{new_id()}"
        self._reporter = reporter
        self._observer = observer
        self._attended = ask is not None
        self._connection = AsyncExitStack()  # the connection to the model
        self._egress = AsyncExitStack()  # the proxy to named hosts

    @property
    def model(self) -> str:
        """The model string of the model that answers."""
        return self.usage_counter.model

    @property
    def extensions(self) -> AgentExtensions:
        """The hooks, plugins and MCP servers that take part."""
        return self._opened.now

    async def say(self, words: str, material: str = "", images: Sequence[Image] = ()) -> TurnResult:
        """Take one turn; `@path` in `words` attaches a file, `material` and `images` are passed on as they are.

        Raises what `Agent.turn` raises, and ScaffoldError if a plugin refuses the message.
        """
        given = await self.extensions.user_input(words, material)
        if isinstance(given, DroppedInput):
            self._tell_user(given.text)
            return TurnResult("", Usage(), 0)
        words, material = given
        self.file_history.begin_turn(words)
        await self.renew_tools()
        self._context.recalled = await self._memories.context_for(f"{words}\n{material}", self._tell_user)
        return await self.turn((*self.user_content(words, material), *images))

    async def turn(self, prompt: Prompt) -> TurnResult:
        """Let the agent take a turn; hooks may want it to go on. Raises what `Agent.turn` raises."""
        return await self.extensions.turn(self.agent, prompt)

    def switch_effort(self, effort: Effort) -> None:
        """Let the model think so much from the next request on, also after the conversation is resumed."""
        store_effort(self.open_conversation, effort)
        self.agent.effort = effort

    async def run_command(self, command: str) -> ToolOutput:
        """Run a command of the user's own, and let the agent know with the next request; secrets are removed."""
        try:
            ran = await run_user_command(command, self.options.cwd, os.environ)
        except asyncio.CancelledError:
            self.agent.add_note(stopped_note(command))
            raise
        answer = shown_result(ran.content, self._redactor)
        self.agent.add_note(*command_note(command, answer))
        return msgspec.structs.replace(ran, content=answer)

    async def switch(self, model: str) -> str:
        """Use another model from the next request on, and return its full name; an error changes nothing."""
        full_name = self._check_model(model)
        opened = self.open_conversation
        async with AsyncExitStack() as stack:
            connected = await stack.enter_async_context(self._connect_model(full_name))
            with opened.store.transaction():
                opened.store.conversations.switch_model(opened.id, full_name, me=opened.owner)
            # Only now is the new connection this session's; an error or a cancellation before it closes the new one
            # alone, and leaves a session that can answer.
            previous, self._connection = self._connection, stack.pop_all()
        self._model = connected
        self.agent.switch(self.extensions.hooked(connected))
        self.usage_counter.model = full_name
        await previous.aclose()
        return full_name

    @property
    def remaining_usd(self) -> float | None:
        """The remaining part of the limit in dollars; None without a limit."""
        limit_usd, accounts = self.options.budget_usd, self.open_conversation.store.accounts
        return None if limit_usd is None else limit_usd - accounts.totals(self._account).spent.usd

    async def open(self) -> None:
        """Connect everything; a missing key, or a missing price under a limit, is an error here, before any work."""
        model = await self._connection.enter_async_context(self._connect_model(self.model))
        if self._parent is None:
            # Subagents of a process that died are settled before the agent works, so that it gets their messages.
            await self.peers.open()
        self._model = model
        try:
            async with asyncio.TaskGroup() as group:
                note = group.create_task(folder_note(self.options.cwd, os.environ))
                loading = group.create_task(self._load_tools())
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the note raises nothing
        self._offered = SessionToolbox(loading.result(), self.gate, self._observer, self.options.role)
        self.tools = await self._offered.now(self.extensions)
        budget = self._open_budget()
        self._memories.pay_by(budget, self.usage_counter)
        # Looked up at each call: plugins may be others later.
        typed = HeldIncoming(self._observer.incoming, lambda: self.extensions.reads_input())  # noqa: PLW0108
        self.agent = Agent(
            model=self.extensions.hooked(model),
            tools=self.tools,
            brief=self._agent_spec(note.result()),
            records=AgentRecords(journal=self._reporter, budget=budget, history=self.peers.kept(self.usage_counter)),
            conversation=self.open_conversation.conversation,
            io=AgentIO(
                on_delta=self._reporter.on_delta,
                on_compaction=self._seen.forget_lines,
                incoming=MergedIncoming(self.peers.incoming, typed),
                watch=RepeatNotes().watch,
                may_compact=self._may_compact,
                redactor=self._redactor,
            ),
        )
        if self.options.accept_edits:
            self.gate.accept_edits(accepts=True)
        if self._parent is None:
            await self.extensions.announce(SessionStarted("resume" if self.open_conversation.stored else "startup"))

    async def _may_compact(self, trigger: str) -> bool:
        return not await self.extensions.announce(Compacting(trigger))

    async def renew_tools(self) -> None:
        """Offer the tools that MCP servers have now, from the next turn on."""
        if (tools := await self._offered.now(self.extensions)) is not self.tools:
            self.tools = tools
            self.agent.toolbox.replace(tools)

    async def reload_plugins(self) -> None:
        """End the plugins and start those that there are now; the agent has their tools from its next request on."""
        await self._opened.restart_plugins()
        await self.renew_tools()
        self.agent.switch(self.extensions.hooked(self._model))

    async def close(self) -> None:
        """End the subagents and background commands, and release the resources."""
        try:
            if self._parent is None:
                await self.extensions.announce(SessionEnded("other"))
            await self.peers.close()
        finally:
            # The peers go first: a subagent's end still needs the store and may report to this session's gate.
            await self._commands.end_all()
            await self._memories.close()
            await self.extensions.close()
            await self._egress.aclose()
            await self._connection.aclose()

    def _connect_model(self, model: str) -> AbstractAsyncContextManager[Model]:
        store, options = self.open_conversation.store, self.options
        patience, windows, profiles = self._observer.patience, options.windows, options.profiles
        return connect_model(model, store, stream=options.stream, patience=patience, windows=windows, profiles=profiles)

    async def _load_tools(self) -> tuple[Tool, ...]:
        sandbox = await self._open_sandbox()
        setup = ToolSetup(
            cwd=self.options.cwd,
            gate=self.gate,
            conversation=self.open_conversation.id,
            environ=command_variables(self.options, self.open_conversation.id if self._parent else ""),
            sandbox=sandbox,
            modes=self.modes,
            todos=self.todos,
            more=(
                *self._memories.tools(subagent=self._parent is not None),
                *skill_tools(self.options.skills),
                *(() if self._parent else self.peers.tools),
            ),
            documents=self._memories.documents,
            shown=skill_folders(self.options.skills),
            history=self.file_history,
            redactor=self._redactor,
            commands=self._commands,
            seen=self._seen,
        )
        loaded = await load_session_tools(setup)
        for notice in loaded.notices:
            self._tell_user(notice)
        if self._parent is None:
            tell_what_is_left_out(self.options, self._tell_user)
        extensions = extension_setup(
            self.options, sandbox, self._redactor, session=self.open_conversation.id, tell=self._tell_user
        )
        await self._opened.open(
            extensions, setup, lambda: self.agent.conversation, is_subagent=self._parent is not None
        )
        return loaded.tools

    async def _open_sandbox(self) -> CommandSandbox | None:
        options = self.options
        found = await session_sandbox(
            options.sandbox,
            options.cwd,
            options.home,
            conversation=self.open_conversation.id,
            scripts=options.hook_scripts,
            shown=skill_folders(options.skills),
        )
        await require_session_agreement(options, found)
        if found is None and (notice := await missing_sandbox_notice(options.sandbox, options.cwd)):
            self._tell_user(notice)
        return await with_named_hosts(found, self._egress)

    def user_content(self, words: str, material: str = "") -> tuple[Text | Image, ...]:
        """Return a user's message with its attachments; secrets are removed from these, not from the user's words."""
        options = self.options
        images = model_card(parse_model(self.model)).images
        top = find_checkout(options.cwd) or options.cwd
        places = AttachmentPlaces(cwd=options.cwd, home=options.home, top=top, outside=self._attended)
        attached = attach(words, places, images=images, clean=self._redactor.clean)
        for notice in attached.notices:
            self._tell_user(notice)
        # What hooks add, and what was piped in beside a message, is for the model.
        parts = (*attached.parts, Text(self._redactor.clean(material), "note" if words.strip() else ""))
        return tuple(part for part in parts if isinstance(part, Image) or part.text.strip())

    def _tell_user(self, text: str) -> None:
        self._reporter.note("notice", text=text)

    def _agent_spec(self, repository: str) -> AgentSpec:
        options = self.options
        environment = SessionEnvironment(
            cwd=options.cwd,
            platform=platform.system(),
            attended=self._attended,
            clock=SystemClock(),
            repository=self._redactor.clean(repository),
            elsewhere=self.open_conversation.elsewhere(options.cwd),
        )
        self._context = SessionContext(environment, self.modes, self.todos)
        system, short = map(self._redactor.clean, system_prompts(options, self._tell_user))
        return AgentSpec(
            caller=msgspec.structs.replace(CALLER, action=self._parent.name if self._parent else None),
            system=system,
            short_system=short,
            context=self._context,
            max_requests=options.max_turns,
            effort=first_effort(self.open_conversation, options.chosen_effort) or options.effort,
            compaction=options.compaction,
            must_answer=True,
            may_repeat=self._parent is None,
        )

    def _make_peers(self) -> Peers:
        options, conversation = self.options, self.open_conversation
        logs = user_dirs().data / "subagents"
        return Peers(
            ClaimedSession(conversation.store, conversation.id, str(options.cwd), SystemClock()),
            starter=SubagentLauncher(self._subagent_spec, logs=logs, environ=os.environ, names=options.environment),
            decider=self.gate.judge_for,
            about=lambda: {"model": self.model, "mode": self.modes.current},
            warn=self._tell_user,
            limits=msgspec.structs.replace(options.subagents, roles=options.extensions.roles),
            redactor=self._redactor,
        )

    def _subagent_spec(self, model: str | None, role: Role | None = None) -> SubagentSpec:
        model = model or model_of_role(role, self.options.cwd, self._tell_user)
        named = self.model if model is None else self._check_model(model)
        servers = self.extensions.servers
        # The rules of the moment: they include what the user has allowed "always" since the session began.
        options = msgspec.structs.replace(
            self.options,
            rules=self.gate.rules,
            mode=self.modes.current,
            accept_edits=False,
            effort=self.agent.effort,
            chosen_effort=None,
            mcp_socket=servers.socket if servers else None,
            role=role,
        )
        return SubagentSpec(named, SubagentOptions(session=options, account=self._account).to_json())

    def _check_model(self, model: str) -> str:
        full_name, _ = resolve_model(model)
        if notice := unenforced_limit_notice(full_name, self.options.budget_usd):
            self._tell_user(notice)
        return full_name

    def _open_budget(self) -> Budget:
        limit_usd, conversation = self.options.budget_usd, self.open_conversation
        if notice := unenforced_limit_notice(self.model, limit_usd):
            self._tell_user(notice)
        return session_budget(
            conversation.store,
            self._account,
            limit_usd=limit_usd,
            model=self.model,
            clock=SystemClock(),
            owner=conversation.owner,
        )


@asynccontextmanager
async def open_session(
    options: SessionOptions,
    conversation: OpenConversation,
    reporter: Reporter,
    *,
    ask: ApprovalPrompt | None = None,
    observer: SessionObserver = NO_OBSERVER,
    parent: ParentLink | None = None,
) -> AsyncIterator[Session]:
    """Open a session while the context lasts; `ask` asks the user for consent, None if no user is present.

    With a `parent` it is a subagent's.
    """
    session = Session(options, conversation, reporter, ask=ask, observer=observer, parent=parent)
    try:
        await session.open()
        yield session
    finally:
        await session.close()
