"""Batches: the calls of one reply and their results."""

import asyncio

import msgspec
import pytest

from fakes import MemoryHistory, RecordingModel, agent, call_entry, cassette_model, tool
from scaffold.agent.repeated_calls import LoopDetected
from scaffold.agent.toolbox import (
    MAX_PARALLEL_CALLS,
    NOT_DECIDED,
    NOT_FINISHED,
    NOT_STARTED,
    UNKNOWN_RESULT,
    Toolbox,
    repeated_on,
)
from scaffold.core.conversation import ToolCall, ToolResult
from scaffold.core.errors import HumanDecisionRequired
from scaffold.core.tool import Tool, ToolOutput
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.policy.permission.approval_gate import CALL_WAITS
from scaffold.tools.arguments import object_schema


class Room:
    """Tools that record what they did; those named `wait...` block until all expected calls have arrived."""

    def __init__(self, expected=0):
        self.log = []
        self.most = 0
        self._inside = 0
        self._expected = expected
        self._all_there = asyncio.Event()

    def note(self, name, *, category="file_read", read_only=False):
        async def work(text):
            self.log.append(f"{name} {text}")
            return ToolOutput(f"{name}: {text}")

        made = tool(name, work, category=category, text="string")
        return msgspec.structs.replace(made, read_only=read_only)

    def wait(self, name, *, category="file_read", read_only=False):
        async def work(text):
            self._inside += 1
            self.most = max(self.most, self._inside)
            if self._inside == self._expected:
                self._all_there.set()
            await self._all_there.wait()
            await asyncio.sleep(0)
            self._inside -= 1
            return ToolOutput(f"{name}: {text}")

        made = tool(name, work, category=category, text="string")
        return msgspec.structs.replace(made, read_only=read_only)


def calls(*wanted):
    return tuple(ToolCall(f"c{number}", name, {"text": text}) for number, (name, text) in enumerate(wanted))


async def ran(tools, *wanted):
    batch = Toolbox(tools).batch(calls(*wanted))
    await asyncio.wait_for(batch.run(), 5)
    return [(result.call_id, result.content) for result in batch.results]


async def test_files_and_pages_are_read_concurrently():
    """RA-19: any call that changes nothing may run beside its like, a web page as well as a file."""
    room = Room(expected=2)
    tools = [room.wait("file"), room.wait("page", category="network", read_only=True)]
    assert await ran(tools, ("file", "a"), ("page", "b")) == [("c0", "file: a"), ("c1", "page: b")]


async def test_a_network_call_that_changes_something_runs_alone():
    """RA-19: the category does not say that; an installation uses the network, too."""
    room = Room()
    install = room.wait("install", category="network")
    room._all_there.set()
    await ran([install], ("install", "a"), ("install", "b"))
    assert room.most == 1


async def test_the_number_of_concurrent_calls_is_limited():
    """RA-19."""
    room = Room(expected=MAX_PARALLEL_CALLS)
    results = await ran([room.wait("file")], *[("file", str(number)) for number in range(3 * MAX_PARALLEL_CALLS)])
    assert room.most == MAX_PARALLEL_CALLS
    assert [content for _, content in results] == [f"file: {number}" for number in range(3 * MAX_PARALLEL_CALLS)]


async def test_equal_read_calls_run_once_and_each_gets_the_result():
    """RA-19: duplicates are merged."""
    room = Room()
    tools = [room.note("file"), room.note("page", category="network", read_only=True)]
    results = await ran(tools, ("file", "a"), ("page", "a"), ("file", "a"), ("file", "b"), ("file", "a"))
    assert sorted(room.log) == ["file a", "file b", "page a"]
    assert results == [
        (f"c{n}", text) for n, text in enumerate(["file: a", "page: a", "file: a", "file: b", "file: a"])
    ]


async def test_equal_writes_all_run_and_a_write_separates_equal_reads():
    """RA-19: an equal read after a write may see something else."""
    room = Room()
    tools = [room.note("file"), room.note("write", category="file_write")]
    await ran(tools, ("file", "a"), ("write", "x"), ("write", "x"), ("file", "a"))
    assert room.log == ["file a", "write x", "write x", "file a"]


async def test_a_failing_call_fails_only_for_its_duplicates():
    async def broken(text):
        raise ValueError(text)

    room = Room()
    tools = [tool("broken", broken, category="file_read", text="string"), room.note("file")]
    results = await ran(tools, ("broken", "a"), ("file", "b"), ("broken", "a"))
    assert [content for _, content in results] == [
        "broken crashed: ValueError: a",
        "file: b",
        "broken crashed: ValueError: a",
    ]


async def test_a_null_optional_argument_counts_as_omitted():
    """Some models name every argument there is."""

    async def work(**given):
        return ToolOutput(str(given))

    made = tool("some", work, text="string")
    schema = made.schema | {"properties": made.schema["properties"] | {"more": {"type": "string"}}}
    box = Toolbox([msgspec.structs.replace(made, schema=schema)])
    assert (await box.result(ToolCall("c", "some", {"text": "a", "more": None}))).content == "{'text': 'a'}"
    assert "`text` must be a string, not None" in (await box.result(ToolCall("c", "some", {"text": None}))).content
    assert "has no `other`" in (await box.result(ToolCall("c", "some", {"text": "a", "other": None}))).content


@pytest.mark.parametrize(("category", "told"), [("file_read", NOT_FINISHED), ("shell", UNKNOWN_RESULT)])
async def test_an_interruption_cancels_running_calls_and_keeps_finished_results(category, told):
    """RA-19: Ctrl-C is cooperative; finished results stay, the others are reported as interrupted."""
    begun, ended = asyncio.Event(), []

    async def hang(text):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(text)

    room = Room()
    tools = [
        room.note("file"),
        tool("hang", hang, category=category, text="string"),
        room.note("write", category="shell"),
    ]
    batch = Toolbox(tools).batch(calls(("file", "a"), ("hang", "b"), ("write", "c"), ("file", "d")))
    task = asyncio.create_task(batch.run())
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["b"]
    assert batch.results == (
        ToolResult("c0", "file", "file: a"),
        ToolResult("c1", "hang", told, failed=True),
        ToolResult("c2", "write", NOT_STARTED, failed=True),
        ToolResult("c3", "file", NOT_STARTED, failed=True),
    )


@pytest.mark.parametrize(("approved", "told"), [(False, NOT_STARTED), (True, UNKNOWN_RESULT)])
async def test_a_call_that_waits_for_its_user_has_not_begun(approved, told):
    """RA-13, RA-19: interrupted there, it did not run; what would be stored says the same at each moment."""
    waiting, drafts = asyncio.Event(), []

    async def asking(text):
        CALL_WAITS.get()(True)
        if approved:
            CALL_WAITS.get()(False)
        waiting.set()
        await asyncio.Event().wait()

    box = Toolbox([tool("shell", asking, category="shell", text="string")])
    batch = box.batch(calls(("shell", "a"), ("shell", "b")), draft=lambda: drafts.append(batch.results))
    task = asyncio.create_task(batch.run())
    await asyncio.wait_for(waiting.wait(), 5)
    assert [args for _, args in batch.open_calls()] == [{"text": "a"}, {"text": "b"}]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [result.content for result in batch.results] == [told, NOT_STARTED]
    assert drafts[-1] == batch.results


async def test_results_finished_before_an_interruption_are_in_history_and_conversation():
    """RA-19, RA-10: no completed call is requested again."""
    begun, history, room = asyncio.Event(), MemoryHistory(), Room()

    async def hang(text):
        begun.set()
        await asyncio.Event().wait()

    model = RecordingModel(
        cassette_model(call_entry(1, ("write", {"text": "a"}), ("hang", {"text": "b"})), CassetteEntry(text="going on"))
    )
    worker = agent(
        model,
        room.note("write", category="shell"),
        tool("hang", hang, category="shell", text="string"),
        history=history,
    )
    task = asyncio.create_task(worker.turn("go"))
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [part.content for part in history.messages[-1].parts] == ["write: a", UNKNOWN_RESULT]
    # What a process that is killed at this moment leaves is the same.
    assert history.drafts[-1] == history.messages[-1]
    assert [part.content for part in history.drafts[0].parts] == [UNKNOWN_RESULT, NOT_STARTED]
    assert worker.conversation.unanswered == ()
    assert (await worker.turn("and now?")).text == "going on"
    assert len(model.requests[1].messages[-1].parts) == 3


@pytest.mark.parametrize("may_repeat", [True, False])
async def test_equal_answers_end_the_turn_of_an_agent_that_works_alone(may_repeat):
    """RA-19, BX-12: an agent may wait for something by reading it again and again, if its user sees that."""
    room = Room()
    looks = [call_entry(turn, ("file", {"text": "a"})) for turn in range(1, 61)]
    waiting = agent(
        cassette_model(*looks, CassetteEntry(text="there it is")), room.note("file"), may_repeat=may_repeat
    ).turn("wait for it")
    if may_repeat:
        finish = await waiting
        assert (finish.text, finish.requests) == ("there it is", 61)
    else:
        with pytest.raises(LoopDetected, match="`file` gave the same answer to the same call 3 times"):
            await waiting


async def test_a_null_inside_a_list_counts_as_omitted():
    """RA-4: strict schemas make a model name each member of each operation."""
    changed = []

    async def run(args):
        changed.append(args)
        return ToolOutput("")

    entry = object_schema({"line": {"type": "integer"}}, end={"type": "integer"}, text={"type": "string"})
    edit = Tool(
        name="edit",
        description="",
        schema=object_schema({"entries": {"type": "array", "items": entry}}),
        category="file_write",
        run=run,
    )
    entries = [{"line": 1, "end": None, "text": None}, {"line": None}, "odd"]
    good = await Toolbox([edit]).result(ToolCall("1", "edit", {"entries": entries[:1]}))
    wrong = await Toolbox([edit]).result(ToolCall("2", "edit", {"entries": entries}))
    assert (good.failed, changed) == (False, [{"entries": [{"line": 1}]}])
    assert "`entries[1].line`" in wrong.content
    assert "`entries[2]`" in wrong.content


@pytest.mark.parametrize("category", ["shell", "file_read"])
async def test_waiting_for_a_human_ends_the_batch_with_its_own_error(category):
    """BX-13: alone or beside others; finished calls keep their results, and later ones do not start."""
    room = Room()

    async def ask(text):
        raise HumanDecisionRequired(f"{text} waits", "Decide.", item="abc123")

    tools = [
        room.note("first"),
        repeated_on(tool("ask", ask, category=category, text="string"), None),
        room.note("later", category="shell"),
    ]
    batch = Toolbox(tools).batch(calls(("first", "a"), ("ask", "b"), ("later", "c")))
    with pytest.raises(HumanDecisionRequired, match="b waits") as waits:
        await batch.run()
    assert waits.value.item == "abc123"
    assert [result.content for result in batch.results] == ["first: a", NOT_DECIDED, NOT_STARTED]
    assert (room.log, batch.begun) == (["first a"], {}), "it runs again, with the answer"
