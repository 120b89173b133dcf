"""A note in the answer of a call that fails the same way again."""

import pytest

from fakes import tool
from scaffold.agent.repeated_calls import RepeatNotes
from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import ToolCall
from scaffold.core.tool import ToolOutput


class Agent:
    """Replies with calls of tools whose answers are given."""

    def __init__(self):
        self._answers = {}
        kinds = {"run": "shell", "edit": "file_write", "read": "file_read", "todo": "memory"}
        tools = [tool(name, self._work(name), category=kind, arg="string") for name, kind in kinds.items()]
        self._toolbox = Toolbox(tools, watch=RepeatNotes().watch)

    def _work(self, name):
        async def work(arg):
            content, failed = self._answers.get((name, arg), ("ok", False))
            return ToolOutput(content, failed)

        return work

    def fails(self, name, arg, content="it failed"):
        self._answers[name, arg] = (content, True)

    async def reply(self, *calls):
        """Return how often each call is said to have failed; 0 without a note."""
        batch = self._toolbox.batch([ToolCall(f"{n}", name, {"arg": arg}) for n, (name, arg) in enumerate(calls)])
        await batch.run()
        said = [result.content.partition("failed the same way ")[2].split() for result in batch.results]
        return [int(words[0]) if words else 0 for words in said]


@pytest.fixture
def failing():
    agent = Agent()
    agent.fails("run", "make")
    return agent


MAKE, READ, LIST, EDIT, OTHER = ("run", "make"), ("read", "a"), ("todo", "a"), ("edit", "a"), ("edit", "b")


async def test_the_third_failure_draws_a_note_and_each_one_after_it(failing):
    """BX-12."""
    assert [await failing.reply(MAKE) for _ in range(4)] == [[0], [0], [3], [4]]


async def test_reads_and_lists_in_between_change_nothing(failing):
    """BX-12."""
    assert [await failing.reply(*calls) for calls in [(MAKE,), (READ,), (LIST,), (MAKE, READ), (MAKE,)]][-1] == [3]


async def test_a_change_begins_a_new_count_unless_it_was_made_before(failing):
    """BX-12."""
    for _ in range(2):
        await failing.reply(MAKE)
    assert await failing.reply(EDIT, MAKE) == [0, 0]
    assert await failing.reply(EDIT, MAKE) == [0, 0]
    assert await failing.reply(EDIT, MAKE) == [0, 3]
    assert await failing.reply(OTHER, MAKE) == [0, 0]


async def test_equal_calls_of_one_reply_are_one_failure(failing):
    assert await failing.reply(MAKE, MAKE, MAKE, MAKE) == [0] * 4


async def test_another_answer_is_another_failure_but_for_its_numbers(failing):
    """BX-12."""
    for n in range(3):
        failing.fails("run", "make", f"failed after {n}.5 s")
        last = await failing.reply(MAKE)
    assert last == [3]
    failing.fails("run", "make", "no such target")
    assert await failing.reply(MAKE) == [0]


async def test_successful_calls_draw_no_note(failing):
    assert [await failing.reply(READ, EDIT) for _ in range(4)][-1] == [0, 0]


async def test_a_call_that_reaches_no_tool_is_counted_too():
    """BX-12: an unknown tool, an argument of the wrong type."""
    for call in (("nothing", "a"), ("run", ["make"])):
        agent = Agent()
        assert [await agent.reply(call) for _ in range(4)] == [[0], [0], [3], [4]]
