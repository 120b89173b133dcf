"""Frames of plugins: whatever arrives, in whatever pieces, is a message or ends the conversation."""

import contextlib
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.core.tool import Tool
from scaffold.extensions.plugins.manifest import read_manifest
from scaffold.extensions.plugins.plugin import Notice, read_frame
from scaffold.extensions.program_output import LineReader, ProtocolBroken
from scaffold.extensions.tool_schema import tool_schema
from scaffold.tools.arguments import argument_problems, read_arguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(
    [
        *("type", "properties", "items", "required", "enum", "minimum", "description", "object", "array", "string"),
        "integer",
    ]
)
SCHEMAS = st.recursive(
    JSON | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=5),
    max_leaves=20,
)
FRAMES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers(0, 3) | JSON,
        "result": JSON,
        "error": JSON,
        "method": st.text(max_size=4) | JSON,
    },
)


@given(st.lists(st.binary(max_size=40) | FRAMES.map(lambda each: json.dumps(each).encode() + b"\n"), max_size=8))
def test_any_bytes_are_messages_or_an_end(pieces):
    """RA-16: nothing else is raised, however the bytes are cut."""
    reader = LineReader(limit=64, most=64)
    with contextlib.suppress(ProtocolBroken):
        for piece in pieces:
            for line in reader.feed(piece):
                assert len(line) <= 64
                message = read_frame(line)
                assert isinstance(message, Notice) or isinstance(message.id, int)


@given(st.lists(st.text(alphabet="ab {}", max_size=9), max_size=6), st.data())
def test_lines_are_the_same_however_they_are_cut(lines, data):
    """RA-16: half a frame waits for its other half."""
    stream = "".join(f"{line}\n" for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    reader, found = LineReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == [line.encode() for line in lines if line.strip()]


@settings(max_examples=40)
@given(JSON | FRAMES | st.binary(max_size=40))
def test_any_manifest_is_read_or_refused_with_a_reason(given_manifest):
    """RA-16: a manifest is valid, or a ValueError says why not."""
    data = given_manifest if isinstance(given_manifest, bytes) else json.dumps(given_manifest).encode()
    with contextlib.suppress(ValueError):
        assert read_manifest(data).name


@given(st.dictionaries(WORDS, SCHEMAS, max_size=5), st.dictionaries(st.text(max_size=4), JSON, max_size=4))
def test_any_schema_that_is_taken_can_check_any_arguments(schema, args):
    """RA-16: a schema of a plugin cannot break the check of arguments."""
    with contextlib.suppress(ValueError):
        tool = Tool(name="t", description="", schema=tool_schema(schema), category="plugin", run=None)
        problem = argument_problems(tool, read_arguments(tool, args))
        assert problem is None or problem.strip(), "a refusal gives its reason"
