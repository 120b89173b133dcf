"""Lists of tools that break the protocol, by real servers."""

from integration.extensions.test_extensions_mcp import call, command, pool_of
from support.mcp_servers import ADD, place_server


async def test_a_list_that_breaks_the_protocol_is_said_in_one_line(tmp_path):
    """RA-15: where it does, and what is expected there."""
    async with pool_of(tmp_path, s=command(place_server(tmp_path, "s", tools="'none'"))) as (pool, told):
        assert await pool.tools() == ()
    (line,) = told
    assert "tools: " in line


WRONG = {
    "array": {"inputSchema": {"type": "array"}},
    "missing": {"inputSchema": None},
    "list": {"inputSchema": {"type": "object", "properties": []}},
    "text": {"inputSchema": "object"},
    "answer": {"outputSchema": {"type": "array"}},
    "described": {"description": 7},
}


async def test_a_tool_that_breaks_the_protocol_costs_itself_alone(tmp_path):
    """RA-15: whatever is wrong with it; the others of its server work, and a line says each."""
    tools = [None, *({**ADD, "name": name, **wrong} for name, wrong in WRONG.items()), {**ADD, "name": 7}, ADD]
    async with pool_of(tmp_path, s=command(place_server(tmp_path, "s", tools=tools))) as (pool, told):
        assert [tool.called for tool in await pool.tools()] == ["mcp_s_add"]
        assert (await call(pool)).content == "sum 2"
    left = [line.removeprefix("MCP server s: its tool ").split(" is left out: ")[0] for line in told]
    assert sorted(left) == sorted([*WRONG, "number 1", "number 8"])
