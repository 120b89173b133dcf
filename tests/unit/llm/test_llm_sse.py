from scaffold.core.errors import ModelError
from scaffold.llm.wire.codec import ServerSentEvent
from scaffold.llm.wire.sse import SseDecoder
from support.errors import error_of


def read(*chunks: bytes, longest: int = 100) -> list[ServerSentEvent]:
    events = SseDecoder(longest=longest)
    return [event for chunk in chunks for event in events.feed(chunk)]


def test_streams_are_parsed_as_the_standard_says():
    """RA-2."""
    expected = {
        b"data: a\n\n": [ServerSentEvent("", "a")],
        b"event: tick\ndata: a\n\n": [ServerSentEvent("tick", "a")],
        b"data: a\nevent: tick\n\n": [ServerSentEvent("tick", "a")],
        b"data: a\r\n\r\ndata: b\r\rdata: c\n\n": [
            ServerSentEvent("", "a"),
            ServerSentEvent("", "b"),
            ServerSentEvent("", "c"),
        ],
        b"data: a\ndata: b\n\n": [ServerSentEvent("", "a\nb")],
        b"data:a\n\n": [ServerSentEvent("", "a")],
        b"data:  a \n\n": [ServerSentEvent("", " a ")],
        b"data: a: b\n\n": [ServerSentEvent("", "a: b")],
        b"data\n\n": [ServerSentEvent("", "")],
        b"data:\ndata\n\n": [ServerSentEvent("", "\n")],
        b": a comment\ndata: a\n:\n\n": [ServerSentEvent("", "a")],
        b"id: 1\nretry: 5\nnonsense\ndatum: x\n data: y\ndata: a\n\n": [ServerSentEvent("", "a")],
        b"event: lost\n\ndata: a\n\n": [ServerSentEvent("", "a")],
        b"\n\n\ndata: a\n\n\n\n": [ServerSentEvent("", "a")],
        b"\xef\xbb\xbfdata: a\n\n": [ServerSentEvent("", "a")],
        b"data: a\n\n\xef\xbb\xbfdata: b\n\n": [ServerSentEvent("", "a")],
        "data: grün 🦊\n\n".encode(): [ServerSentEvent("", "grün 🦊")],
        b"data: a\0b\n\n": [ServerSentEvent("", "a\0b")],
        b"data: a\x0bb\x85\n\n".replace(b"\x85", "\x85".encode()): [ServerSentEvent("", "a\x0bb\x85")],
    }
    assert {stream: read(stream) for stream in expected} == expected


def test_an_event_without_its_blank_line_is_never_returned():
    """RA-2, trap (f): an event cut off by a dropped stream must not look complete."""
    assert read(b"data: a\n\ndata: b\n") == [ServerSentEvent("", "a")]
    assert read(b"data: a\n\ndata: b\n", b"\n") == [ServerSentEvent("", "a"), ServerSentEvent("", "b")]


def test_events_are_returned_as_soon_as_their_bytes_arrive():
    events = SseDecoder()
    assert events.feed(b"data: a\r") == []
    assert events.feed(b"\n\r") == [ServerSentEvent("", "a")]
    assert events.feed(b"\ndata: b\n\n") == [ServerSentEvent("", "b")]


def test_invalid_utf_8_is_an_error_and_not_replaced():
    """RA-21."""
    for chunks in [[b"data: \xff\n\n"], [b"event: \xff\ndata: a\n\n"], [b"data: \xc3", b"\n\n"]]:
        error = error_of(ModelError, read, *chunks)
        assert error is not None, chunks
        assert error.transient, chunks


def test_an_endless_event_is_an_error_before_it_fills_the_memory():
    """RA-21."""
    for chunks in [
        [b"data: " + b"x" * 100 + b"\n\n"],
        [b"data: " + b"x" * 50, b"x" * 50],
        [b"data: " + b"x" * 50 + b"\n"] * 3,
        [b"x" * 60] * 2,
        [b":" + b"x" * 100 + b"\n"],
    ]:
        error = error_of(ModelError, read, *chunks)
        assert error is not None, chunks
        assert ("more than 100 bytes" in error.what, error.transient) == (True, True), chunks


def test_a_stream_may_be_arbitrarily_long():
    assert len(read(*[b": still here\ndata: " + b"x" * 50 + b"\n\n"] * 100)) == 100
