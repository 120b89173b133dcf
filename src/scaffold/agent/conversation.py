"""What was said so far, and how a model is shown it."""

from collections.abc import Iterable, Sequence

import msgspec

from scaffold.agent.compaction import Compacted, compacted, retold
from scaffold.agent.measure import size_of
from scaffold.core.conversation import AssistantMessage, Message, Text, ToolCall, UserMessage


class Conversation:
    """The messages since the last compaction, and a summary of those before; it grows at its end.

    A model is shown the summary first, then the messages; neighbouring ones of the user are shown as one, because
    some models only take turns.
    """

    def __init__(self, messages: Iterable[Message] = (), summary: str = "") -> None:
        """Go on with what is stored of a conversation; `summary` stands for everything before `messages`."""
        self._ids: set[str] = set()
        self._begin(summary)
        for message in messages:
            self.add(message)

    def _begin(self, summary: str) -> None:
        self._summary = summary
        self._kept: list[Message] = []
        self._shown: list[Message] = [UserMessage((Text(retold(summary)),))] if summary else []
        self._size = sum(map(size_of, self._shown))

    @property
    def summary(self) -> str:
        """Return what stands for the messages that are not kept; empty if all are."""
        return self._summary

    @property
    def kept(self) -> Sequence[Message]:
        """Return the messages as they were added."""
        return self._kept

    @property
    def size(self) -> int:
        """Return the size of everything shown, in bytes as `size_of` counts them."""
        return self._size

    @property
    def last_words(self) -> str:
        """Return the plain words of the last reply; empty if there is none."""
        replies = (message for message in reversed(self._kept) if isinstance(message, AssistantMessage))
        return next((reply.text for reply in replies), "")

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """Return the calls at the end that have no results: whatever ran them is gone."""
        last = self._kept[-1] if self._kept else None
        return last.tool_calls if isinstance(last, AssistantMessage) else ()

    def shown(self) -> tuple[Message, ...]:
        """Return what a model is shown; the same objects each time, as long as nothing is compacted."""
        return tuple(self._shown)

    def add(self, message: Message) -> None:
        """Add what was said next."""
        self._kept.append(message)
        self._size += size_of(message)
        last = self._shown[-1] if self._shown else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage):
            self._shown[-1] = UserMessage((*last.parts, *message.parts))
        else:
            self._shown.append(message)
        if isinstance(message, AssistantMessage):
            self._ids.update(call.id for call in message.tool_calls)

    def distinct(self, message: AssistantMessage) -> AssistantMessage:
        """Return the message with new ids for calls whose id is taken or missing: results are matched by them."""
        own: set[str] = set()
        renamed: dict[int, ToolCall] = {}
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                call_id = self._free(part.id, own)
                own.add(call_id)
                if call_id != part.id:
                    renamed[index] = msgspec.structs.replace(part, id=call_id)
        if not renamed:
            return message
        parts = tuple(renamed.get(index, part) for index, part in enumerate(message.parts))
        return msgspec.structs.replace(message, parts=parts)

    def compact(self, limit: int) -> Compacted:
        """Shorten the conversation to the size `limit`, as far as that can be done, and return what became of it."""
        after = compacted(self._kept, self._summary, limit)
        self._begin(after.summary)
        for message in after.kept:
            self.add(message)
        return after

    def _free(self, wanted: str, own: set[str]) -> str:
        """Return an id that neither the conversation nor the reply itself has, as close to `wanted` as can be."""
        name, number = wanted, 1
        while not name or name in self._ids or name in own:
            number += 1
            name = f"{wanted or 'call'}-{number}"
        return name
