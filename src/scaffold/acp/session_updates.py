"""What happens in a session, as updates of the protocol."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from acp.helpers import plan_entry, update_agent_message_text, update_agent_thought_text, update_plan

from scaffold.acp.tool_calls import Post, ToolCalls
from scaffold.agent.journal import EntryKind
from scaffold.core.conversation import Delta, RetryWait, StreamReset, TextDelta, ThinkingDelta, ToolCallDelta
from scaffold.core.todo import Todo
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
                    self.notice(f"the reply so far does not count, as it broke off: {reason}")
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
        """Post nothing: the end of a turn answers its prompt."""

    def plan(self, todos: Sequence[Todo]) -> None:
        """Post the agent's todo list as its plan."""
        self._post(update_plan(plan_entry(each.content, priority=each.priority, status=each.status) for each in todos))
