"""Bounded output."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from scaffold.host.process.pipes import HeadTailBuffer


def excerpt(pieces, limit_bytes):
    taken = HeadTailBuffer(limit_bytes)
    for piece in pieces:
        taken.add(piece)
    return taken


def test_output_above_the_limit_keeps_head_and_tail_and_says_what_is_missing():
    taken = excerpt([b"0123456789" * 10], limit_bytes=10)
    assert taken.content() == b"01234\n... 90 bytes omitted ...\n56789"
    assert taken.left_out == 90


@given(st.lists(st.binary(max_size=30)), st.integers(2, 100))
def test_head_and_tail_do_not_depend_on_chunking(pieces, limit_bytes):
    whole = b"".join(pieces)
    taken = excerpt(pieces, limit_bytes)
    assert taken.content() == excerpt([whole], limit_bytes).content()
    assert taken.sha256 == hashlib.sha256(whole).hexdigest()
    if len(whole) <= limit_bytes:
        assert taken.content() == whole
        assert taken.left_out == 0
    else:
        assert taken.content().startswith(whole[: limit_bytes // 2])
        assert taken.content().endswith(whole[limit_bytes // 2 - limit_bytes :])
        assert taken.left_out == len(whole) - limit_bytes


def test_memory_stays_bounded_for_any_output():
    taken = HeadTailBuffer(1000)
    for _ in range(1000):
        taken.add(b"x" * 10_000)
        assert len(taken._head) + len(taken._tail) < 100_000
