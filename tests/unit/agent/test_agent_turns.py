import asyncio
from pathlib import Path

import msgspec
import pytest

from scaffold.agent.agent import CUT_OFF, RESULT_LIMIT, Agent
from scaffold.agent.journal import JournalList
from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.errors import BudgetSpent, ModelTrouble
from scaffold.core.model import Usage
from scaffold.core.tool import Tool, ToolOutput
from scaffold.llm.cassette import (
    Cassette,
    CassetteModel,
    Entry,
    Fault,
    Prices,
    When,
    WrittenCall,
    WrittenUsage,
)
from scaffold.tools.arguments import object_schema

CALLER = Caller(role="implementation", action="store", attempt=2)


class Purse:
    """A budget of so many requests."""

    def __init__(self, requests=1_000):
        self.left = requests
        self.settled = []

    def admit(self):
        if self.left == 0:
            raise BudgetSpent("The budget is used up.", "Raise it.")
        self.left -= 1

    def settle(self, usage):
        self.settled.append(usage)


class Listening:
    """A model that keeps what it was asked and hands it on."""

    def __init__(self, inner):
        self._inner = inner
        self.requests = []

    async def reply(self, request):
        self.requests.append(request)
        return await self._inner.reply(request)


class Scripted:
    """A model that gives these replies in order."""

    def __init__(self, *replies):
        self._replies = list(replies)

    async def reply(self, request):
        return self._replies.pop(0)


def tape(*entries):
    return CassetteModel(Cassette(path=Path("tape"), digest="", entries=entries, prices=Prices(output_per_mtok=1.0)))


def calling(turn, *calls, text="", output_tokens=0):
    written = tuple(WrittenCall(name, args) for name, args in calls)
    usage = WrittenUsage(output_tokens=output_tokens)
    return Entry(when=When(turn=turn), text=text, tool_calls=written, usage=usage)


def tool(name, work, *, category="file_write", **required):
    async def run(args):
        return await work(**args)

    schema = object_schema({key: {"type": kind} for key, kind in required.items()})
    return Tool(name=name, description=name, schema=schema, category=category, run=run)


async def echo(text):
    return ToolOutput(f"<{text}>")


ECHO = tool("echo", echo, text="string")


def agent(model, *tools, **options):
    given = {"journal": JournalList(), "budget": Purse(), "system": "Be good.", "caller": CALLER, **options}
    return Agent(model=model, tools=tools, **given)


def results_of(request):
    """Return the tool results a request carries in its last message."""
    return [(part.name, part.content, part.failed) for part in request.messages[-1].parts]


async def test_a_turn_goes_on_until_a_reply_without_calls_and_ends_with_its_words():
    """SC-11: the result is the last reply's own text."""
    model = Listening(
        tape(
            calling(1, ("echo", {"text": "a"}), text="First I look."),
            calling(2, ("echo", {"text": "b"})),
            calling(3, text="Done: both."),
        )
    )
    finish = await agent(model, ECHO).turn("do it")
    assert finish.text == "Done: both."
    assert finish.requests == 3
    first, second, third = model.requests
    assert first.system == "Be good."
    assert [known.name for known in first.tools] == ["echo"]
    assert first.messages == (UserMessage((Text("do it"),)),)
    assert second.messages == (
        *first.messages,
        AssistantMessage((Text("First I look."), ToolCall("call-1-1", "echo", {"text": "a"}))),
        UserMessage((ToolResult("call-1-1", "echo", "<a>"),)),
    )
    assert third.messages[: len(second.messages)] == second.messages


async def test_a_last_reply_without_words_is_an_empty_result():
    finish = await agent(tape(Entry())).turn("say nothing")
    assert finish.text == ""


async def test_requests_are_counted_on_over_turns_and_turns_are_remembered():
    model = Listening(tape(calling(1, ("echo", {"text": "a"})), calling(2, text="one"), calling(3, text="two")))
    worker = agent(model, ECHO)
    first = await worker.turn("begin")
    second = await worker.turn("a check failed")
    assert (first.text, first.requests, second.text, second.requests) == ("one", 2, "two", 1)
    assert [request.caller for request in model.requests] == [
        msgspec.structs.replace(CALLER, turn=turn) for turn in (1, 2, 3)
    ]
    words = [part.text for message in model.requests[-1].messages for part in message.parts if isinstance(part, Text)]
    assert words == ["begin", "one", "a check failed"]


async def test_usage_adds_up_over_a_turn_and_each_reply_is_settled_at_once():
    purse = Purse()
    model = tape(calling(1, ("echo", {"text": "a"}), output_tokens=1_000_000), calling(2, output_tokens=500_000))
    finish = await agent(model, ECHO, budget=purse).turn("go")
    assert finish.usage == Usage(output_tokens=1_500_000, cost_usd=1.5, requests=2)
    assert [usage.output_tokens for usage in purse.settled] == [1_000_000, 500_000]


async def test_no_request_starts_without_budget():
    model = Listening(tape(calling(1, ("echo", {"text": "a"})), Entry(text="never")))
    with pytest.raises(BudgetSpent):
        await agent(model, ECHO, budget=Purse(requests=1)).turn("go")
    assert len(model.requests) == 1


async def test_an_agent_that_never_ends_meets_the_turn_limit():
    model = Listening(tape(Entry(tool_calls=(WrittenCall("echo", {"text": "again"}),))))
    with pytest.raises(ModelTrouble, match="turn limit") as caught:
        await agent(model, ECHO, max_requests=3).turn("go")
    assert len(model.requests) == 3
    assert not caught.value.transient


async def test_unknown_tools_and_wrong_arguments_come_back_as_failed_results():
    calls = (("ecko", {}), ("echo", {"txt": "a"}), ("echo", {"text": "fine"}))
    model = Listening(tape(calling(1, *calls), Entry(text="ok")))
    await agent(model, ECHO).turn("go")
    unknown, wrong, right = results_of(model.requests[1])
    assert unknown == ("ecko", "There is no tool `ecko`; the tools are: echo.", True)
    assert wrong == ("echo", "Not run: echo needs `text` (string); echo knows no `txt`, it takes `text`.", True)
    assert right == ("echo", "<fine>", False)


async def test_a_failed_output_is_marked_as_failed_for_the_model():
    async def refuse():
        return ToolOutput("no", failed=True)

    model = Listening(tape(calling(1, ("refuse", {})), Entry(text="ok")))
    await agent(model, tool("refuse", refuse)).turn("go")
    assert results_of(model.requests[1]) == [("refuse", "no", True)]


async def test_a_long_result_is_shown_in_part():
    async def flood():
        return ToolOutput("x" * 1_000_000)

    model = Listening(tape(calling(1, ("flood", {})), Entry(text="ok")))
    await agent(model, tool("flood", flood)).turn("go")
    [(_, content, _)] = results_of(model.requests[1])
    assert len(content) < RESULT_LIMIT + 100
    assert "characters left out" in content


async def test_a_result_with_names_that_are_not_text_can_still_be_told():
    async def odd():
        return ToolOutput("caf\udce9")

    model = Listening(tape(calling(1, ("odd", {})), Entry(text="ok")))
    await agent(model, tool("odd", odd)).turn("go")
    assert results_of(model.requests[1]) == [("odd", "caf\\udce9", False)]


async def test_calls_of_a_reply_that_was_cut_off_are_not_run():
    ran = []

    async def note(text):
        ran.append(text)
        return ToolOutput("")

    cut = AssistantMessage((Text("I wri"), ToolCall("1", "note", {"text": "half"})))
    model = Listening(
        Scripted(
            Reply(message=cut, usage=Usage(), stop="max_tokens"),
            Reply(message=AssistantMessage((Text("so"),)), usage=Usage(), stop="max_tokens"),
            Reply(message=AssistantMessage((Text("done"),)), usage=Usage(), stop="end"),
        )
    )
    finish = await agent(model, tool("note", note, text="string")).turn("go")
    assert finish.text == "done"
    assert ran == []
    assert model.requests[1].messages[-1] == UserMessage((ToolResult("1", "note", CUT_OFF, failed=True),))
    assert model.requests[2].messages[-1] == UserMessage((Text(CUT_OFF),))


class Track:
    """Tools that write down when they begin and end."""

    def __init__(self):
        self.steps = []

    def tool(self, name, category, pauses):
        async def run():
            self.steps.append(f"{name} begins")
            for _ in range(pauses):
                await asyncio.sleep(0)
            self.steps.append(f"{name} ends")
            return ToolOutput(name)

        return tool(name, run, category=category)


async def test_reads_run_side_by_side_and_all_else_in_order():
    track = Track()
    tools = (
        track.tool("slow", "file_read", 5),
        track.tool("quick", "file_read", 1),
        track.tool("write", "file_write", 3),
        track.tool("sh", "shell", 1),
    )
    calls = [(name, {}) for name in ("slow", "quick", "write", "sh", "quick")]
    model = Listening(tape(calling(1, *calls), Entry(text="ok")))
    await agent(model, *tools).turn("go")
    assert track.steps == [
        *("slow begins", "quick begins", "quick ends", "slow ends"),
        *("write begins", "write ends", "sh begins", "sh ends", "quick begins", "quick ends"),
    ]
    assert [content for _, content, _ in results_of(model.requests[1])] == ["slow", "quick", "write", "sh", "quick"]


@pytest.mark.parametrize("category", ["file_read", "shell"])
async def test_cancelling_a_turn_cancels_the_tool_that_runs(category):
    ended = asyncio.Event()

    async def hang():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    turn = asyncio.create_task(agent(tape(calling(1, ("hang", {}))), tool("hang", hang, category=category)).turn("go"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not ended.is_set()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ended.is_set()


async def test_what_a_model_cannot_say_ends_the_turn_as_trouble():
    with pytest.raises(ModelTrouble, match="401"):
        await agent(tape(Entry(fault=Fault(kind="http", status=401)))).turn("go")


async def test_the_journal_tells_what_was_said_and_done_in_order():
    journal = JournalList()
    first = Entry(
        when=When(turn=1),
        thinking="hm",
        text="I call.",
        tool_calls=(WrittenCall("echo", {"text": "a"}),),
        usage=WrittenUsage(input_tokens=7, output_tokens=2),
    )
    await agent(tape(first, Entry(text="done")), ECHO, journal=journal).turn("go")
    assert [entry["type"] for entry in journal.entries] == [
        *("prompt", "thinking", "text", "tool_call", "usage", "tool_result"),
        *("text", "usage"),
    ]
    assert journal.entries[0] == {"type": "prompt", "text": "go"}
    assert journal.entries[3] == {"type": "tool_call", "id": "call-1-1", "name": "echo", "args": {"text": "a"}}
    assert journal.entries[4]["input_tokens"] == 7
    assert journal.entries[5] == {
        "type": "tool_result",
        "id": "call-1-1",
        "name": "echo",
        "content": "<a>",
        "failed": False,
    }
