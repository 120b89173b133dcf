import pytest

from scaffold.core.printable_text import format_usd


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (0.0, "$0.00"),
        (0.0015, "$0.0015"),
        (0.0000001, "$0.00000010"),
        (0.05, "$0.050"),
        (0.25, "$0.25"),
        (5.994, "$5.99"),
        (1234.5, "$1,234.50"),
    ],
)
def test_a_small_amount_has_enough_digits_to_be_visible(usd, shown):
    assert format_usd(usd) == shown
