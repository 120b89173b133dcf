"""Lines of peers that speak JSON-RPC with us: whatever they are, each is a message or has its error."""

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from scaffold.extensions.protocol_lines import LineTransport, NoMessage, read_message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON)


class Written:
    """A writer that keeps what is written."""

    def __init__(self):
        self.lines = []

    def is_closing(self):
        return False

    def write(self, data):
        self.lines.append(json.loads(data))


@given(st.binary() | MEMBERS.map(lambda value: json.dumps(value).encode()))
def test_a_line_is_a_message_or_has_an_error(line):
    """BX-19: what the SDK gets has a method that is text, or the id of one of our requests."""
    found = read_message(line)
    if isinstance(found, NoMessage):
        assert found.code in {-32700, -32600}
    elif found:
        assert isinstance(found.get("method", ""), str)
        assert isinstance(found.get("id"), str | int | None)
        assert "method" in found or "id" in found


@given(st.lists(MEMBERS.map(lambda value: json.dumps(value).encode()), max_size=5), st.integers(1, 40))
def test_lines_are_the_same_however_they_arrive(lines, size):
    """BX-19: pieces of any size give the same messages and errors as whole lines."""

    async def received():
        reader, writer = asyncio.StreamReader(), Written()
        data = b"".join(line + b"\n" for line in lines)
        for start in range(0, len(data), size):
            reader.feed_data(data[start : start + size])
        reader.feed_eof()
        transport, found = LineTransport(reader, writer), []
        while (message := await transport.receive()) is not None:
            found.append(message)
        return found, len(writer.lines)

    read = [read_message(line) for line in lines]
    messages = [each for each in read if each and not isinstance(each, NoMessage)]
    found, errors = asyncio.run(received())
    assert json.dumps(found) == json.dumps(messages)
    assert errors == sum(isinstance(each, NoMessage) for each in read)
