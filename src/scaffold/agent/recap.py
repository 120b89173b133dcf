"""What a person is told who takes a conversation up again."""

from scaffold.agent.conversation import Conversation
from scaffold.agent.measure import shortened
from scaffold.agent.summary import Entry, entries_of
from scaffold.core.conversation import UserMessage
from scaffold.core.model import Usage
from scaffold.core.money import dollars

LINE = 160
"""Bytes of what is quoted."""


def recap(conversation: Conversation, usage: Usage, *, model: str = "") -> str:
    """Return a few lines: what was asked first and last, what was done, where it stopped, what it cost so far."""
    entries = entries_of(conversation.summary, conversation.kept)
    asked = [entry.text for entry in entries if entry.kind == "user"]
    lines = [f"Going on with: {_line(asked[0])}" if asked else "Going on with a conversation without words."]
    if len(asked) > 1:
        lines.append(f"Last asked: {_line(asked[-1])}")
    lines += _done(entries)
    lines.append(f"Stopped: {_standing(conversation)}")
    lines.append(f"Used so far: {_used(usage)}{f', {model}' if model else ''}")
    return "\n".join(lines)


def _done(entries: list[Entry]) -> list[str]:
    calls = [entry.text for entry in entries if entry.kind == "tool"]
    said = [entry.text for entry in entries if entry.kind == "you"]
    lines = [f"Done: {len(calls)} tool calls, the last: {_line(calls[-1])}"] if calls else []
    return lines + ([f"Last said: {_line(said[-1])}"] if said else [])


def _standing(conversation: Conversation) -> str:
    if open_calls := conversation.unanswered:
        return f"while {', '.join(call.name for call in open_calls)} ran; that is not run again"
    if conversation.kept and isinstance(conversation.kept[-1], UserMessage):
        return "before the model replied"
    return "after the model's last reply"


def _used(usage: Usage) -> str:
    cost = "cost unknown" if usage.cost_usd is None else dollars(usage.cost_usd)
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    return f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out, {usage.requests} requests, {cost}"


def _line(text: str) -> str:
    return shortened(" ".join(text.split()), LINE)
