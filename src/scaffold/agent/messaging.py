"""The tools by which sessions write to each other: to one of them, or to all who subscribed to a channel."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.agent.mailbox import Mailbox
from scaffold.core.errors import UsageProblem
from scaffold.core.ids import ConversationId
from scaffold.core.legible import legible
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.identity import alive
from scaffold.store.conversations import StoredConversation
from scaffold.store.user import UserStore
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed

DAY_S = 86_400
LONGEST_S = 30 * DAY_S
LONGEST_MESSAGE = 12_000
"""Characters: what is longer belongs into a file, and its path into the message."""
MOST_READ = 20
LOOKED_AT = 1_000
"""Conversations of a directory among which living sessions are looked for; the least recent ones are left out."""
CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
WHO_READS = "get_agent_info lists the agents you can write to; subagents read no messages, they have their task alone."
NOTHING_NEW = "Nothing new. What is sent to you reaches you by itself, before each of your requests."

_CONTENT = {"type": "string", "description": f"Plain words, at most {LONGEST_MESSAGE} characters."}
_CHANNEL = {"type": "string", "description": "Letters, digits, `_`, `-` and `.`, at most 64."}
_TTL = {"type": "integer", "minimum": 1, "description": "Seconds until it counts for nothing; default one day."}
_COUNT = {"type": "integer", "minimum": 1, "description": f"At most {MOST_READ}, which is the default."}


class Desk(Struct, frozen=True, kw_only=True):
    """What the tools of a session work with."""

    store: UserStore
    me: ConversationId
    cwd: str
    mailbox: Mailbox
    about: Callable[[], Mapping[str, Any]]
    """Return what an agent may know of itself besides its id: its model, its mode; JSON values."""


def messaging_tools(desk: Desk) -> tuple[Tool, ...]:
    """Return the six tools, in the order a model is told of them."""
    return (
        _agent_info(desk),
        _send_message(desk),
        _check_messages(desk),
        _subscribe_channel(desk),
        _publish_channel(desk),
        _check_channel_messages(desk),
    )


def _agent_info(desk: Desk) -> Tool:
    async def run(_: Mapping[str, Any]) -> ToolOutput:
        """Tell who asks, who works for them, and who can be written to."""
        store = desk.store
        there = store.conversations.listed(desk.cwd, limit=LOOKED_AT)
        others = [each for each in there if each.id != desk.me and _lives(each)]
        running = [each for each in store.subagents.of_parent(desk.me) if each.status == "running"]
        info = {
            "agent_id": desk.me,
            "parent_id": None,
            **desk.about(),
            "subagents": [{"subagent_id": each.name, "task": each.task[:200]} for each in running],
            "sessions": [{"agent_id": each.id, "title": each.title, "model": each.model} for each in others],
        }
        return ToolOutput(msgspec.json.encode(info).decode())

    what = "Tell who you are: your agent_id, your running subagents, and the other sessions alive in this directory."
    return _tool("get_agent_info", what, object_schema({}), run)


def _send_message(desk: Desk) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        """Send one message, or say why it cannot be sent."""
        wanted, content = args["recipient_id"], args["content"]
        if len(content) > LONGEST_MESSAGE:
            return _too_long(content)
        try:
            recipient = desk.store.conversations.get(wanted) if wanted else None
        except UsageProblem as problem:
            return failed(f"Not sent: {problem.what}. {problem.fix}")
        if recipient is None:
            return failed(f"Not sent: there is no agent {wanted!r}. {WHO_READS}")
        if "/" in recipient.id:
            return failed(f"Not sent: {wanted!r} is a subagent. {WHO_READS}")
        seq = desk.mailbox.send(recipient.id, {"text": legible(content)}, _ttl(args))
        later = "" if _lives(recipient) else "; nobody is at it now: it is read when somebody goes on with it"
        return ToolOutput(f"Sent to {recipient.id} as message {seq}{later}.")

    schema = object_schema({"recipient_id": {"type": "string"}, "content": _CONTENT}, ttl_s=_TTL)
    return _tool("send_message", "Send a message to the agent of another session, by its agent_id.", schema, run)


def _check_messages(desk: Desk) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        count = min(args.get("max_count", MOST_READ), MOST_READ)
        return ToolOutput(desk.mailbox.read(direct=True, limit=count) or NOTHING_NEW)

    what = "Read the messages to you that came since your last request, how subagents ended included."
    return _tool("check_messages", what, object_schema({}, max_count=_COUNT), run)


def _subscribe_channel(desk: Desk) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        channel = args["channel"]
        if not CHANNEL.fullmatch(channel):
            return _no_channel(channel)
        desk.mailbox.subscribe(channel)
        return ToolOutput(f"Subscribed: what others publish on {channel} from now on reaches you.")

    schema = object_schema({"channel": _CHANNEL})
    return _tool("subscribe_channel", "Have what other sessions publish on a channel sent to you.", schema, run)


def _publish_channel(desk: Desk) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        channel, content = args["channel"], args["content"]
        if not CHANNEL.fullmatch(channel):
            return _no_channel(channel)
        if len(content) > LONGEST_MESSAGE:
            return _too_long(content)
        count = desk.mailbox.publish(channel, {"text": legible(content)}, _ttl(args))
        return ToolOutput(f"Published on {channel}: {count} other {'agent gets' if count == 1 else 'agents get'} it.")

    schema = object_schema({"channel": _CHANNEL, "content": _CONTENT}, ttl_s=_TTL)
    return _tool("publish_channel", "Send a message to every other session that subscribed to a channel.", schema, run)


def _check_channel_messages(desk: Desk) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        count = min(args.get("max_count", MOST_READ), MOST_READ)
        found = desk.mailbox.read(direct=False, channel=args.get("channel"), limit=count)
        return ToolOutput(found or NOTHING_NEW)

    what = "Read what came by the channels you subscribed to since your last request; by one of them, or by all."
    return _tool("check_channel_messages", what, object_schema({}, channel=_CHANNEL, max_count=_COUNT), run)


def _tool(name: str, what: str, schema: Mapping[str, Any], run: Any) -> Tool:
    return Tool(name=name, description=what, schema=schema, category="memory", run=run)


def _ttl(args: Mapping[str, Any]) -> float:
    return float(min(args.get("ttl_s", DAY_S), LONGEST_S))


def _lives(conversation: StoredConversation) -> bool:
    return conversation.owner is not None and alive(conversation.owner)


def _too_long(content: str) -> ToolOutput:
    what = f"Not sent: {len(content)} characters are too many, {LONGEST_MESSAGE} the most."
    return failed(f"{what} Write them to a file, and send its path.")


def _no_channel(channel: str) -> ToolOutput:
    return failed(f"{channel[:80]!r} is no name of a channel: use up to 64 letters, digits, `_`, `-` and `.`.")
