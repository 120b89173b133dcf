import json

import pytest

from scaffold.tools.arguments import misfit
from scaffold.tools.todos import LONGEST, MOST, Todos, todo_read, todo_write


@pytest.fixture
def todos():
    return Todos()


@pytest.fixture
def write(todos):
    tool = todo_write(todos)

    async def write(action, *entries):
        args = {"action": action, "todos": list(entries)}
        assert misfit(tool, args) is None
        return await tool.run(args)

    return write


@pytest.fixture
def read(todos):
    tool = todo_read(todos)

    async def read(**args):
        assert misfit(tool, args) is None
        return [entry["id"] for entry in json.loads((await tool.run(args)).content)]

    return read


async def test_todos_are_created_updated_and_deleted(todos, write):
    """RA-5."""
    await write("create", {"content": "read"}, {"content": " write\n it ", "priority": "high"})
    output = await write("update", {"id": 1, "status": "completed"}, {"id": 2, "status": "in_progress"})
    assert output.content == "[x] 1. read\n[>] 2. write it (high)" == todos.render()
    output = await write("delete", {"id": 1}, {"id": 2})
    assert output.content == "The list is empty."
    assert todos.render() == ""


async def test_the_whole_list_is_set_at_once_and_ids_are_not_used_again(write):
    """RA-5."""
    await write("create", {"content": "a"}, {"content": "b"})
    output = await write("set", {"content": "c", "status": "completed", "priority": "low"}, {"content": "d"})
    assert output.content == "[x] 3. c (low)\n[ ] 4. d"
    await write("delete", {"id": 4})
    assert (await write("create", {"content": "e"})).content.endswith("[ ] 5. e")


async def test_todos_are_filtered_by_status_and_priority(write, read):
    """RA-5."""
    await write(
        "set",
        {"content": "a", "status": "completed", "priority": "high"},
        {"content": "b", "priority": "high"},
        {"content": "c"},
    )
    assert await read() == [1, 2, 3]
    assert await read(status="pending") == [2, 3]
    assert await read(priority="high") == [1, 2]
    assert await read(status="pending", priority="high") == [2]
    assert await read(status="in_progress") == []


@pytest.mark.parametrize(
    ("action", "wish", "reason"),
    [
        ("create", {"status": "pending"}, "needs `content`"),
        ("create", {"content": " "}, "empty"),
        ("create", {"content": "x" * (LONGEST + 1)}, "longer"),
        ("update", {"id": 9, "status": "completed"}, "must be one of the list (1), not 9"),
        ("update", {"content": "x"}, "not None"),
        ("update", {"id": 1, "content": ""}, "empty"),
        ("delete", {"id": 2}, "Todo 2"),
    ],
)
async def test_a_change_that_is_wrong_anywhere_changes_nothing(todos, write, action, wish, reason):
    await write("create", {"content": "keep"})
    fine = {"content": "fine"} if action == "create" else {"id": 1, "status": "completed"}
    output = await write(action, fine, wish)
    assert output.failed
    assert reason in output.content
    assert todos.render() == "[ ] 1. keep"


async def test_half_a_surrogate_pair_does_not_reach_the_context(todos, write, read):
    await write("create", {"content": "a\ud800"})
    assert todos.render() == "[ ] 1. a?"
    assert await read() == [1]


async def test_the_list_stays_small(todos, write):
    output = await write("set", *({"content": "x"} for _ in range(MOST + 1)))
    assert output.failed
    assert todos.entries == ()
