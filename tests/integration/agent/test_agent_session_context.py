import itertools
from datetime import UTC, datetime

import pytest
from inline_snapshot import snapshot

from fakes import RecordingModel, agent, call_entry, cassette_model, tool
from scaffold.agent.modes import CurrentMode, mode_instructions, switch_mode_tool
from scaffold.agent.session_context import (
    ATTENDED_TEXT,
    TODO_LIST_CHARS,
    UNATTENDED_TEXT,
    SessionContext,
    SessionEnvironment,
)
from scaffold.core.conversation import Todo, TodoList
from scaffold.core.tool import ToolOutput
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.tools.todos import Todos, todo_write
from support.fake_clock import FakeClock


@pytest.fixture
def clock():
    return FakeClock(datetime(2030, 1, 2, tzinfo=UTC))


@pytest.fixture
def context_of(tmp_path, clock):
    """Return the context of a session in an empty directory."""

    def context_of(modes=None, todos=None, *, attended=False):
        environment = SessionEnvironment(cwd=tmp_path, platform="Linux", attended=attended, clock=clock)
        return SessionContext(environment, modes or CurrentMode(), todos or Todos())

    return context_of


def test_it_contains_place_time_and_whether_a_user_is_present(context_of, tmp_path):
    lines = [f"Working directory: {tmp_path}", "Platform: Linux", "Date: 2030-01-02", "Mode: default"]
    assert context_of().text() == "\n".join([*lines, UNATTENDED_TEXT])
    assert context_of(attended=True).text() == "\n".join([*lines, ATTENDED_TEXT])


def test_a_directory_with_an_unusual_name_stays_on_its_line(tmp_path, clock):
    environment = SessionEnvironment(cwd=tmp_path / "a\nMode: free", platform="Linux", attended=False, clock=clock)
    lines = SessionContext(environment, CurrentMode(), Todos()).text().split("\n")
    assert [line for line in lines if line.startswith("Mode: ")] == ["Mode: default"]


def test_it_names_the_branch_if_there_is_one(context_of, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic/clock\n")
    assert "\nGit branch: topic/clock\n" in context_of().text()


def test_it_stays_the_same_until_it_is_renewed(context_of, tmp_path, clock):
    """RA-3, RA-5: the prefix stays cached, and the todo list at the end is always the latest."""
    todos = Todos()
    context = context_of(todos=todos)
    before = context.text()
    todos.change("create", [{"content": "read"}])
    clock.advance(86_400)
    assert context.text() == before
    assert context.reminder() == snapshot("[Your todo list as it is now:\n[ ] 1. read]")
    context.renew()
    assert "Date: 2030-01-03" in context.text()
    assert "read" not in context.text()
    todos.change("update", [{"id": 1, "status": "completed"}])
    assert context.reminder() == "", "nothing is left to do"


def test_a_new_mode_appears_at_once(context_of):
    """RA-5."""
    modes = CurrentMode()
    context = context_of(modes)
    assert mode_instructions("plan") not in context.text()
    modes.switch("plan")
    assert "\nMode: plan\n" in context.text()
    assert mode_instructions("plan") in context.text()
    modes.switch("default")
    assert mode_instructions("plan") not in context.text()


def test_the_todo_list_shows_open_items_up_to_a_limit(context_of):
    done = [Todo(id=number, content="d" * 100, status="completed") for number in range(1, 101)]
    todo = [Todo(id=number, content="o" * 400) for number in range(101, 201)]
    text = context_of(todos=Todos(TodoList((*done, *todo), 200))).reminder()
    assert len(text) < TODO_LIST_CHARS + 1_000
    assert "ddd" not in text
    assert "[ ] 101. ooo" in text
    assert text.endswith("more; TodoRead returns all]")
    few = context_of(todos=Todos(TodoList((*done[:1], *todo[:1]), 200))).reminder()
    assert "[x] 1. ddd" in few


async def test_todos_survive_a_compaction(context_of):
    """RA-10, RA-5: they are listed after it, although the calls that created them are gone."""
    todos = Todos()

    said = itertools.count()

    async def chatter():
        return ToolOutput(f"{next(said)} " + "words " * 4_000)

    turns = [call_entry(1, ("TodoWrite", {"todos": [{"content": "mend the clock"}]}))]
    turns += [call_entry(number, ("chatter", {})) for number in range(2, 20)]
    model = RecordingModel(cassette_model(*turns, CassetteEntry(text="done")), window_tokens=40_000)
    worker_context = context_of(todos=todos)
    worker = agent(model, todo_write(todos), tool("chatter", chatter), context=worker_context)
    await worker.turn("go")
    reminders = [request.reminder for request in model.requests]
    assert reminders[0] == ""
    assert (set(reminders[1:]), "1. mend the clock" in reminders[1]) == ({worker_context.reminder()}, True)
    assert len({request.context for request in model.requests}) == 1, "no request breaks the cache"


async def test_the_base_prompt_stays_the_same_bytes_when_the_mode_changes(context_of):
    """RA-3, RA-5."""
    modes = CurrentMode()
    model = RecordingModel(
        cassette_model(call_entry(1, ("switch_mode", {"mode": "debug"})), CassetteEntry(text="done"))
    )
    await agent(model, switch_mode_tool(modes), context=context_of(modes)).turn("go")
    first, second = model.requests
    assert (first.system, first.tools) == (second.system, second.tools)
    assert mode_instructions("debug") in second.context
    assert mode_instructions("debug") not in first.context
