"""Tools that are offered only once the conversation has asked for them: what is loaded follows from it alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scaffold.agent.tool_search import FIND_TOOLS, find_tools, found_names
from scaffold.core.conversation import AssistantMessage, Message, ToolResult, UserMessage
from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.tools.arguments import object_schema

LOAD_TOOLS = "load_tools"


def with_load_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools, and those that load groups of them if there are any: by name, and by words."""
    groups = dict.fromkeys(tool.group for tool in tools if tool.group is not None and not tool.group.family)
    families = [tool for tool in tools if tool.group is not None and tool.group.family]
    by_name = (_load_tools(tuple(groups), tools),) if groups else ()
    by_words = (find_tools(families),) if families else ()
    return (*tools, *by_name, *by_words)


def offered_tools(tools: Sequence[Tool], loaded: Sequence[str]) -> tuple[Tool, ...]:
    """Return the tools that a request offers: those of loaded groups last, so that what was sent before stays first."""
    always = (tool for tool in tools if tool.group is None)
    return (*always, *(tool for name in loaded for tool in tools if tool.group is not None and tool.group.name == name))


def group_names(tools: Iterable[Tool]) -> Mapping[str, str]:
    """Return the name of each grouped tool's group, by the name of the tool."""
    return {tool.name: tool.group.name for tool in tools if tool.group is not None}


def loaded_groups(messages: Iterable[Message], earlier: Iterable[str], groups: Mapping[str, str]) -> tuple[str, ...]:
    """Return the groups that a conversation has loaded, in that order; `earlier` are those before its messages.

    A group is also loaded by a call of one of its tools: a model may know them from elsewhere. What a search found is
    read from its result: later the same words may find other tools.
    """
    known = frozenset(groups.values())
    asked = (*earlier, *_asked(messages, groups))
    return tuple(dict.fromkeys(name for name in asked if name in known))


def _asked(messages: Iterable[Message], groups: Mapping[str, str]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, UserMessage):
            for part in message.parts:
                if isinstance(part, ToolResult) and part.name == FIND_TOOLS and not part.failed:
                    yield from found_names(part.content)
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            if call.name == LOAD_TOOLS:
                yield str(call.args.get("group", ""))
            elif call.name in groups:
                yield groups[call.name]


def _load_tools(groups: Sequence[ToolGroup], tools: Sequence[Tool]) -> Tool:
    async def run(args: Mapping[str, Any]) -> ToolOutput:
        names = [tool.name for tool in tools if tool.group is not None and tool.group.name == args["group"]]
        return ToolOutput(f"From your next message on, you have: {', '.join(names)}.")

    listed = "; ".join(f"`{group.name}`: {group.about}" for group in groups)
    return Tool(
        name=LOAD_TOOLS,
        description=f"Get more tools, a group at a time. {listed}.",
        schema=object_schema({"group": {"type": "string", "enum": [group.name for group in groups]}}),
        category="memory",
        run=run,
        read_only=True,
    )
