from scaffold.core.tool import MAX_NESTING, is_nested_too_deeply


def nested(levels, kind):
    """Return arguments of that many levels; each level is a list, a tuple or an object."""
    value = "x"
    for _ in range(levels - 1):
        value = {"a": value, "b": 1} if kind is dict else kind([1, value])
    return {"data": value}


def test_arguments_may_have_a_limited_number_of_levels():
    assert not is_nested_too_deeply({})
    for kind in (dict, list, tuple):
        levels = (1, MAX_NESTING, MAX_NESTING + 1, 100_000)
        assert [is_nested_too_deeply(nested(each, kind)) for each in levels] == [False, False, True, True], kind


def test_wide_arguments_are_not_deep():
    assert not is_nested_too_deeply({"rows": [[number, {"text": "[[[["}] for number in range(10_000)]})
