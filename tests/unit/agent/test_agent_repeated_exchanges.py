"""Agents that repeat calls whose answers they know."""

import pytest

from scaffold.agent.repeated_calls import RepeatedExchanges
from scaffold.core.conversation import ToolCall, ToolResult

A, B, C = ("look", "a", "1"), ("look", "b", "2"), ("look", "c", "3")


def looping_tool(*replies, is_read_only=False):
    """Return what is said of the last reply; each is one (tool, argument, answer) or a list of them, or a new text."""
    exchanges, said = RepeatedExchanges(lambda call: is_read_only), ""
    for reply in replies:
        if isinstance(reply, str):
            exchanges.clear()
            continue
        asked = reply if isinstance(reply, list) else [reply]
        calls = [ToolCall(str(at), name, {"of": of}) for at, (name, of, _) in enumerate(asked)]
        results = [
            ToolResult(str(at), name, answer, failed="fail" in answer) for at, (name, _, answer) in enumerate(asked)
        ]
        said = exchanges.add(calls, results)
    return said


@pytest.mark.parametrize(
    ("replies", "loops"),
    [
        ((A, A), False),
        ((A, A, A), True),
        ((A, B, A, B, A), True),
        (([A, B], [B, A], [A, B]), True),
        ((A, ("look", "a", "2"), ("look", "a", "3")), False),
        ((A, A, B, A, C, A), False),
        (([A, A, A], B), False),
        ((A, A, "mend it", A), False),
        ((A, "mend it", A, A, A), True),
    ],
)
def test_the_same_call_with_the_same_answer_three_times_in_a_row_is_a_loop(replies, loops):
    """SC-14, BX-12: equal calls of one reply count once; a different answer or new text resets the count."""
    assert looping_tool(*replies) == ("`look` gave the same answer to the same call 3 times" if loops else "")


def similar(*answers):
    """Return six calls that each have an argument of their own, with these answers in turn."""
    return [("look", str(at), answers[at % len(answers)]) for at in range(6)]


@pytest.mark.parametrize(
    ("replies", "is_read_only", "loops"),
    [
        (similar("failed"), False, True),
        (similar("nothing found"), True, True),
        (similar("nothing found")[1:], True, False),
        (similar("done"), False, False),
        ([*similar("nothing found")[:4], ("look", "x", "new"), *similar("nothing found")[:4]], True, False),
        ([("look", "a", f"failed after {at}.5 s") for at in range(6)], False, True),
        ([("look", "a", f"took {at}.5 s") for at in range(6)], False, False),
        ([("look", "a", f"{word} failed") for word in "abcdefgh"], False, False),
        ([("look", str(at), f"line {at}") for at in range(6)], True, False),
    ],
)
def test_answers_that_only_seem_new_are_a_loop_in_the_end(replies, is_read_only, loops):
    """BX-12: other arguments with one answer, unless the call may have changed something."""
    said = "`look` gave an answer that it gave before 6 times" if loops else ""
    assert looping_tool(*replies, is_read_only=is_read_only) == said


def test_a_cycle_of_answers_to_ever_new_arguments_is_a_loop():
    """BX-12."""
    assert looping_tool(*similar("failed", "none"), *similar("failed", "none"), is_read_only=True)
