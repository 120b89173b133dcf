"""One session of an editor: a conversation, its turns, and the questions they ask the editor's user."""

import asyncio
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from acp import schema
from acp.exceptions import RequestError
from acp.helpers import (
    text_block,
    tool_content,
    update_agent_message_text,
    update_available_commands,
    update_current_mode,
)
from msgspec import Struct
from pydantic import BaseModel

from scaffold.acp.config_options import config_options
from scaffold.acp.prompt_content import PromptContent, read_prompt
from scaffold.acp.session_updates import SessionUpdates, replayed
from scaffold.acp.tool_calls import Content, ToolCalls, call_kind, call_title
from scaffold.agent.agent_spec import TurnResult
from scaffold.core.errors import NotInRepository, ScaffoldError, TurnLimitExceeded, UsageError
from scaffold.host.clock import SystemClock
from scaffold.host.wall_clock import WallClock
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.policy.permission.approval_gate import ApprovalAnswer, ApprovalQuestion, DenyBecause
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.agent_session import Session
from scaffold.session.current_conversation import CurrentConversation
from scaffold.session.options import SessionOptions
from scaffold.session.redacted_output import RedactingReporter
from scaffold.session.reporter import SessionObserver
from scaffold.session.slash.prompt_commands import all_commands
from scaffold.session.slash.queries import parse_effort
from scaffold.session.slash.syntax import COMMANDS, AgentCommand, CommandSyntax, ShowText, parse_slash
from scaffold.session.slash_commands import run_slash_command
from scaffold.session.working_tree import bound_lines
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore
from scaffold.views.changes.taken_work import without_taken
from scaffold.views.store_reader import store_reader_if_any
from scaffold.views.waiting import waiting_lines
from scaffold.views.waiting_of_user import read_waiting_here

ALLOW, ALWAYS, EDITS, DENY = "allow", "always", "edits", "deny"
INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR = -32600, -32602, -32603
WIDTH = 100  # columns of the answers to commands: the protocol tells no width
OTHER_SESSIONS = frozenset({"clear", "resume", "quit"})
"""Commands that leave the conversation: an editor opens and closes sessions itself."""
OFFERED_COMMANDS = tuple(each for each in COMMANDS if each.name not in OTHER_SESSIONS)


class SessionSetup(Struct, frozen=True, kw_only=True):
    """How a session works in a folder."""

    options: SessionOptions
    model: str
    models: Sequence[str]
    """Model strings that the user can choose."""
    notes: Sequence[str]
    """Notes about the configuration."""


class Editor(Protocol):
    """The editor, as a session uses it."""

    def post(self, session_id: str, update: BaseModel) -> None:
        """Send an update, without waiting."""
        ...

    async def ask(
        self, session_id: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> schema.RequestPermissionResponse:
        """Ask the user whether a call may run; raises RequestError or ConnectionError."""
        ...


class EditorSession:
    """A session that the editor has open."""

    def __init__(self, setup: SessionSetup, store: UserStore, editor: Editor) -> None:
        self.setup = setup
        self.id = ""
        self._editor = editor
        self._held: list[BaseModel] | None = []
        """Updates from before the editor knows the session; None once it does."""
        root = setup.options.cwd
        self._redactor = redactor_for(os.environ, root)
        self._calls = ToolCalls(self._post_update, root, SystemClock(), self._redactor, self._post_mode)
        self._updates = SessionUpdates(self._post_update, self._calls)
        self.current = CurrentConversation(
            setup.options,
            store,
            RedactingReporter(self._updates, self._redactor),
            ask=self._ask_user,
            observer=SessionObserver(wrap_tool=self._calls.watch),
            opened=self._on_opened,
        )
        self._turn: asyncio.Task[schema.StopReason] | None = None
        self._cancelled = False
        self._told_mode = ""

    @property
    def session(self) -> Session:
        """The session of the agent."""
        return self.current.session

    async def open(self, stored: StoredConversation | None) -> None:
        """Open the conversation, a new one if `stored` is None."""
        await self.current.switch_to(stored, self.setup.model)

    def replay(self) -> None:
        """Show the stored conversation again."""
        conversation = self.session.open_conversation.conversation
        for update in replayed(conversation, self.setup.options.cwd, self._redactor):
            self._editor.post(self.id, update)

    async def announce(self) -> None:
        """Send what was held back until the editor knew the session, and the available commands."""
        held, self._held = self._held or [], None
        for update in held:
            self._post_update(update)
        for note in self.setup.notes:
            self._updates.notice(note)
        self._post_update(update_available_commands(map(available_command, self._available_commands)))
        if todos := self.session.todos.entries:
            self._updates.plan(todos)

    async def prompt(self, blocks: Sequence[Any]) -> schema.StopReason:
        """Take one turn and return why it ended; raises RequestError."""
        if self._turn is not None:
            raise RequestError(INVALID_REQUEST, "this session is already working on a prompt; cancel it first")
        given = read_prompt(blocks, images=model_card(parse_model(self.session.model)).images)
        self._cancelled = False
        self._updates.begin_turn()
        try:
            async with asyncio.TaskGroup() as group:
                self._turn = turn = group.create_task(self._take_turn(given))
            if self._cancelled:
                # The user no longer sees them, and their questions must not stay open.
                await self.session.peers.cancel()
        except ScaffoldError as error:
            raise self._request_error(error) from error
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the group has one task
        finally:
            self._turn = None
            self._calls.end_turn()
        return "cancelled" if self._cancelled else turn.result()

    def cancel(self) -> None:
        """Cancel the running turn, if any; its open questions end with it."""
        if self._turn is not None:
            self._cancelled = True
            self._turn.cancel()

    async def choose(self, name: str, value: str) -> None:
        """Change the mode, the model or the effort; raises RequestError."""
        try:
            match name:
                case "mode":
                    self.session.modes.choose(value)
                    self._post_mode()
                case "effort":
                    self.session.switch_effort(parse_effort(value))
                case "model" if self._turn is None:
                    await self.session.switch(value)
                case "model":
                    raise RequestError(INVALID_REQUEST, "the model cannot change during a turn; cancel the turn first")
                case _:
                    raise RequestError(INVALID_PARAMS, f"there is no option `{name}`")
        except ScaffoldError as error:
            raise self._request_error(error) from error

    async def close(self) -> None:
        """Cancel the running turn, and release the conversation."""
        if (turn := self._turn) is not None:
            self.cancel()
            await asyncio.wait([turn])  # not its result: that answers the prompt
        await self.current.close()

    def _on_opened(self, session: Session) -> None:
        self.id = session.open_conversation.id
        self._told_mode = session.modes.chosen
        session.todos.watch(self._updates.plan)

    def _post_update(self, update: BaseModel) -> None:
        if self._held is not None:
            self._held.append(update)
        else:
            self._editor.post(self.id, update)

    @property
    def _available_commands(self) -> tuple[CommandSyntax, ...]:
        inbox = CommandSyntax(
            name="inbox",
            words="",
            summary="what waits for you in this repository, and the commands that decide it",
            read=lambda words: None if words else ShowText(partial(inbox_answer, self.setup.options.cwd)),
        )
        return all_commands(self.setup.options.extensions.commands, (*OFFERED_COMMANDS, inbox))

    def _post_mode(self) -> None:
        # The agent changes its mode with a tool, the user with a command.
        if (now := self.session.modes.chosen) != self._told_mode:
            self._told_mode = now
            self._post_update(update_current_mode(now))
            self._post_options()

    def _post_options(self) -> None:
        options = config_options(self.session, self.setup.models)
        self._post_update(schema.ConfigOptionUpdate(session_update="config_option_update", config_options=options))

    async def _take_turn(self, given: PromptContent) -> schema.StopReason:
        try:
            command = parse_slash(given.words, self._available_commands)
            if command is not None and not isinstance(command, AgentCommand):
                reply = await run_slash_command(command, self.current, width=WIDTH, commands=self._available_commands)
                self._post_update(
                    update_agent_message_text(f"```\n{self._redactor.clean(bound_lines(reply.text))}\n```")
                )
                self._post_mode()
                self._post_options()
                return "end_turn"
            result = await self._run_turns(given, command)
        except TurnLimitExceeded:
            return "max_turn_requests"
        except ScaffoldError as error:
            raise self._request_error(error) from error
        agent = self.session.agent
        if (window := agent.window_tokens) is not None:
            spent = self.session.open_conversation.prior_usage + self.session.usage_counter.usage
            cost = None if spent.cost_usd is None else schema.Cost(amount=spent.cost_usd, currency="USD")
            usage = schema.UsageUpdate(session_update="usage_update", used=agent.tokens, size=window, cost=cost)
            self._post_update(usage)
        return "refusal" if result.stop == "refused" else "end_turn"

    async def _run_turns(self, given: PromptContent, command: AgentCommand | None) -> TurnResult:
        is_first = not self.current.has_messages
        more = (given.material, given.images)
        result = await (self.current.send(command, *more) if command else self.current.say(given.words, *more))
        if is_first and (title := " ".join(given.words.split())):
            self._post_update(schema.SessionInfoUpdate(session_update="session_info_update", title=title[:200]))
        peers = self.session.peers
        # An editor sends no prompt for a subagent's message, so this one waits for all of them.
        while peers.running or peers.waiting:
            await peers.arrival()
            result = await self.session.turn(())
        return result

    async def _ask_user(self, question: ApprovalQuestion) -> ApprovalAnswer:
        if question.together:
            return "singly"  # the protocol asks about one call at a time
        call_id = self._calls.question_call(question)
        answer: ApprovalAnswer = "deny"  # also if the turn is cancelled while the user decides
        try:
            change = await asyncio.to_thread(self._calls.proposed, question)
            call = asked_call(call_id, question, change, self._redactor)
            answer = answer_of(await self._editor.ask(self.id, call, permission_options(question)), question)
        except (RequestError, ConnectionError) as error:
            answer = DenyBecause(f"the editor could not ask the user: {error}")
        finally:
            self._calls.answered(call_id, allowed=answer in {"allow", "always", "edits"})
        return answer

    def _request_error(self, error: ScaffoldError) -> RequestError:
        code = INVALID_PARAMS if isinstance(error, UsageError) else INTERNAL_ERROR
        return RequestError(code, self._redactor.clean(error.in_full))


async def inbox_answer(cwd: Path) -> str:
    """Return what waits for the user in the repository around `cwd`, two lines for each entry."""
    clock = WallClock()
    try:
        with store_reader_if_any(cwd, os.environ) as reader:
            entries = read_waiting_here(reader, clock)
    except NotInRepository:
        entries = read_waiting_here(None, clock)
    lines = waiting_lines(await without_taken(entries), clock.now())
    return "\n".join(lines) or "Nothing is waiting for you."


def available_command(syntax: CommandSyntax) -> schema.AvailableCommand:
    """Return a slash command as editors list it."""
    hint = (
        schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=syntax.words)) if syntax.words else None
    )
    return schema.AvailableCommand(name=syntax.name, description=syntax.summary, input=hint)


def permission_options(question: ApprovalQuestion) -> list[schema.PermissionOption]:
    """Return the possible answers; "always" says what it would allow."""
    options = [schema.PermissionOption(option_id=ALLOW, name="Allow", kind="allow_once")]
    if question.always is not None:
        name = f"Allow {question.always_allows} in this session"
        options.append(schema.PermissionOption(option_id=ALWAYS, name=name, kind="allow_always"))
    if question.edits:
        name = "Allow all edits in this folder in this session"
        options.append(schema.PermissionOption(option_id=EDITS, name=name, kind="allow_always"))
    return [*options, schema.PermissionOption(option_id=DENY, name="Deny", kind="reject_once")]


def answer_of(response: schema.RequestPermissionResponse, question: ApprovalQuestion) -> ApprovalAnswer:
    """Return the answer that the user chose."""
    # A cancelled question, or an answer that was not offered, must not allow anything.
    outcome = response.outcome
    if not isinstance(outcome, schema.AllowedOutcome):
        return "deny"
    if outcome.option_id == ALWAYS and question.always is not None:
        return "always"
    if outcome.option_id == EDITS and question.edits:
        return "edits"
    return "allow" if outcome.option_id == ALLOW else "deny"


def asked_call(
    call_id: str, question: ApprovalQuestion, change: Sequence[Content], redactor: Redactor
) -> schema.ToolCallUpdate:
    """Return what the editor shows of a call: its change, the whole command, why it needs approval."""
    args = redactor.clean_all(json.loads(question.args))
    who = f"{question.agent} asks: " if question.agent else ""
    words = redactor.clean(f"{who}{question.why}\n\n{question.subject}")
    return schema.ToolCallUpdate(
        tool_call_id=call_id,
        title=call_title(question.tool, args),
        kind=call_kind(question.tool),
        status="pending",
        content=[*change, tool_content(text_block(words))],
        raw_input=args,
    )
