import pytest

from scaffold.core.tool import MAX_NESTING, is_nested_too_deeply


def nested(levels, kind):
    """Return arguments of that many levels; each level is a list, a tuple or an object."""
    value = "x"
    for _ in range(levels - 1):
        value = {"a": value, "b": 1} if kind is dict else kind([1, value])
    return {"data": value}


@pytest.mark.parametrize("kind", [dict, list, tuple])
def test_arguments_may_have_a_limited_number_of_levels(kind):
    assert not is_nested_too_deeply({})
    assert not is_nested_too_deeply(nested(1, kind))
    assert not is_nested_too_deeply(nested(MAX_NESTING, kind))
    assert is_nested_too_deeply(nested(MAX_NESTING + 1, kind))
    assert is_nested_too_deeply(nested(100_000, kind))


def test_wide_arguments_are_not_deep():
    assert not is_nested_too_deeply({"rows": [[number, {"text": "[[[["}] for number in range(10_000)]})
