import msgspec
import pytest

from scaffold.core.conversation import Todo, TodoList


def test_a_list_round_trips_through_json_and_nothing_else_is_accepted():
    """RA-5: what is stored with a conversation is read back exactly, or refused."""
    todos = TodoList((Todo(id=1, content="look"), Todo(id=3, content="mend", status="completed", priority="high")), 3)
    assert msgspec.json.decode(msgspec.json.encode(todos), type=TodoList) == todos
    assert msgspec.json.decode(b"{}", type=TodoList) == TodoList((), 0)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"entries": [{"id": 1, "content": "look", "status": "someday"}]}', type=TodoList)
