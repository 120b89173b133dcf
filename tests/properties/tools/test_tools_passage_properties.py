"""Lines of a text that comes in pieces are those of the whole text."""

import tempfile

from hypothesis import given
from hypothesis import strategies as st

from scaffold.tools.passage import blocks, passage, pieces
from scaffold.tools.text import LATIN_1, MARKED, UTF_8, lines_of
from scaffold.tools.workspace import Patience

PIECES = st.lists(st.text(alphabet="ab\n\rö", max_size=8), max_size=12)
LIMIT = st.integers(1, 6)


@given(PIECES, LIMIT)
def test_blocks_are_the_lines_of_the_whole_cut_to_their_limit(texts, limit):
    found = [line for block in blocks(iter(texts), limit) for line in block]
    assert found == [line[:limit] for line in lines_of("".join(texts))]


@given(PIECES, LIMIT, st.integers(1, 15), st.integers(0, 15))
def test_a_passage_is_a_range_of_the_lines_and_counts_them_all(texts, limit, first, last):
    lines = lines_of("".join(texts))
    found = passage(iter(texts), first, last, limit)
    assert found.total == len(lines)
    assert [(line.text, line.more) for line in found.lines] == [
        (line[:limit], max(0, len(line) - limit)) for line in lines[first - 1 : last]
    ]


@given(st.text(alphabet="ab\nöü"), st.sampled_from([UTF_8, LATIN_1, *MARKED]))
def test_a_file_is_read_in_its_encoding_without_its_mark(text, encoding):
    with tempfile.TemporaryFile() as file:
        file.write(encoding.mark + text.encode(encoding.codec))
        file.flush()
        assert "".join(pieces(file.fileno(), encoding, Patience(60))) == text


def test_nothing_is_read_once_the_patience_is_over():
    patience = Patience(60)
    with tempfile.TemporaryFile() as file:
        file.write(b"text")
        file.flush()
        assert list(pieces(file.fileno(), UTF_8, patience)) == ["text", ""]
        patience.end()
        assert list(pieces(file.fileno(), UTF_8, patience)) == []
    assert Patience(0).is_over
