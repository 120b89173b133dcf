"""A conversation, and the messages shown to a model."""

from collections.abc import Iterable, Sequence

import msgspec

from scaffold.agent.context.call_summary import NO_EFFECTS, ToolEffects
from scaffold.agent.context.compaction import CompactionResult, compact_messages, summary_prompt
from scaffold.agent.context.rolling_summary import summary_entries
from scaffold.agent.context.text_size import cut_middle, message_size
from scaffold.core.conversation import AssistantMessage, Message, Text, ToolCall, UserMessage
from scaffold.core.model import Usage
from scaffold.core.printable_text import count_of, format_usd

LINE_BYTES = 160  # bytes of each quoted text


class Conversation:
    """The messages since the last compaction, and a summary of those before.

    A model is shown the summary, then the messages; consecutive user messages are merged, because some models require
    alternating roles.
    """

    def __init__(self, messages: Iterable[Message] = (), summary: str = "") -> None:
        """Continue a stored conversation; `summary` replaces everything before `messages`."""
        self._ids: set[str] = set()
        self._rebuild(summary)
        for message in messages:
            self.add(message)

    def _rebuild(self, summary: str) -> None:
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
    def token_scale(self) -> float:
        """How many tokens the server last counted for each estimated one; 1 if it has not said so."""
        scales = (each.token_scale for each in reversed(self._kept) if isinstance(each, AssistantMessage))
        return next(filter(None, scales), 1.0)

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
        opaque = message.opaque
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                # Some servers number the calls of each reply anew, or give them no id at all.
                call_id, number = part.id, 1
                while not call_id or call_id in self._ids or call_id in own:
                    number += 1
                    call_id = f"{part.id or 'call'}-{number}"
                own.add(call_id)
                if call_id != part.id:
                    renamed[index] = msgspec.structs.replace(part, id=call_id)
                    opaque = {call_id if key == part.id != "" else key: each for key, each in opaque.items()}
        if not renamed:
            return message
        parts = tuple(renamed.get(index, part) for index, part in enumerate(message.parts))
        return msgspec.structs.replace(message, parts=parts, opaque=opaque)

    def dropped_by(self, limit: int, effects: ToolEffects = NO_EFFECTS) -> Sequence[Message]:
        """Return the messages that `compact` would replace by a summary."""
        return self._kept[: compact_messages(self._kept, self._summary, limit, effects).dropped]

    def compact(self, limit: int, effects: ToolEffects = NO_EFFECTS, written: str = "") -> CompactionResult | None:
        """Shorten to `limit` bytes if possible, else return None; `written` summarises what `dropped_by` returns."""
        after = compact_messages(self._kept, self._summary, limit, effects, written)
        # A summary can be longer than the few short messages it replaces.
        if Conversation(after.kept, after.summary).size >= self._size:
            return None
        self._rebuild(after.summary)
        for message in after.kept:
            self.add(message)
        return after


def recap(conversation: Conversation, usage: Usage, *, model: str = "", elsewhere: str = "") -> str:
    """Return a few lines to resume with; `elsewhere` is where the conversation began, if in another directory."""
    entries = summary_entries(conversation.summary, conversation.kept)
    asked = [entry.text for entry in entries if entry.kind == "user"]
    lines = [f"Resuming: {_recap_line(asked[0])}" if asked else "Resuming a conversation without text."]
    if len(asked) > 1:
        lines.append(f"Last request: {_recap_line(asked[-1])}")
    calls = [entry.text for entry in entries if entry.kind in {"change", "tool", "read"}]
    if calls:
        last = ", the last" if len(calls) > 1 else ""
        lines.append(f"Done: {count_of(len(calls), 'tool call')}{last}: {_recap_line(calls[-1])}")
    if replies := [entry.text for entry in entries if entry.kind in {"finding", "you"}]:
        lines.append(f"Last reply: {_recap_line(replies[-1])}")
    stopped = "after the model's last reply"
    if open_calls := conversation.unanswered:
        names = ", ".join(call.name for call in open_calls)
        stopped = f"while {names} {'was' if len(open_calls) == 1 else 'were'} running; not run again"
    elif conversation.kept and isinstance(conversation.kept[-1], UserMessage):
        stopped = "before the model replied"
    lines.append(f"Stopped: {stopped}")
    lines += [f"Begun in {elsewhere}; continues in this directory"] if elsewhere else []
    cost = "cost unknown" if usage.cost_usd is None else format_usd(usage.cost_usd)
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    tokens = f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"
    used = f"{tokens}, {count_of(usage.requests, 'request')}, {cost}"
    lines.append(f"Used so far: {used}{f', {model}' if model else ''}")
    return "\n".join(lines)


def _recap_line(text: str) -> str:
    return cut_middle(" ".join(text.split()), LINE_BYTES)
