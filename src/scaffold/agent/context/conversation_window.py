"""A conversation, and the messages shown to a model."""

from collections.abc import Iterable, Sequence

import msgspec

from scaffold.agent.context.call_summary import KEY_ARGUMENTS, NO_EFFECTS, ToolEffects
from scaffold.agent.context.compaction import CompactionResult, compact_messages, summary_prompt
from scaffold.agent.context.text_size import message_size
from scaffold.core.conversation import AssistantMessage, Message, Text, ToolCall, UserMessage
from scaffold.core.model import Usage
from scaffold.core.printable_text import count_of, format_usd, one_line

LINE_CHARACTERS = 160  # of each quoted text


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


def own_words(message: Message) -> str:
    """Return what the user says in a message, without files, notes of the program and messages of other agents."""
    if isinstance(message, AssistantMessage):
        return ""
    return "\n".join(part.text for part in message.parts if isinstance(part, Text) and not part.origin).strip()


def recap(conversation: Conversation, title: str, usage: Usage, *, model: str = "", elsewhere: str = "") -> str:
    """Return a few lines to resume with; `elsewhere` is where the conversation began, if in another directory.

    `title` is how it began. Nothing is taken from a summary, which is written for the model.
    """
    asked = _first_filled(map(own_words, reversed(conversation.kept)))
    said = [message for message in reversed(conversation.kept) if isinstance(message, AssistantMessage)]
    first = title if conversation.summary else _first_filled(map(own_words, conversation.kept))
    lines = [f"Resuming: {recap_line(first)}" if first else "Resuming a conversation without text."]
    if asked and " ".join(asked.split()) != " ".join(first.split()):
        lines.append(f"Last request: {recap_line(asked)}")
    if calls := next((message.tool_calls for message in said if message.tool_calls), ()):
        about = next((str(calls[-1].args[name]) for name in KEY_ARGUMENTS if name in calls[-1].args), "")
        lines.append(f"Last call: {recap_line(f'{calls[-1].name} {about}')}")
    if reply := _first_filled(message.text for message in said):
        lines.append(f"Last reply: {recap_line(reply)}")
    return "\n".join([*lines, recap_end(conversation, usage, model=model, elsewhere=elsewhere)])


def recap_end(conversation: Conversation, usage: Usage, *, model: str = "", elsewhere: str = "") -> str:
    """Return where a conversation stopped, and what it has used."""
    stopped = "after the model's last reply"
    if open_calls := conversation.unanswered:
        names = ", ".join(call.name for call in open_calls)
        stopped = f"while {names} {'was' if len(open_calls) == 1 else 'were'} running; not run again"
    elif conversation.kept and isinstance(conversation.kept[-1], UserMessage):
        stopped = "before the model replied"
    lines = [f"Stopped: {stopped}"]
    lines += [f"Begun in {elsewhere}; continues in this directory"] if elsewhere else []
    cost = "cost unknown" if usage.cost_usd is None else format_usd(usage.cost_usd)
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    tokens = f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"
    used = f"{tokens}, {count_of(usage.requests, 'request')}, {cost}"
    lines.append(f"Used so far: {used}{f', {model}' if model else ''}")
    return "\n".join(lines)


def _first_filled(texts: Iterable[str]) -> str:
    return next(filter(str.strip, texts), "")


def recap_line(text: str) -> str:
    """Return a text on one line; of a long one its first words, and how much more there is."""
    line = one_line(text)
    if len(line) <= LINE_CHARACTERS:
        return line
    head = line[:LINE_CHARACTERS].rpartition(" ")[0] or line[:LINE_CHARACTERS]
    return f"{head} … ({count_of(len(line) - len(head), 'more character')})"
