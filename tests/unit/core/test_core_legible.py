import pytest

from scaffold.core.legible import legible


@pytest.mark.parametrize(
    ("text", "carried"), [("plain, Grüße 🦊", "plain, Grüße 🦊"), ("caf\udce9", "caf\\udce9"), ("", "")]
)
def test_what_utf_8_cannot_carry_is_written_out_and_the_rest_stays(text, carried):
    assert legible(text) == carried
