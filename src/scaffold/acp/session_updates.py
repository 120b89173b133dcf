"""A session's events, and a stored conversation, as updates of the protocol."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

from acp.helpers import (
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from pydantic import BaseModel

from scaffold.acp.tool_calls import SHOWN_CHARACTERS, Post, ToolCalls, call_kind, call_locations, call_title
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.journal import EntryKind
from scaffold.core.conversation import (
    AssistantMessage,
    Delta,
    Image,
    Message,
    RetryWait,
    StreamReset,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Todo,
    ToolCall,
    ToolCallDelta,
    ToolResult,
)
from scaffold.core.printable_text import truncate_text
from scaffold.policy.secret.redaction import Redactor
from scaffold.views.text_format import waiting_text


class SessionUpdates:
    """A `Reporter` that posts updates."""

    for_people = False

    def __init__(self, post: Post, calls: ToolCalls) -> None:
        self._post = post
        self._calls = calls
        self._text = ""
        self._thoughts = ""
        self._has_calls = False
        self._follows_text = False
        """Whether the last reply was text alone: the editor shows the next one behind it."""

    def begin_turn(self) -> None:
        """Count what follows as the answer to a new prompt."""
        self._follows_text = False

    def session(self, **fields: str) -> None:
        """Post nothing: the editor has opened the session itself."""

    def on_delta(self, delta: Delta) -> None:
        """Post the pieces of text and thoughts; a call is posted by `note` once it is complete."""
        match delta:
            case TextDelta(text=text):
                self._post_text(text)
                self._text += text
            case ThinkingDelta(text=text):
                self._thoughts += text
                self._post(update_agent_thought_text(text))
            case StreamReset(reason=reason):
                if self._text:
                    self.notice(f"the reply broke off and is discarded: {reason}")
                self._text, self._thoughts = "", ""
            case RetryWait(seconds=seconds, reason=reason):
                self._post(update_agent_thought_text(f"{waiting_text(seconds)}: {reason}\n"))
            case ToolCallDelta():
                pass
            case _:
                assert_never(delta)

    def note(self, kind: EntryKind, **fields: Any) -> None:
        """Post what was not streamed: calls, results, notices, and texts that came whole."""
        match kind:
            case "text" if fields["text"] not in self._text:
                self._post_text(fields["text"])
                self._text += fields["text"]
            case "thinking" if fields["text"] not in self._thoughts:
                self._post(update_agent_thought_text(fields["text"]))
            case "usage":
                self._follows_text = bool(self._text) and not self._has_calls
                self._text, self._thoughts, self._has_calls = "", "", False
            case "tool_call":
                self._has_calls = True
                self._calls.announce(fields["id"], fields["name"], fields["args"])
            case "tool_result":
                self._calls.result(fields["id"], fields["content"], failed=fields["failed"])
            case "notice":
                self.notice(fields["text"])
            case _:
                pass  # the editor has the prompt, and decided the approvals

    def _post_text(self, text: str) -> None:
        apart, self._follows_text = "\n\n" if self._follows_text else "", False
        self._post(update_agent_message_text(apart + text))

    def notice(self, text: str) -> None:
        """Post a line of our own; the protocol has no other place for it than the agent's message."""
        self._post(update_agent_message_text(f"\n\n> note: {text}\n\n"))

    def result(self, shape: Mapping[str, object]) -> None:
        """Post nothing: the answer to the prompt ends the turn."""

    def plan(self, todos: Sequence[Todo]) -> None:
        """Post the agent's todo list as its plan."""
        self._post(update_plan(plan_entry(each.content, priority=each.priority, status=each.status) for each in todos))


def replayed(conversation: Conversation, root: Path, redactor: Redactor) -> Iterator[BaseModel]:
    """Yield the updates that show a conversation again, without secrets."""
    if conversation.summary:
        yield update_agent_thought_text(
            redactor.clean(f"Summary of the conversation so far:\n{conversation.summary}\n")
        )
    for message in conversation.kept:
        yield from _message_updates(message, root, redactor)
    for call in conversation.unanswered:
        yield update_tool_call(call.id, status="failed", content=[tool_content(text_block("interrupted"))])


def _message_updates(message: Message, root: Path, redactor: Redactor) -> Iterator[BaseModel]:
    says = update_agent_message_text if isinstance(message, AssistantMessage) else update_user_message_text
    for part in message.parts:
        match part:
            case Text(origin="note"):
                pass  # for the model alone
            case Text(text=text):
                yield says(redactor.clean(text))
            case Thinking(text=text):
                if text:
                    yield update_agent_thought_text(redactor.clean(text))
            case ToolCall(id=call_id, name=name, args=args):
                shown = redactor.clean_all(dict(args))
                yield start_tool_call(
                    call_id,
                    call_title(name, shown),
                    kind=call_kind(name),
                    status="pending",
                    locations=call_locations(root, name, shown),
                    raw_input=shown,
                )
            case ToolResult(call_id=call_id, content=content, failed=failed):
                said = tool_content(text_block(truncate_text(redactor.clean(content), SHOWN_CHARACTERS)))
                yield update_tool_call(call_id, status="failed" if failed else "completed", content=[said])
            case Image():
                yield update_user_message_text("[an image]")
