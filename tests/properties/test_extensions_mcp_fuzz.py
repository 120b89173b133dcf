"""What MCP servers write and define: the same lines in any pieces, bounded, and tools that can be called or none."""

import contextlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.core.tool import Tool, ToolOutput
from scaffold.extensions.mcp.offers import Definition, called_name, offered
from scaffold.extensions.mcp.stdio import MAX_PASSED_BYTES
from scaffold.extensions.program_output import EDGE_BYTES, LineReader, ProtocolBroken, TooLong
from scaffold.tools.arguments import argument_problems, read_arguments

LIMIT, MOST = 500, 2_000
LINES = st.lists(
    st.one_of(
        st.binary(max_size=50).filter(lambda line: b"\n" not in line),
        st.integers(0, 9_999).map(lambda number: b'{"jsonrpc":"2.0","id":%d,"result":"%s"}' % (number, b"x" * 600)),
        st.integers(0, 9_999).map(lambda number: b'{"result":{"id":1,"a":"%s"},"id":%d}' % (b"x" * 600, number)),
    ),
    max_size=8,
)


def read(data, cuts):
    reader, lines = LineReader(LIMIT, MOST), []
    ends = sorted({*(cut % (len(data) + 1) for cut in cuts), 0, len(data)})
    for start, end in pairwise(ends):
        lines += reader.feed(data[start:end])
    return lines


@given(LINES, st.lists(st.integers(0, 10_000), max_size=20))
def test_lines_are_the_same_however_they_arrive(lines, cuts):
    """RA-15: one that is too long is the number of the request that it answers, from its start or its end."""
    data = b"".join(line + b"\n" for line in lines)
    expected = [
        TooLong(int(line.split(b'"id":')[1 if line.startswith(b'{"j') else 2].rstrip(b"}").split(b",")[0]))
        if len(line) > LIMIT
        else line
        for line in lines
        if line.strip()
    ]
    assert read(data, cuts) == expected


@given(st.binary(min_size=LIMIT + 1, max_size=3_000).filter(lambda data: b'"id"' not in data))
def test_a_long_line_without_a_number_ends_the_server(data):
    """RA-15: the call that it answers is not known."""
    with pytest.raises(ProtocolBroken):
        read(data.replace(b"\n", b" ") + b"\n", range(0, 3_000, 97))


def test_no_more_than_the_edges_of_a_long_line_is_held():
    """RA-15."""
    reader = LineReader(most=MAX_PASSED_BYTES)
    for _ in range(50):
        assert list(reader.feed(b"x" * 2**20)) == []
        assert len(reader._held) <= 10 * 2**20
    assert len(reader._held) == 2 * EDGE_BYTES


WORDS = [
    *("type", "properties", "items", "required", "enum", "minimum", "anyOf", "$ref", "$defs", "object", "array"),
    "#/$defs",
]
NODES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner),
    max_leaves=25,
)


async def _nothing(_args):
    return ToolOutput("")


@given(st.dictionaries(st.sampled_from(WORDS), NODES), NODES, st.text(), st.text())
def test_whatever_a_server_defines_is_a_tool_or_left_out(schema, value, name, about):
    """RA-15: a call of it is checked like any other, with any arguments, and its name is valid."""
    called = called_name("server", name)
    assert len(called) <= 64
    assert called.replace("_", "").replace("-", "").isalnum()
    with contextlib.suppress(ValueError):
        usable = offered("server", Definition(name, about, {**schema, "type": "object"}))
        tool = Tool(name=called, description=usable.description, schema=usable.schema, category="mcp", run=_nothing)
        args = read_arguments(tool, value if isinstance(value, dict) else {"a": value})
        assert isinstance(argument_problems(tool, args), str | None)
