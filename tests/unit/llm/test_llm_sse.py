import pytest

from scaffold.core.errors import ModelTrouble
from scaffold.llm.codec import Event
from scaffold.llm.sse import Events


def read(*chunks: bytes, longest: int = 100) -> list[Event]:
    events = Events(longest=longest)
    return [event for chunk in chunks for event in events.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [Event("", "a")]),
        (b"event: tick\ndata: a\n\n", [Event("tick", "a")]),
        (b"data: a\nevent: tick\n\n", [Event("tick", "a")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [Event("", "a"), Event("", "b"), Event("", "c")]),
        (b"data: a\ndata: b\n\n", [Event("", "a\nb")]),
        (b"data:a\n\n", [Event("", "a")]),
        (b"data:  a \n\n", [Event("", " a ")]),
        (b"data: a: b\n\n", [Event("", "a: b")]),
        (b"data\n\n", [Event("", "")]),
        (b"data:\ndata\n\n", [Event("", "\n")]),
        (b": a comment\ndata: a\n:\n\n", [Event("", "a")]),
        (b"id: 1\nretry: 5\nnonsense\ndatum: x\n data: y\ndata: a\n\n", [Event("", "a")]),
        (b"event: lost\n\ndata: a\n\n", [Event("", "a")]),
        (b"\n\n\ndata: a\n\n\n\n", [Event("", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event("", "a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Event("", "a")]),
        ("data: grün 🦊\n\n".encode(), [Event("", "grün 🦊")]),
        (b"data: a\0b\n\n", [Event("", "a\0b")]),
        (b"data: a\x0bb\x85\n\n".replace(b"\x85", "\x85".encode()), [Event("", "a\x0bb\x85")]),
    ],
)
def test_streams_mean_what_the_standard_says(stream, events):
    """RA-2."""
    assert read(stream) == events


def test_an_event_without_its_blank_line_is_never_given():
    """RA-2, trap (f): what a dropped stream cuts off must not be taken for whole."""
    assert read(b"data: a\n\ndata: b\n") == [Event("", "a")]
    assert read(b"data: a\n\ndata: b\n", b"\n") == [Event("", "a"), Event("", "b")]


def test_events_come_as_soon_as_their_bytes_do():
    events = Events()
    assert events.feed(b"data: a\r") == []
    assert events.feed(b"\n\r") == [Event("", "a")]
    assert events.feed(b"\ndata: b\n\n") == [Event("", "b")]


def test_a_line_end_cut_in_two_is_one_line_end():
    assert read(b"data: a\r", b"\ndata: b\r", b"", b"\n\r", b"\n") == [Event("", "a\nb")]


@pytest.mark.parametrize("chunks", [[b"data: \xff\n\n"], [b"event: \xff\ndata: a\n\n"], [b"data: \xc3", b"\n\n"]])
def test_bytes_that_are_not_utf_8_are_a_trouble_and_not_replaced(chunks):
    """RA-21."""
    with pytest.raises(ModelTrouble, match="not UTF-8") as caught:
        read(*chunks)
    assert caught.value.transient


@pytest.mark.parametrize(
    "chunks",
    [
        [b"data: " + b"x" * 100 + b"\n\n"],
        [b"data: " + b"x" * 50, b"x" * 50],
        [b"data: " + b"x" * 50 + b"\n"] * 3,
        [b"x" * 60] * 2,
        [b":" + b"x" * 100 + b"\n"],
    ],
)
def test_an_event_that_never_ends_is_a_trouble_before_it_fills_the_memory(chunks):
    """RA-21."""
    with pytest.raises(ModelTrouble, match="more than 100 bytes") as caught:
        read(*chunks)
    assert caught.value.transient


def test_a_stream_may_be_as_long_as_it_likes():
    assert len(read(*[b": still here\ndata: " + b"x" * 50 + b"\n\n"] * 100)) == 100
