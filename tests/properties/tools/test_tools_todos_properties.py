"""A todo list under any calls of a model: ids are never reused, and a refusal changes nothing."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.core.conversation import TodoList
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import argument_problems
from scaffold.tools.todos import MAX_TODOS, Todos, todo_write

CHANGED_TODO = st.fixed_dictionaries(
    {},
    optional={
        "id": st.one_of(st.integers(-2, 12), st.integers(0, 12).map(str), st.none(), st.text(max_size=2)),
        "content": st.text(max_size=6),
        "status": st.sampled_from(["pending", "in_progress", "completed"]),
        "priority": st.sampled_from(["high", "medium", "low"]),
        "activeForm": st.text(max_size=2),
    },
)
CHANGE = st.tuples(st.sampled_from(["create", "update", "delete", "set"]), st.lists(CHANGED_TODO, max_size=4))


@given(st.lists(CHANGE, max_size=12))
def test_ids_are_unique_and_never_reused(changes):
    """RA-5."""
    kept: list[TodoList] = [TodoList()]
    todos, gone, tool = Todos(keep=kept.append), set[int](), todo_write(Todos())
    for action, todo_changes in changes:
        assert argument_problems(tool, {"action": action, "todos": todo_changes}) is None
        before = {entry.id for entry in todos.entries}
        refusal = todos.change(action, todo_changes)
        after = [entry.id for entry in todos.entries]
        assert kept[-1].entries == todos.entries
        assert len(set(after)) == len(after) <= MAX_TODOS
        assert not gone & set(after)
        assert not isinstance(refusal, Refusal) or set(after) == before
        gone |= before - set(after)
        assert all(entry.content == " ".join(entry.content.split()) != "" for entry in todos.entries)
