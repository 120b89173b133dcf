"""A conversation, and the messages shown to a model."""

from collections.abc import Iterable, Sequence

import msgspec

from scaffold.agent.context.call_summary import NO_EFFECTS, ToolEffects
from scaffold.agent.context.compaction import CompactionResult, compact_messages, summary_prompt
from scaffold.agent.context.text_size import message_size
from scaffold.core.conversation import AssistantMessage, Message, Text, ToolCall, UserMessage


class Conversation:
    """The messages since the last compaction, and a summary of those before.

    A model is shown the summary, then the messages; consecutive user messages are merged, because some models require
    alternating roles.
    """

    def __init__(self, messages: Iterable[Message] = (), summary: str = "") -> None:
        """Continue a stored conversation; `summary` replaces everything before `messages`."""
        self._ids: set[str] = set()
        self._begin(summary)
        for message in messages:
            self.add(message)

    def _begin(self, summary: str) -> None:
        self._summary = summary
        self._kept: list[Message] = []
        self._shown: list[Message] = [UserMessage((Text(summary_prompt(summary)),))] if summary else []
        self._size = sum(map(message_size, self._shown))

    @property
    def summary(self) -> str:
        """The summary of the dropped messages; empty if none were dropped."""
        return self._summary

    @property
    def kept(self) -> Sequence[Message]:
        """The messages as they were added."""
        return self._kept

    @property
    def size(self) -> int:
        """The size of everything shown, in bytes as `message_size` counts them."""
        return self._size

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """The calls at the end without results: they were interrupted."""
        last = self._kept[-1] if self._kept else None
        return last.tool_calls if isinstance(last, AssistantMessage) else ()

    def shown(self) -> tuple[Message, ...]:
        """Return the messages for a model; the same objects each time until a compaction."""
        return tuple(self._shown)

    def add(self, message: Message) -> None:
        """Append a message."""
        self._kept.append(message)
        self._size += message_size(message)
        last = self._shown[-1] if self._shown else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            # A new object, so that models, which recognise sent messages by identity, encode this one again.
            self._shown[-1] = UserMessage((*last.parts, *message.parts))
        else:
            self._shown.append(message)
        if isinstance(message, AssistantMessage):
            # Kept over a compaction: a summary may still mention the ids of dropped calls.
            self._ids.update(call.id for call in message.tool_calls)

    def distinct(self, message: AssistantMessage) -> AssistantMessage:
        """Return the message with new ids for calls whose id is used or missing: results are matched by id."""
        own: set[str] = set()
        renamed: dict[int, ToolCall] = {}
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                call_id = self._unused_id(part.id, own)
                own.add(call_id)
                if call_id != part.id:
                    renamed[index] = msgspec.structs.replace(part, id=call_id)
        if not renamed:
            return message
        parts = tuple(renamed.get(index, part) for index, part in enumerate(message.parts))
        return msgspec.structs.replace(message, parts=parts)

    def dropped_by(self, limit: int, effects: ToolEffects = NO_EFFECTS) -> Sequence[Message]:
        """Return the messages that `compact` would replace by a summary."""
        return self._kept[: compact_messages(self._kept, self._summary, limit, effects).dropped]

    def compact(self, limit: int, effects: ToolEffects = NO_EFFECTS, written: str = "") -> CompactionResult | None:
        """Shorten the conversation to the size `limit` if possible; return the result, None if nothing changed.

        `written` is what a model wrote about the messages that `dropped_by` returns.
        """
        after = compact_messages(self._kept, self._summary, limit, effects, written)
        # A summary can be longer than the few short messages it replaces.
        if Conversation(after.kept, after.summary).size >= self._size:
            return None
        self._begin(after.summary)
        for message in after.kept:
            self.add(message)
        return after

    def _unused_id(self, call_id: str, own: set[str]) -> str:
        """Return `call_id`, with a number if the conversation or the same reply already uses it."""
        name, number = call_id, 1
        while not name or name in self._ids or name in own:
            number += 1
            name = f"{call_id or 'call'}-{number}"
        return name
