"""The current conversation of a REPL: opened, closed, and replaced by another one without a gap."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import msgspec

from scaffold.agent.agent_spec import TurnResult
from scaffold.agent.context.conversation_window import own_words, recap_end, recap_line
from scaffold.core.conversation import Image, Message, Text
from scaffold.core.errors import UsageError
from scaffold.core.tool import ToolOutput
from scaffold.host.process_identity import own_identity
from scaffold.policy.permission.approval_gate import ApprovalPrompt
from scaffold.session.agent_session import Session, open_session
from scaffold.session.model_catalog import ModelCatalog
from scaffold.session.open_conversation import open_conversation
from scaffold.session.options import SessionOptions
from scaffold.session.reporter import Reporter, SessionObserver
from scaffold.session.slash.prompt_commands import send_command
from scaffold.session.slash.syntax import AgentCommand, DiffView, command_line
from scaffold.session.undo import undo_note, undo_text, undo_turn
from scaffold.session.working_tree import StartCommit, start_of_changes, tool_changes, tree_changes
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore

MAX_LISTED = 20
"""Conversations in a list."""
REPLAYED_TURNS = 10
"""Turns that are shown again of a conversation that is resumed."""
MAX_REPLAYED = 200
"""Messages that are read for that."""


class CurrentConversation:
    """One conversation at a time, with its session; there is none before the first `switch_to`."""

    def __init__(
        self,
        options: SessionOptions,
        store: UserStore,
        reporter: Reporter,
        *,
        ask: ApprovalPrompt,
        observer: SessionObserver,
        opened: Callable[[Session], None],
    ) -> None:
        """`ask` asks the user for consent; `opened` is called with each session once it is open."""
        self.options = options
        self.store = store
        self.models = ModelCatalog(options.cwd)
        self.session: Session
        self._reporter = reporter
        self._ask = ask
        self._observer = observer
        self._opened = opened
        self._resources = AsyncExitStack()
        self._start: StartCommit | None = None

    async def switch_to(self, stored: StoredConversation | None, model: str) -> None:
        """Resume `stored`, or begin anew if None; then close the previous one. An error leaves everything as it was."""
        if self._start is None:
            self._start = await start_of_changes(self.options.cwd)
        async with AsyncExitStack() as stack:
            conversation = stack.enter_context(
                open_conversation(
                    self.store, stored, cwd=str(self.options.cwd), model=model, title="", me=own_identity()
                )
            )
            session = await stack.enter_async_context(
                open_session(self.options, conversation, self._reporter, ask=self._ask, observer=self._observer)
            )
            # Only now is the new conversation this object's; an error before it closes the new one alone.
            previous, self._resources = self._resources, stack.pop_all()
        self.session = session
        # `--mode` and `--accept-edits` are for the first one only.
        self.options = msgspec.structs.replace(self.options, mode=None, accept_edits=False)
        self._opened(session)
        await previous.aclose()

    async def close(self) -> None:
        """Close the session and release the conversation."""
        await self._resources.aclose()

    async def say(self, words: str, material: str = "", images: Sequence[Image] = ()) -> TurnResult:
        """Take one turn, as `Session.say` does; a conversation without a title gets its title from `words`."""
        self.session.open_conversation.set_title_if_empty(words)
        return await self.session.say(words, material, images)

    async def send(self, command: AgentCommand, material: str = "", images: Sequence[Image] = ()) -> TurnResult:
        """Take one turn, as `send_command` does; a conversation without a title gets its title from the command."""
        self.session.open_conversation.set_title_if_empty(command_line(command))
        return await send_command(self.session, command, material, images)

    async def run_command(self, command: str) -> ToolOutput:
        """Run a command of the user's own; a conversation without a title gets its title from it."""
        self.session.open_conversation.set_title_if_empty(f"!{command}")
        return await self.session.run_command(command)

    async def changes(self, view: DiffView) -> str:
        """Return what changed in the working tree since this session began, or by the tools of the last turn."""
        history, root = self.session.file_history, self.options.cwd
        if view == "turn":
            return await asyncio.to_thread(tool_changes, history.turns()[:1], history, root)
        return await tree_changes(self._start, history, root)

    async def undo(self) -> str:
        """Undo the last turn's changes of files, tell the agent, return what was done; UsageError if nothing was."""
        history = self.session.file_history
        if not (turns := history.turns()):
            raise UsageError(
                "there is nothing to undo", "Only files that the file tools of this conversation changed can be undone."
            )
        report = await asyncio.to_thread(undo_turn, history, turns[0], self.options.cwd)
        if not report.changed:
            raise UsageError(undo_text(report), "`/diff turn` shows what the turn changed.")
        self.session.agent.add_note(Text(undo_note(report), "note"))
        return undo_text(report)

    def recap(self) -> str:
        """Return a few lines about where a resumed conversation stopped; empty for a new one."""
        opened = self.session.open_conversation
        if opened.stored is None:
            return ""
        title = recap_line(opened.stored.title) or "a conversation without a title"
        elsewhere = opened.elsewhere(self.options.cwd)
        end = recap_end(opened.conversation, opened.prior_usage, model=opened.model, elsewhere=elsewhere)
        return f"Resuming: {title}\n{end}"

    def last_turns(self) -> tuple[Sequence[Message], int]:
        """Return the messages of the last turns, and how many there are before them; only these are read."""
        opened = self.session.open_conversation
        messages = self.store.conversations.messages(opened.id, last=MAX_REPLAYED)
        turns = [at for at, message in enumerate(messages) if own_words(message)]
        # Of a turn that is longer, its end.
        shown = messages[turns[-REPLAYED_TURNS:][0] if turns else 0 :]
        stored = self.store.conversations.get(opened.id)
        return shown, (stored.messages if stored else 0) - len(shown)

    def listed(self) -> tuple[StoredConversation, ...]:
        """Return this directory's conversations, the most recently used first."""
        return self.store.conversations.listed(str(self.options.cwd), limit=MAX_LISTED)

    @property
    def has_messages(self) -> bool:
        """Whether the conversation holds messages, so that it can be resumed later."""
        conversation = self.session.open_conversation.conversation
        return bool(conversation.kept or conversation.summary)
