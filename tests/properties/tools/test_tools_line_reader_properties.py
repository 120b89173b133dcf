"""Lines of a text read in chunks are those of the whole text."""

import tempfile

from hypothesis import given
from hypothesis import strategies as st

from scaffold.tools.content.text_encoding import BOM_ENCODINGS, LATIN_1, UTF_8, split_lines
from scaffold.tools.file.line_reader import batched_lines, decode_chunks, read_range
from scaffold.tools.workspace import Deadline

PIECES = st.lists(st.text(alphabet="ab\n\rö", max_size=8), max_size=12)
LIMIT = st.integers(1, 6)


@given(PIECES, LIMIT)
def test_blocks_are_the_lines_of_the_text_cut_to_their_limit(texts, limit):
    found = [line for block in batched_lines(iter(texts), limit) for line in block]
    assert found == [line[:limit] for line in split_lines("".join(texts))]


@given(PIECES, LIMIT, st.integers(1, 15), st.integers(0, 15))
def test_a_passage_is_a_range_of_lines_with_the_total(texts, limit, first, last):
    lines = split_lines("".join(texts))
    found = read_range(iter(texts), first, last, limit)
    assert found.total == len(lines)
    assert [(line.text, line.more) for line in found.lines] == [
        (line[:limit], max(0, len(line) - limit)) for line in lines[first - 1 : last]
    ]


@given(st.text(alphabet="ab\nöü"), st.sampled_from([UTF_8, LATIN_1, *BOM_ENCODINGS]))
def test_a_file_is_decoded_without_its_byte_order_mark(text, encoding):
    with tempfile.TemporaryFile() as file:
        file.write(encoding.bom + text.encode(encoding.python_name))
        file.flush()
        assert "".join(decode_chunks(file.fileno(), encoding, Deadline(60))) == text


def test_nothing_is_read_after_the_timeout():
    deadline = Deadline(60)
    with tempfile.TemporaryFile() as file:
        file.write(b"text")
        file.flush()
        assert list(decode_chunks(file.fileno(), UTF_8, deadline)) == ["text", ""]
        deadline.end()
        assert list(decode_chunks(file.fileno(), UTF_8, deadline)) == []
    assert Deadline(0).expired
