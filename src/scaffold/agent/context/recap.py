"""The recap shown to a user who resumes a conversation."""

from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.rolling_summary import SummaryEntry, summary_entries
from scaffold.agent.context.text_size import cut_middle
from scaffold.core.conversation import UserMessage
from scaffold.core.model import Usage
from scaffold.core.printable_text import count_of, format_usd

LINE_BYTES = 160
"""Bytes of each quoted text."""


def recap(conversation: Conversation, usage: Usage, *, model: str = "", elsewhere: str = "") -> str:
    """Return a few lines: first and last request, work done, where it stopped, and the usage so far.

    `elsewhere` is the directory in which the conversation began, if it goes on in another one.
    """
    entries = summary_entries(conversation.summary, conversation.kept)
    asked = [entry.text for entry in entries if entry.kind == "user"]
    lines = [f"Resuming: {_line(asked[0])}" if asked else "Resuming a conversation without text."]
    if len(asked) > 1:
        lines.append(f"Last request: {_line(asked[-1])}")
    lines += _done(entries)
    lines.append(f"Stopped: {_stopped_at(conversation)}")
    lines += [f"Begun in {elsewhere}; it goes on in this directory"] if elsewhere else []
    lines.append(f"Used so far: {_used(usage)}{f', {model}' if model else ''}")
    return "\n".join(lines)


def _done(entries: list[SummaryEntry]) -> list[str]:
    calls = [entry.text for entry in entries if entry.kind in {"change", "tool", "read"}]
    replies = [entry.text for entry in entries if entry.kind in {"finding", "you"}]
    last = ", the last" if len(calls) > 1 else ""
    lines = [f"Done: {count_of(len(calls), 'tool call')}{last}: {_line(calls[-1])}"] if calls else []
    return lines + ([f"Last reply: {_line(replies[-1])}"] if replies else [])


def _stopped_at(conversation: Conversation) -> str:
    if open_calls := conversation.unanswered:
        names = ", ".join(call.name for call in open_calls)
        return f"while {names} {'was' if len(open_calls) == 1 else 'were'} running; not run again"
    if conversation.kept and isinstance(conversation.kept[-1], UserMessage):
        return "before the model replied"
    return "after the model's last reply"


def _used(usage: Usage) -> str:
    cost = "cost unknown" if usage.cost_usd is None else format_usd(usage.cost_usd)
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    requests = count_of(usage.requests, "request")
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out, {requests}, {cost}"


def _line(text: str) -> str:
    return cut_middle(" ".join(text.split()), LINE_BYTES)
