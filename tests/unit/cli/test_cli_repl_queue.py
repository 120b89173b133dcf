"""What the user types while the agent works."""

from collections import deque

import pytest

from scaffold.cli.repl.user_input import InputQueue, PendingInput
from scaffold.core.conversation import Text
from scaffold.session.slash.syntax import COMMANDS


@pytest.fixture
def later():
    return deque()


@pytest.fixture
def queue(later):
    return InputQueue(PendingInput(lambda words: (Text(words),)), later, COMMANDS)


def type_lines(queue, later, *lines):
    """Enter lines while the agent works."""
    for words in lines:
        if queue.is_message(words):
            queue.add_message(words)
        else:
            later.append(words)


def test_lines_are_handed_on_as_they_were_typed(queue, later):
    """RA-12: messages before the next command are one."""
    type_lines(queue, later, "a", "b", "/clear", "c", "d", "!ls", "e")
    lines = [queue.next_line() for _ in range(6)]
    assert lines == ["a\nb", "/clear", "c\nd", "!ls", "e", ""]


def test_the_newest_line_is_taken_back_first(queue, later):
    """RA-12: to be edited; a command, too."""
    type_lines(queue, later, "a", "b", "/clear", "c")
    taken = [queue.take_back_newest() for _ in range(3)]
    assert (taken, queue.waiting) == (["c", "/clear", "b"], ("a",))
    assert [queue.take_back_newest() for _ in range(2)] == ["a", ""]


def test_the_messages_for_a_stopped_turn_are_given_back_and_commands_stay(queue, later):
    """RA-19."""
    type_lines(queue, later, "a", "/undo", "b", "!ls")
    assert queue.take_back_messages() == "a\nb"
    assert [queue.next_line() for _ in range(3)] == ["/undo", "!ls", ""]
    assert queue.take_back_messages() == ""
