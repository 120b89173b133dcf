from scaffold.core.conversation import ToolCall
from scaffold.tools.read_cache import repeated_calls


def call(number, name, **args):
    return ToolCall(f"call-{number}", name, args)


def test_a_repeated_call_names_the_earlier_one():
    """RA-19."""
    calls = [
        call(0, "read_file", path="a", start_line=1),
        call(1, "read_file", path="b"),
        call(2, "read_file", start_line=1, path="a"),
        call(3, "file_info", path="b"),
        call(4, "read_file", path="a", start_line=1),
        call(5, "read_file", path="a", start_line="1"),
    ]
    assert repeated_calls(calls) == {2: 0, 4: 0}


def test_calls_that_cannot_be_encoded_are_compared_too():
    assert repeated_calls([call(0, "read_file", path="\ud800"), call(1, "read_file", path="\ud800")]) == {1: 0}
    assert repeated_calls([]) == {}
