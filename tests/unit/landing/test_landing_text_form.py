"""Which files are merged as text, and how a merge is written."""

import pytest

from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.landing.conflicts.resolution import MAX_BYTES, TextForm, merged_form, read_text, write_text
from support.errors import error_of


def test_a_text_is_written_as_it_was_read():
    """AL-13."""
    for data in (b"", b"a\nb\n", b"a\nb", b"a\r\nb\r\n", b"\xef\xbb\xbfa\n", "grün\n".encode(), b"\xef\xbb\xbfa\r\nb"):
        text, form = read_text(data)
        assert "\r" not in text
        assert text.endswith("\n") or not text
        assert write_text(text, form) == data


def test_what_is_no_plain_text_is_refused():
    """AL-13."""
    rows = [
        (b"a\r\nb\n", "do not all end"),
        (b"a\rb\n", "do not all end"),
        (b"\0", "binary"),
        ("grün".encode("latin-1"), "UTF-8"),
        (b"x" * (MAX_BYTES + 1), "more than 2048 KB"),
    ]
    assert [why for data, why in rows if why not in str(error_of(NotMergeable, read_text, data))] == []


def test_a_form_that_one_side_changes_is_that_of_the_merge():
    """AL-13: e.g. one side writes other line ends, the other adds a line."""
    plain, windows = TextForm(), TextForm(crlf=True)
    assert merged_form(plain, windows, plain) == windows
    assert merged_form(windows, windows, plain) == plain
    assert merged_form(plain, TextForm(mark=True), TextForm(ended=False)) == TextForm(mark=True, ended=False)
    assert merged_form(None, windows, windows) == windows
    with pytest.raises(NotMergeable):
        merged_form(None, windows, plain)
