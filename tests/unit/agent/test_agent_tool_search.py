"""Tools that are too many to be listed: found by words, and loaded by what the conversation says was found."""

from msgspec import structs

from scaffold.agent.deferred_tools import FIND_TOOLS, group_names, loaded_groups, offered_tools, ranked, with_load_tools
from scaffold.agent.skills import kept_tools
from scaffold.core.conversation import AssistantMessage, ToolCall, ToolResult, UserMessage
from scaffold.core.extension_set import Role
from scaffold.core.tool import Tool, ToolGroup, ToolOutput


async def _nothing(args):
    return ToolOutput("")


def tool(name, about, server="git"):
    group = ToolGroup(f"mcp_{server}_{name}", name, family=f"MCP server {server}")
    return Tool(
        name=group.name,
        description=about,
        schema={"type": "object", "properties": {}},
        category="mcp",
        run=_nothing,
        group=group,
    )


TOOLS = [
    tool("listBranches", "List the branches of a repository."),
    tool("create_issue", "Open an issue in the tracker.", "tracker"),
    tool("close_issues", "Close issues.", "tracker"),
]


def names(tools):
    return [each.name.rpartition("_")[2] for each in tools]


def test_words_of_the_name_count_more_than_those_of_the_description():
    """RA-3: the start of a word is enough; what matches nothing is not found."""
    assert names(ranked(TOOLS, "branch"))[:1] == ["listBranches"]
    assert names(ranked(TOOLS, "close an issue"))[0] == "issues"
    assert ranked(TOOLS, "weather ?!") == []


async def test_what_a_search_found_is_offered_behind_the_others_from_then_on():
    """RA-3: the tools before it stay the same bytes; an unknown name in a result loads nothing."""
    tools = with_load_tools(TOOLS)
    assert [each.name for each in offered_tools(tools, ())] == [FIND_TOOLS]
    found = await tools[-1].run({"words": "issue"})
    assert "mcp_tracker_create_issue" in found.content
    asked = AssistantMessage((ToolCall("1", FIND_TOOLS, {"words": "issue"}),))
    answered = UserMessage((ToolResult("1", FIND_TOOLS, f"{found.content}\n- mcp_other_tool: x"),))
    loaded = loaded_groups((asked, answered), (), group_names(tools))
    offered = [each.name for each in offered_tools(tools, loaded)]
    assert offered[0] == FIND_TOOLS
    assert sorted(offered[1:]) == ["mcp_tracker_close_issues", "mcp_tracker_create_issue"]


def test_the_description_of_the_search_is_bounded():
    """RA-3: 20 servers with 50 tools each fit into 3 kB."""
    many = [tool(f"thing_{at}", "Does a thing.", f"server-{number}") for number in range(20) for at in range(50)]
    described = with_load_tools(many)[-1].description
    assert len(described) < 3_500
    assert all(f"MCP server server-{number} (50):" in described for number in range(20))


def test_a_role_has_the_tools_that_it_names_from_the_start_but_no_families():
    """RA-3: whoever names `append_file` wants it, and a group of it alone would cost more."""
    tools = [structs.replace(TOOLS[0], name="append_file", group=ToolGroup("files")), *TOOLS]
    role = Role(name="a", description="", prompt="", source="", tools=tuple(tool.name for tool in tools))
    kept = kept_tools(tools, role)
    assert [each.group for each in kept] == [None, *(each.group for each in TOOLS)]
    assert kept_tools(tools, None) == tuple(tools)
