"""The messaging tools: sessions write to one another, directly or by channels."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.agent.messages.mailbox import ClaimedSession, Mailbox
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import utf8_safe
from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.host.process_identity import is_alive
from scaffold.store.user.conversations import StoredConversation
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer

DAY_S = 86_400
MAX_TTL_S = 30 * DAY_S
MAX_MESSAGE_CHARS = 12_000
"""A longer text belongs into a file, and its path into the message."""
MAX_READ = 20
MAX_CONVERSATIONS = 1_000  # most recent conversations of a directory that are searched for live sessions
CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
RECIPIENT_HINT = (
    "get_agent_info lists the agents you can write to; subagents receive no messages, they have only their task."
)
NO_MESSAGES_TEXT = "No new messages. Messages to you are delivered automatically before each of your requests."

MESSAGES = ToolGroup("messages")

_CONTENT = {"type": "string", "description": f"At most {MAX_MESSAGE_CHARS} characters."}
_CHANNEL = {"type": "string", "description": "Letters, digits, `_-.`."}
_TTL = {"type": "integer", "minimum": 1, "description": "Seconds; default one day."}
_COUNT = {"type": "integer", "minimum": 1, "description": f"At most {MAX_READ}."}


class MessagingContext(Struct, frozen=True, kw_only=True):
    """What the messaging tools of a session need."""

    session: ClaimedSession
    mailbox: Mailbox
    about: Callable[[], Mapping[str, Any]]
    """Returns what an agent may know about itself in addition to its id, e.g. model and mode, as JSON values."""


def messaging_tools(context: MessagingContext) -> tuple[Tool, ...]:
    """Return the six tools: a group, as few sessions write to another one."""
    return (
        _agent_info(context),
        _send_message(context),
        _check_messages(context),
        _subscribe_channel(context),
        _publish_channel(context),
        _check_channel_messages(context),
    )


def _agent_info(context: MessagingContext) -> Tool:
    async def run(_: Mapping[str, Any]) -> ToolOutput:
        """Return the agent's id, its running subagents, and the sessions it can write to."""
        store = context.session.store
        listed = store.conversations.listed(context.session.cwd, limit=MAX_CONVERSATIONS)
        others = [each for each in listed if each.id != context.session.id and _is_alive(each)]
        running = [each for each in store.subagents.for_parent(context.session.id) if each.status == "running"]
        info = {
            "agent_id": context.session.id,
            "parent_id": None,
            **context.about(),
            "subagents": [{"subagent_id": each.name, "task": each.task[:200]} for each in running],
            "sessions": [{"agent_id": each.id, "title": each.title, "model": each.model} for each in others],
        }
        return ToolOutput(msgspec.json.encode(info).decode())

    what = "Return your agent_id, your running subagents, and the other live sessions in this directory."
    return _messaging_tool("get_agent_info", what, object_schema({}), run)


def _send_message(context: MessagingContext) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        """Send one message; a failed answer says why it cannot be sent."""
        recipient_id, content = args["recipient_id"], args["content"]
        if len(content) > MAX_MESSAGE_CHARS:
            return _too_long(content)
        try:
            recipient = context.session.store.conversations.get(recipient_id) if recipient_id else None
        except UsageError as problem:
            return failed_answer(f"Not sent: {problem.what}. {problem.fix}")
        if recipient is None:
            return failed_answer(f"Not sent: there is no agent {recipient_id!r}. {RECIPIENT_HINT}")
        if "/" in recipient.id:
            return failed_answer(f"Not sent: {recipient_id!r} is a subagent. {RECIPIENT_HINT}")
        seq = context.mailbox.send(recipient.id, {"text": utf8_safe(content)}, _lifetime_s(args))
        later = "" if _is_alive(recipient) else "; that session is not running: it gets the message when it is resumed"
        return ToolOutput(f"Sent to {recipient.id} as message {seq}{later}.")

    schema = object_schema({"recipient_id": {"type": "string"}, "content": _CONTENT}, ttl_s=_TTL)
    return _messaging_tool(
        "send_message", "Send a message to the agent of another session, by its agent_id.", schema, run
    )


def _check_messages(context: MessagingContext) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        count = min(args.get("max_count", MAX_READ), MAX_READ)
        return ToolOutput(context.mailbox.read(direct=True, limit=count) or NO_MESSAGES_TEXT)

    what = "Read the messages sent to you since your last request, including those about ended subagents."
    return _messaging_tool("check_messages", what, object_schema({}, max_count=_COUNT), run)


def _subscribe_channel(context: MessagingContext) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        channel = args["channel"]
        if not CHANNEL.fullmatch(channel):
            return _invalid_channel(channel)
        context.mailbox.subscribe(channel)
        return ToolOutput(f"Subscribed: you receive what others publish on {channel} from now on.")

    schema = object_schema({"channel": _CHANNEL})
    return _messaging_tool("subscribe_channel", "Receive what other sessions publish on a channel.", schema, run)


def _publish_channel(context: MessagingContext) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        channel, content = args["channel"], args["content"]
        if not CHANNEL.fullmatch(channel):
            return _invalid_channel(channel)
        if len(content) > MAX_MESSAGE_CHARS:
            return _too_long(content)
        count = context.mailbox.publish(channel, {"text": utf8_safe(content)}, _lifetime_s(args))
        return ToolOutput(f"Published on {channel}: {count} other {'agent gets' if count == 1 else 'agents get'} it.")

    schema = object_schema({"channel": _CHANNEL, "content": _CONTENT}, ttl_s=_TTL)
    return _messaging_tool(
        "publish_channel", "Send a message to every other session that subscribed to a channel.", schema, run
    )


def _check_channel_messages(context: MessagingContext) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        count = min(args.get("max_count", MAX_READ), MAX_READ)
        found = context.mailbox.read(direct=False, channel=args.get("channel"), limit=count)
        return ToolOutput(found or NO_MESSAGES_TEXT)

    what = "Read the messages since your last request on one of your subscribed channels, or on all of them."
    return _messaging_tool("check_channel_messages", what, object_schema({}, channel=_CHANNEL, max_count=_COUNT), run)


def _messaging_tool(name: str, what: str, schema: Mapping[str, Any], run: Any) -> Tool:
    return Tool(name=name, description=what, schema=schema, category="memory", run=run, group=MESSAGES)


def _lifetime_s(args: Mapping[str, Any]) -> float:
    return float(min(args.get("ttl_s", DAY_S), MAX_TTL_S))


def _is_alive(conversation: StoredConversation) -> bool:
    return conversation.owner is not None and is_alive(conversation.owner)


def _too_long(content: str) -> ToolOutput:
    what = f"Not sent: the message has {len(content)} characters; the limit is {MAX_MESSAGE_CHARS}."
    return failed_answer(f"{what} Write it to a file and send the file's path.")


def _invalid_channel(channel: str) -> ToolOutput:
    return failed_answer(
        f"{channel[:80]!r} is not a valid channel name: use up to 64 letters, digits, `_`, `-` and `.`."
    )
