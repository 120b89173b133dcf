"""Tools that are offered only once the conversation has asked for them: what is loaded follows from it alone."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from scaffold.core.conversation import AssistantMessage, Message, ToolResult, UserMessage
from scaffold.core.printable_text import join_limited, short_line
from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.tools.arguments import object_schema

FIND_TOOLS = "find_tools"
MAX_FOUND = 8  # tools that one search loads
MAX_LISTED_CHARS = 3_000  # for all families in the description, which goes with each request
MIN_FAMILY_CHARS = 60
MAX_ABOUT_CHARS = 160
NAME_WEIGHT = 3  # how much more a word in a tool's name counts than one in its description
_FOUND = re.compile(r"^- ([A-Za-z0-9_-]+):", re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
LOAD_TOOLS = "load_tools"
MAX_SMALL = 8
"""The tools that a small model is offered at the start, those that load others included."""
FIRST_TOOLS = ("read_file", "write_file", "edit", "shell", "list_dir", "search_files", "glob")
"""Those that are kept first."""
MAX_NAMED = 3  # tools of a group that are named before it is loaded


def for_small_model(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools with so many in groups, one for each category, that a small model is offered few of them.

    Of each description it gets the first sentence, and of optional arguments only name and type.
    """
    plain = sorted(
        (tool.name for tool in tools if tool.group is None and not tool.for_trained_models),
        key=lambda name: FIRST_TOOLS.index(name) if name in FIRST_TOOLS else len(FIRST_TOOLS),
    )
    loaders = {bool(tool.group.family) for tool in tools if tool.group is not None}
    room = MAX_SMALL - len(loaders)
    kept = plain if len(plain) <= room else plain[: MAX_SMALL - len(loaders | {False})]
    return tuple(
        msgspec.structs.replace(
            tool,
            group=tool.group or (None if tool.name in kept else ToolGroup(tool.category)),
            description=tool.description.partition(". ")[0],
            schema=_short_schema(tool.schema),
        )
        for tool in tools
    )


def _short_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    needed = schema.get("required", ())
    arguments = {
        name: {key: value for key, value in each.items() if key != "description"}
        if name not in needed and isinstance(each, Mapping)
        else each
        for name, each in schema.get("properties", {}).items()
    }
    return {**schema, "properties": arguments}


def with_load_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools, and those that load groups of them if there are any: by name, and by words."""
    named = [tool for tool in tools if tool.group is not None and not tool.group.family and not tool.for_trained_models]
    families = [tool for tool in tools if tool.group is not None and tool.group.family]
    by_name = (_load_tools(named),) if named else ()
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
    asked = (*earlier, *_requested_groups(messages, groups))
    return tuple(dict.fromkeys(name for name in asked if name in known))


def _requested_groups(messages: Iterable[Message], groups: Mapping[str, str]) -> Iterator[str]:
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


def _load_tools(tools: Sequence[Tool]) -> Tool:
    groups: dict[ToolGroup, list[str]] = {}
    for tool in tools:
        if tool.group is not None:
            groups.setdefault(tool.group, []).append(tool.name)
    names = {group.name: members for group, members in groups.items()}

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        return ToolOutput(f"From your next message on, you have: {', '.join(names[args['group']])}.")

    listed = (f"`{group.name}`: {group.about or join_limited(each, MAX_NAMED)}" for group, each in groups.items())
    return Tool(
        name=LOAD_TOOLS,
        description=f"Get more tools, a group at a time. {'; '.join(listed)}.",
        schema=object_schema({"group": {"type": "string", "enum": list(names)}}),
        category="memory",
        run=run,
        read_only=True,
    )


def find_tools(tools: Sequence[Tool]) -> Tool:
    """Return the tool that finds and loads some of these grouped tools."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        found = ranked(tools, args["words"])[:MAX_FOUND]
        if not found:
            return ToolOutput(f"No tool matches. {_family_lines(tools)}", failed=True)
        lines = (f"- {tool.name}: {short_line(tool.description, MAX_ABOUT_CHARS)}" for tool in found)
        return ToolOutput("\n".join(["From your next message on, you have:", *lines]))

    return Tool(
        name=FIND_TOOLS,
        description=f"Find more tools by words of their names and descriptions, and get the best {MAX_FOUND}. "
        f"{_family_lines(tools)}",
        schema=object_schema({"words": {"type": "string"}}),
        category="memory",
        run=run,
        read_only=True,
    )


def found_names(result: str) -> Iterator[str]:
    """Yield the names of the tools that a result of the search says the agent has."""
    yield from _FOUND.findall(result)


def ranked(tools: Sequence[Tool], words: str) -> list[Tool]:
    """Return the tools that match at least one of the words, the best first; in their order where equally good."""
    asked = set(_split_words(words))
    scores = []
    for tool in tools:
        name, about = set(_split_words(tool.name)), set(_split_words(tool.description))
        score = sum(NAME_WEIGHT * _has_word_form(word, name) + _has_word_form(word, about) for word in asked)
        scores.append((score, tool))
    return [tool for score, tool in sorted(scores, key=lambda pair: -pair[0]) if score > 0]


def _has_word_form(word: str, words: set[str]) -> bool:
    # A longer form of the word, such as its plural, counts as well.
    return word in words or (len(word) > 2 and any(each.startswith(word) for each in words))


def _split_words(text: str) -> list[str]:
    return _WORD.findall(_HUMP.sub(" ", text).lower())


def _family_lines(tools: Sequence[Tool]) -> str:
    # Only as many names as there is room for: the description goes with each request.
    families: dict[str, list[Tool]] = {}
    for tool in tools:
        if tool.group is not None:
            families.setdefault(tool.group.family, []).append(tool)
    room = max(MIN_FAMILY_CHARS, MAX_LISTED_CHARS // max(1, len(families)))
    lines = (
        f"{name} ({len(members)}): {', '.join(tool.group.about for tool in members if tool.group)}"
        for name, members in families.items()
    )
    return " ".join(short_line(line, room) + "." for line in lines)
