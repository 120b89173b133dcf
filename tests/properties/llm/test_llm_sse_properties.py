from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.core.errors import ModelError
from scaffold.llm.wire.sse import SseDecoder
from support.property_examples import up_to

LINES = st.sampled_from(
    [
        b"data: a",
        b"data",
        b"data:",
        b"event: tick",
        b": comment",
        b"id: 1",
        "data: ü🦊".encode(),
        b"\xef\xbb\xbfdata: b",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b""])
STREAMS = st.lists(st.tuples(LINES, ENDS).map(b"".join), max_size=12).map(b"".join)


def outcome(chunks: list[bytes], longest: int) -> object:
    events = SseDecoder(longest=longest)
    try:
        return [event for chunk in chunks for event in events.feed(chunk)]
    except ModelError as error:
        return error.what


@given(STREAMS | st.binary(max_size=60), st.sampled_from([8, 1000]), st.data())
@settings(max_examples=up_to(300))
def test_events_do_not_depend_on_how_a_stream_is_cut(stream, longest, data):
    """RA-2."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    byte_by_byte = [stream[place : place + 1] for place in range(len(stream))]
    assert outcome(chunks, longest) == outcome([stream], longest) == outcome(byte_by_byte, longest)


@given(
    st.lists(st.tuples(st.sampled_from(["", "tick"]), st.text(st.characters(codec="utf-8", exclude_characters="\r\n"))))
)
def test_written_events_are_read_back(written):
    stream = "".join(f"event:{name}\ndata: {data}\n\n" for name, data in written).encode()
    assert [(event.name, event.data) for event in SseDecoder().feed(stream)] == written
