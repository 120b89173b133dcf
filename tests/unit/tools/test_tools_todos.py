import json

import pytest
from inline_snapshot import snapshot

from scaffold.core.conversation import Todo, TodoList
from scaffold.tools.arguments import argument_problems
from scaffold.tools.todos import MAX_CHARS, MAX_TODOS, Todos, todo_read, todo_write


@pytest.fixture
def todos():
    return Todos()


@pytest.fixture
def write(todos):
    tool = todo_write(todos)

    async def write(action, *entries):
        args = {"action": action, "todos": list(entries)}
        assert argument_problems(tool, args) is None
        return await tool.run(args)

    return write


@pytest.fixture
def read(todos):
    tool = todo_read(todos)

    async def read(**args):
        assert argument_problems(tool, args) is None
        return [entry["id"] for entry in json.loads((await tool.run(args)).content)]

    return read


async def test_todos_are_created_updated_and_deleted(todos, write):
    """RA-5."""
    await write("create", {"content": "read"}, {"content": " write\n it ", "priority": "high"})
    output = await write("update", {"id": 1, "status": "completed"}, {"id": 2, "status": "in_progress"})
    assert output.content == "[x] 1. read\n[>] 2. write it (high)" == todos.render()
    output = await write("delete", {"id": 1}, {"id": 2})
    assert output.content == snapshot("The list is empty.")
    assert todos.render() == ""


async def test_setting_the_whole_list_does_not_reuse_ids(write):
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


async def test_a_change_with_one_error_changes_nothing(todos, write):
    rows = [
        ("create", {"status": "pending"}, "needs `content`"),
        ("create", {"content": " "}, "empty"),
        ("create", {"content": "x" * (MAX_CHARS + 1)}, "longer"),
        ("update", {"id": 9, "status": "completed"}, "must be in the list (1), not 9"),
        ("update", {"content": "x"}, "not None"),
        ("update", {"id": 1, "content": ""}, "empty"),
        ("delete", {"id": 2}, "Todo 2"),
    ]
    await write("create", {"content": "keep"})
    for action, change, reason in rows:
        fine = {"content": "fine"} if action == "create" else {"id": 1, "status": "completed"}
        output = await write(action, fine, change)
        assert output.failed, change
        assert reason in output.content, change
        assert todos.render() == "[ ] 1. keep", change


async def test_an_unpaired_surrogate_does_not_reach_the_context(todos, write, read):
    await write("create", {"content": "a\ud800"})
    assert todos.render() == "[ ] 1. a?"
    assert await read() == [1]


async def test_the_length_of_the_list_is_bounded(todos, write):
    output = await write("set", *({"content": "x"} for _ in range(MAX_TODOS + 1)))
    assert output.failed
    assert todos.entries == ()


@pytest.fixture
def say(todos):
    """Call TodoWrite with arguments as a model wrote them."""
    tool = todo_write(todos)

    async def say(args):
        assert argument_problems(tool, args) is None
        return (await tool.run(args)).content

    return say


async def test_a_list_without_an_action_replaces_the_whole_list(say):
    """RA-5: for agents trained on another list tool; unknown members are ignored."""
    first = {"content": "Read", "status": "in_progress", "activeForm": "Reading", "id": "1", "priority": "high"}
    second = {"content": "Write", "status": "pending", "activeForm": "Writing", "id": "2"}
    assert await say({"todos": [first, second]}) == "[>] 1. Read (high)\n[ ] 2. Write"
    done = [first | {"status": "completed"}, second | {"status": "in_progress"}, {"content": "Test"}]
    assert await say({"todos": done}) == "[x] 1. Read (high)\n[>] 2. Write\n[ ] 3. Test"
    assert await say({"todos": []}) == snapshot("The list is empty.")


async def test_entries_with_only_an_id_are_updates(say):
    """RA-5."""
    await say({"todos": [{"content": "a"}, {"content": "b", "priority": "low"}]})
    assert await say({"todos": [{"id": 2, "status": "completed"}]}) == "[ ] 1. a\n[x] 2. b (low)"


async def test_an_entry_set_again_keeps_its_id_and_omitted_fields(say):
    """RA-5: the list may be reordered."""
    await say({"todos": [{"content": "a", "priority": "high"}, {"content": "b"}]})
    said = await say(
        {"action": "set", "todos": [{"id": 2}, {"id": 1, "status": "completed"}, {"id": 1, "content": "c"}]}
    )
    assert said == "[ ] 2. b\n[x] 1. a (high)\n[ ] 3. c"


async def test_an_invalid_number_matches_no_entry(todos, say):
    await say({"todos": [{"content": "a"}]})
    for odd in ("x", "", "-1", "1.0", "\u0661", True, 1.0, [1], "9" * 5000):
        assert "(1)" in await say({"action": "delete", "todos": [{"id": odd}]})
        assert len(todos.entries) == 1, odd


def test_another_shape_is_refused_with_the_right_one(todos):
    """RA-5."""
    rows = [
        ({"action": "create", "content": "a"}, "has no `content`, it takes `todos`, `action`"),
        ({"todos": '[{"content": "a"}]'}, "`todos` must be an array"),
        ({"todos": ["a"]}, "`todos[0]` must be an object"),
        ({"todos": [{"content": "a", "status": "done"}]}, "one of pending, in_progress, completed, not 'done'"),
        ({"action": "add", "todos": []}, "one of create, update, delete, set"),
    ]
    problems = [(args, argument_problems(todo_write(todos), args) or "") for args, _ in rows]
    assert [each for each, (_, taught) in zip(problems, rows, strict=True) if taught not in each[1]] == []


def test_a_list_is_restored_and_stored_before_it_is_reported():
    """RA-5."""
    log = []
    todos = Todos(TodoList((Todo(id=4, content="a"),), 7), lambda kept: log.append(("kept", kept.last_id)))
    todos.watch(lambda entries: log.append(("told", len(entries))))
    assert todos.change("create", [{"content": "b"}]) is None
    assert todos.render() == "[ ] 4. a\n[ ] 8. b"
    assert log == [("kept", 8), ("told", 2)]
    assert todos.change("delete", [{"id": 1}]) is not None
    assert len(log) == 2


def test_a_change_that_cannot_be_stored_does_not_take_effect():
    def refuse(kept):
        raise OSError("disk full")

    todos = Todos(keep=refuse)
    with pytest.raises(OSError, match="disk full"):
        todos.change("create", [{"content": "a"}])
    assert todos.entries == ()


async def test_control_characters_do_not_reach_the_list(todos, write):
    """RA-5."""
    await write("create", {"content": "a\x1b[31m red\x07\u0085b"}, {"content": "👩\u200d💻 ok"})
    assert [entry.content for entry in todos.entries] == ["a[31m red b", "👩\u200d💻 ok"]
