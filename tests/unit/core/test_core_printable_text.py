import pytest

from scaffold.core.printable_text import join_limited, printable, utf8_safe


@pytest.mark.parametrize(
    ("text", "carried"), [("plain, Grüße 🦊", "plain, Grüße 🦊"), ("caf\udce9", "caf\\udce9"), ("", "")]
)
def test_what_utf_8_cannot_carry_is_written_out_and_the_rest_stays(text, carried):
    assert utf8_safe(text) == carried


@pytest.mark.parametrize(
    ("names", "told"), [((), ""), (("a",), "a"), (("a", "b"), "a, b"), (("a", "b", "c", "d"), "a, b and 2 more")]
)
def test_of_many_names_a_few_are_told_and_how_many_more_there_are(names, told):
    assert join_limited(names, 2) == told


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\tGrüße 🦊\n", "plain\tGrüße 🦊\n"),
        ("\x1b[31mred\x00", "\\x1b[31mred\\x00"),
        ("ab\u202ecd\u200b", "ab\\x202ecd\\x200b"),
        ("\udce9", "?"),
    ],
)
def test_control_reordering_and_invisible_characters_are_shown_as_escapes(text, shown):
    assert printable(text) == shown
