"""Agents that repeat calls whose answers they know."""

import pytest

from scaffold.agent.repeated_calls import RepeatedExchanges
from scaffold.core.conversation import ToolCall, ToolResult

A, B, C = ("look", "a", "1"), ("look", "b", "2"), ("look", "c", "3")


def looping_tool(*replies):
    """Return what is said of the last reply; each is one (tool, argument, answer) or a list of them, or a new text."""
    exchanges, said = RepeatedExchanges(), None
    for reply in replies:
        if isinstance(reply, str):
            exchanges.clear()
            continue
        asked = reply if isinstance(reply, list) else [reply]
        calls = [ToolCall(str(at), name, {"of": of}) for at, (name, of, _) in enumerate(asked)]
        results = [ToolResult(str(at), name, answer) for at, (name, _, answer) in enumerate(asked)]
        said = exchanges.add(calls, results)
    return said


@pytest.mark.parametrize(
    ("replies", "tool"),
    [
        ((A, A), None),
        ((A, A, A), "look"),
        ((A, B, A, B, A), "look"),
        (([A, B], [B, A], [A, B]), "look"),
        ((A, ("look", "a", "2"), ("look", "a", "3")), None),
        ((A, A, B, A, C, A), None),
        (([A, A, A], B), None),
        ((A, A, "mend it", A), None),
        ((A, "mend it", A, A, A), "look"),
    ],
)
def test_the_same_call_with_the_same_answer_three_times_in_a_row_is_a_loop(replies, tool):
    """SC-14, BX-12: equal calls of one reply count once; a different answer or new text resets the count."""
    assert looping_tool(*replies) == tool
