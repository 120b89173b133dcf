"""Slash commands: one dispatcher for the REPL and for one-shot calls. It returns text and prints nothing."""

import os
from collections.abc import Callable, Sequence
from typing import Literal, assert_never

from msgspec import Struct

from scaffold.agent.model_access import resolve_model
from scaffold.agent.modes import parse_mode
from scaffold.config.settings import resolve_model_name
from scaffold.core.errors import UsageError
from scaffold.core.ids import ConversationId
from scaffold.host.clock import SystemClock
from scaffold.host.startup import importing
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.current_conversation import MAX_LISTED, CurrentConversation
from scaffold.session.memory.embedding import EmbedderSource, MemoryAccess
from scaffold.session.model_catalog import ModelCatalog
from scaffold.session.open_conversation import change_stored, stored_effort
from scaffold.session.options import SessionOptions
from scaffold.session.slash.export import conversation_markdown, export_path, write_new_file
from scaffold.session.slash.extension_listing import (
    log_in,
    plugin_listing,
    servers_command,
    started_plugins,
    started_servers,
)
from scaffold.session.slash.queries import (
    ConversationInfo,
    SlashQuery,
    UsageSummary,
    answer_query,
    conversation_listing,
    model_listing,
    parse_effort,
    subagent_usage,
)
from scaffold.session.slash.syntax import (
    ASKS_FOR_HELP,
    COMMANDS,
    AgentCommand,
    Clear,
    Command,
    CommandSyntax,
    Compact,
    Export,
    Help,
    InvalidCommand,
    ManageMemory,
    ManageServers,
    QuitSession,
    ReloadPlugins,
    Resume,
    SendPrompt,
    ServersVerb,
    ShowAgents,
    ShowContext,
    ShowCost,
    ShowDiff,
    ShowEffort,
    ShowGoals,
    ShowMode,
    ShowModels,
    ShowPlugins,
    ShowText,
    ShowTools,
    StartReview,
    SwitchEffort,
    SwitchMode,
    SwitchModel,
    Undo,
    command_line,
)
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore


class OneshotTarget(Struct, frozen=True):
    """A one-shot call with a slash command; `stored` is None where no conversation is resumed."""

    options: SessionOptions
    store: UserStore
    stored: StoredConversation | None
    model: str
    tell: Callable[[str], object] = print
    """Takes a line for the user while a command waits for them."""


InteractiveCommand = ShowDiff | ReloadPlugins | Undo | Compact | Clear | Resume | QuitSession
SlashTarget = CurrentConversation | OneshotTarget  # what a command acts on: the conversation of a REPL, or a stored one


class SlashReply(Struct, frozen=True):
    """An `answer`, a `patch` to be shown, a `notice` about a change, or that another one is `resumed`, or `quit`."""

    text: str
    kind: Literal["answer", "patch", "notice", "resumed", "quit"] = "answer"


async def run_slash_command(  # noqa: PLR0911 - one for each
    command: Command, target: SlashTarget, *, width: int, commands: Sequence[CommandSyntax] = COMMANDS
) -> SlashReply:
    """Execute a command and return the reply, in lines of `width`; a ScaffoldError leaves everything as it was.

    `commands` are listed by `/help`. UsageError for an invalid command, and for one that a
    one-shot call does not have.
    """
    match command:
        case InvalidCommand(what=what, fix=fix):
            raise UsageError(what, fix)
        case SendPrompt() | StartReview():
            raise UsageError(f"{command_line(command)} is a message to the agent", "Send it where an agent answers.")
        case Help() | ShowMode() | ShowEffort() | ShowGoals() | ShowAgents() | ShowCost() | ShowTools() | ShowContext():
            return SlashReply(answer_query(command, _conversation_info(command, target, width, commands)))
        case ShowModels() | ManageMemory() | ShowPlugins() | ManageServers():
            return SlashReply(await _asked_text(command, target, width))
        case ShowText(text=text):
            said = text()
            return SlashReply(said if isinstance(said, str) else await said)
        case SwitchModel() | SwitchMode() | SwitchEffort():
            return SlashReply(await _switch_setting(command, target), "notice")
        case Resume(conversation=""):
            return SlashReply(_conversation_list(target, width))
        case Export(file=file):
            return _export_conversation(target, file)
        case ShowDiff() | ReloadPlugins() | Undo() | Compact() | Clear() | Resume() | QuitSession():
            return await _run_interactive(command, target, width)
        case _:
            assert_never(command)


async def _asked_text(
    command: ShowModels | ManageMemory | ShowPlugins | ManageServers, target: SlashTarget, width: int
) -> str:
    """Return the answer to a command about what is outside of the conversation."""
    match command:
        case ShowModels():
            return await _model_list(target, width)
        case ManageMemory(words=words):
            return await _memory_text(words, target, width)
        case ShowPlugins():
            # A one-shot has no session yet, so it starts the plugins to find out.
            session = target.session if isinstance(target, CurrentConversation) else None
            overview = session.extensions.overview() if session else await started_plugins(target.options)
            return plugin_listing(overview, width)
        case ManageServers(verb=verb, server=server):
            return await _servers_text(verb, server, target, width)
        case _:
            assert_never(command)


async def _memory_text(words: Sequence[str], target: SlashTarget, width: int) -> str:
    options = target.options
    redactor = redactor_for(os.environ, options.cwd)
    embedding = EmbedderSource(options.embedding, target.store, redactor)
    access = MemoryAccess(cwd=options.cwd, store=target.store, redactor=redactor, embedding=embedding)
    if list(words[1:]) in ASKS_FOR_HELP:
        words = ("help", words[0])
    with importing():
        from scaffold.session.memory.commands import run_memory_command
    return (await run_memory_command(words, access, width)).text


async def _servers_text(verb: ServersVerb, server: str, target: SlashTarget, width: int) -> str:
    # A one-shot has no session yet, so it starts the servers to find out.
    if isinstance(target, CurrentConversation):
        running = target.session.extensions.servers
        if verb == "login":
            return await log_in(running, server)
        return await servers_command(running, verb, server, width)
    only = (server,) if verb in {"login", "logout"} else None
    async with started_servers(target.options, only) as (servers, notices):
        if verb == "login":
            try:
                return await log_in(servers, server, target.tell)
            except UsageError:
                # Why a server is not there, e.g. because the folder is not trusted.
                for line in notices:
                    target.tell(line)
                raise
        return "\n".join([*notices, await servers_command(servers, verb, server, width)])


def needs_idle_agent(command: Command) -> bool:
    """Return whether a command has to wait until the agent is idle."""
    resumes = isinstance(command, Resume) and bool(command.conversation)
    return resumes or isinstance(command, (SwitchModel, ReloadPlugins, Undo, Compact, Clear, AgentCommand))


async def _run_interactive(  # noqa: PLR0911 - one for each
    command: InteractiveCommand, target: SlashTarget, width: int
) -> SlashReply:
    if isinstance(target, OneshotTarget):
        if isinstance(command, Resume):
            fix = f"Start a REPL: `ralph --resume {command.conversation}`."
            raise UsageError("a one-shot call cannot switch conversations", fix)
        raise _needs_repl()
    match command:
        case ShowDiff(view=view):
            return SlashReply(await target.changes(view), "patch")
        case ReloadPlugins():
            await target.session.reload_plugins()
            return SlashReply(plugin_listing(target.session.extensions.overview(), width))
        case Undo():
            return SlashReply(await target.undo(), "notice")
        case Compact(focus=focus):
            agent = target.session.agent
            before, shorter = agent.tokens, await agent.compact(focus)
            rest = f"about {before:,} tokens, most of them instructions and tools"
            text = (
                f"about {before:,} tokens before, {agent.tokens:,} now"
                if shorter
                else f"it cannot be shortened further: {rest}"
            )
            return SlashReply(text, "notice")
        case Clear():
            earlier, kept = target.session.open_conversation.id, target.has_messages
            await target.switch_to(None, target.session.model)
            way_back = f"; the previous one is kept: /resume {earlier}" if kept else ""
            return SlashReply(f"new conversation {target.session.open_conversation.id}{way_back}", "notice")
        case Resume(conversation=conversation):
            await _resume_conversation(target, conversation)
            return SlashReply("", "resumed")
        case QuitSession():
            return SlashReply("", "quit")
        case _:
            assert_never(command)


def _needs_repl() -> UsageError:
    return UsageError("this command works only in the REPL", "Start it: `ralph`, or `ralph -c`.")


def _conversation_info(
    query: SlashQuery, target: SlashTarget, width: int, commands: Sequence[CommandSyntax]
) -> ConversationInfo:
    if isinstance(target, CurrentConversation):
        return _session_info(target, width, commands)
    match query:
        case Help():
            return ConversationInfo(model=target.model, width=width, now=SystemClock().now(), commands=commands)
        case ShowMode() | ShowEffort() | ShowGoals() | ShowAgents() | ShowCost():
            return _stored_info(target, _require_conversation(target), width)
        case ShowTools() | ShowContext():
            raise _needs_repl()
        case _:
            assert_never(query)


def _session_info(target: CurrentConversation, width: int, commands: Sequence[CommandSyntax]) -> ConversationInfo:
    session = target.session
    subagents, usage = session.peers.subagents(), session.usage_counter.usage
    stored = target.store.conversations.get(session.open_conversation.id)
    return ConversationInfo(
        model=session.model,
        mode=session.modes.chosen,
        effort=session.agent.effort,
        request=stored.title if stored else "",
        todos=session.todos.entries,
        subagents=subagents,
        spending=UsageSummary(
            total=session.open_conversation.prior_usage + usage,
            now=usage,
            models=session.usage_counter.by_model,
            agents=subagent_usage(subagents),
            limit_usd=session.options.budget_usd,
            left_usd=session.remaining_usd,
        ),
        tools=session.tools,
        rules=session.gate.rules,
        decided=session.decisions.path,
        window=session.agent.window_use(),
        now=SystemClock().now(),
        width=width,
        interactive=True,
        commands=commands,
    )


def _stored_info(target: OneshotTarget, stored: StoredConversation, width: int) -> ConversationInfo:
    state = target.store.conversations.state(stored.id)
    subagents = target.store.subagents.for_parent(stored.id)
    return ConversationInfo(
        model=target.model,
        mode=state.mode,
        effort=stored_effort(target.store, stored.id) or target.options.effort,
        request=stored.title,
        todos=state.todos.entries,
        subagents=subagents,
        spending=UsageSummary(total=stored.usage, agents=subagent_usage(subagents)),
        rules=target.options.rules,
        now=SystemClock().now(),
        width=width,
    )


async def _switch_setting(command: SwitchModel | SwitchMode | SwitchEffort, target: SlashTarget) -> str:
    match command:
        case SwitchModel(model=model):
            return await _switch_model(target, _numbered_model(target, model))
        case SwitchMode(mode=word):
            if isinstance(target, CurrentConversation):
                target.session.modes.choose(word)
                return f"the agent now works in mode {target.session.modes.chosen}"
            mode = parse_mode(word)
            conversation = _require_conversation(target).id
            change_stored(target.store, conversation, mode=mode)
            return f"{conversation} continues in mode {mode}"
        case SwitchEffort(effort=word):
            effort = parse_effort(word)
            if isinstance(target, CurrentConversation):
                target.session.switch_effort(effort)
                return f"effort {effort} from the next request on"
            conversation = _require_conversation(target).id
            change_stored(target.store, conversation, effort=effort)
            return f"{conversation} continues with effort {effort}"
        case _:
            assert_never(command)


async def _model_list(target: SlashTarget, width: int) -> str:
    model, catalog = _model_and_catalog(target)
    await catalog.ask(model)
    offers = catalog.offers(model)
    catalog.numbered = tuple(offer.model for offer in offers if not offer.why_not)
    return model_listing(offers, model, width)


def _model_and_catalog(target: SlashTarget) -> tuple[str, ModelCatalog]:
    if isinstance(target, CurrentConversation):
        return target.session.model, target.models
    return target.model, ModelCatalog(target.options.cwd)


def _numbered_model(target: SlashTarget, word: str) -> str:
    """Return the model with a number of the list that the user has seen last; any other word unchanged."""
    if not word.isdecimal():
        return word
    _, catalog = _model_and_catalog(target)
    if not 0 < int(word[:9]) <= len(catalog.numbered):
        raise UsageError(
            f"there is no model {word} in a list", "`/model` lists them with their numbers; or give a name."
        )
    return catalog.numbered[int(word[:9]) - 1]


async def _switch_model(target: SlashTarget, name: str) -> str:
    model = resolve_model_name(name, os.environ, target.options.cwd)
    if isinstance(target, CurrentConversation):
        session = target.session
        switched = f"the model is now {await session.switch(model)}"
        effort = session.options.size_efforts.get(name, session.agent.effort)
        if effort == session.agent.effort:
            return switched
        session.switch_effort(effort)
        return f"{switched}, with effort {effort}"
    if target.stored is None:
        raise UsageError("there is no conversation to switch", "Add -c, or start one with `--model`.")
    full_name, _ = resolve_model(model)
    change_stored(target.store, target.stored.id, model=full_name)
    return f"{target.stored.id} continues with {full_name}"


def _require_conversation(target: OneshotTarget) -> StoredConversation:
    if target.stored is None:
        raise UsageError("no conversation is selected", "Add -c for this directory's latest, or `--resume ID`.")
    return target.stored


def _conversation_list(target: SlashTarget, width: int) -> str:
    if isinstance(target, CurrentConversation):
        current = target.session.open_conversation.id
    else:
        current = target.stored.id if target.stored else ConversationId("")
    found = target.store.conversations.listed(str(target.options.cwd), limit=MAX_LISTED)
    return conversation_listing(found, current, now=SystemClock().now(), width=width)


def _export_conversation(target: SlashTarget, file: str) -> SlashReply:
    if isinstance(target, CurrentConversation):
        conversation = target.session.open_conversation.id
        if not target.has_messages:
            raise UsageError("the conversation is empty", "Say something first.")
    else:
        conversation = _require_conversation(target).id
    stored, options = target.store.conversations.get(conversation), target.options
    if stored is None:
        raise UsageError(f"conversation {conversation} was deleted", "Begin another one with `/clear`.")
    text = conversation_markdown(stored, target.store.conversations.messages(conversation))
    text = redactor_for(os.environ, options.cwd).clean(text)
    if file == "-":
        return SlashReply(text)
    paths = export_path(options.cwd, options.home, file, conversation)
    return SlashReply(f"written to {write_new_file(paths, text)}", "notice")


async def _resume_conversation(target: CurrentConversation, conversation: str) -> None:
    found = target.store.conversations.get(conversation)
    if found is None:
        raise UsageError(f"there is no conversation `{conversation}`", "`/resume` lists this directory's.")
    if found.id == target.session.open_conversation.id:
        raise UsageError("this is the current conversation", "`/resume` lists the others.")
    await target.switch_to(found, found.model)
