"""Replies that are not worth waiting for."""

import pytest

from scaffold.core.conversation import TextDelta, ToolCallDelta
from scaffold.core.errors import ModelError
from scaffold.llm.deltas import ENDLESS_CHARS, EndlessReplyGuard

LIMIT = 20_000
"""Tokens."""


def read(pieces):
    """Return the number of pieces that were passed on, and the error that ended them."""
    heard = []
    guard = EndlessReplyGuard("m", LIMIT, heard.append, lambda tokens: None)
    try:
        for piece in pieces:
            guard(piece)
    except ModelError as error:
        return len(heard), error.what
    return len(heard), ""


@pytest.mark.parametrize("piece", ["He lived for his family. ", "0, ", "\n", "a" * 399 + "b"])
@pytest.mark.parametrize("size", [1, 7, 5_000])
def test_a_periodic_reply_is_ended_however_it_is_cut(piece, size):
    """RA-10."""
    text = piece * (3 * ENDLESS_CHARS // len(piece))
    heard, why = read(TextDelta(text[at : at + size]) for at in range(0, len(text), size))
    assert 'repeated "' in why
    assert heard * size < 2 * ENDLESS_CHARS
    assert "repeated" in read([ToolCallDelta(0, "write_file", text)] * 2)[1]


def test_a_long_reply_goes_on_until_its_limit():
    """RA-10: rows that differ are no repetition; the limit ends them."""
    rows = [TextDelta(f"{at}, {at * at % 97}, 0, 0, 0\n") for at in range(10_000)]
    heard, why = read(rows)
    assert "went on beyond its limit" in why
    assert sum(len(row.text) for row in rows[: heard - 1]) <= LIMIT * 4
    assert read(rows[: heard - 1]) == (heard - 1, "")


def test_what_ends_by_itself_may_repeat_a_little():
    assert read([TextDelta("0, " * (ENDLESS_CHARS // 3 - 1))]) == (1, "")
