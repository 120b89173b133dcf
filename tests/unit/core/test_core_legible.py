import pytest

from scaffold.core.legible import few, legible


@pytest.mark.parametrize(
    ("text", "carried"), [("plain, Grüße 🦊", "plain, Grüße 🦊"), ("caf\udce9", "caf\\udce9"), ("", "")]
)
def test_what_utf_8_cannot_carry_is_written_out_and_the_rest_stays(text, carried):
    assert legible(text) == carried


@pytest.mark.parametrize(
    ("names", "told"), [((), ""), (("a",), "a"), (("a", "b"), "a, b"), (("a", "b", "c", "d"), "a, b and 2 more")]
)
def test_of_many_names_a_few_are_told_and_how_many_more_there_are(names, told):
    assert few(names, 2) == told
