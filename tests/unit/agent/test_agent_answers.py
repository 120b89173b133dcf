"""The results a model gets for its tool calls, valid or not."""

import asyncio

import pytest
from inline_snapshot import snapshot

from fakes import ECHO, RecordingModel, ScriptedModel, agent, call_entry, cassette_model, text_reply, tool
from scaffold.agent.toolbox import RESULT_LIMIT
from scaffold.core.conversation import Text, ToolCall
from scaffold.core.tool import ToolOutput
from scaffold.llm.cassette.model import CassetteEntry
from scaffold.llm.wire.tool_arguments import parse_arguments


def results_of(request):
    """Return the tool results a request carries in its last message."""
    return [(part.name, part.content, part.failed) for part in request.messages[-1].parts]


async def test_unknown_tools_and_wrong_arguments_come_back_as_failed_results():
    calls = (("ecko", {}), ("echo", {"txt": "a"}), ("echo", {"text": "fine"}))
    model = RecordingModel(cassette_model(call_entry(1, *calls), CassetteEntry(text="ok")))
    await agent(model, ECHO).turn("go")
    unknown, wrong, right = results_of(model.requests[1])
    assert unknown == snapshot(
        (
            "ecko",
            "There is no tool `ecko`. Did you mean `echo`? echo needs `text` (string). The tools are: echo.",
            True,
        )
    )
    assert wrong == snapshot(("echo", "Not run: echo needs `text` (string); echo has no `txt`, it takes `text`.", True))
    assert right == ("echo", "<fine>", False)


async def test_a_failed_output_is_marked_as_failed():
    async def refuse():
        return ToolOutput("no", failed=True)

    model = RecordingModel(cassette_model(call_entry(1, ("refuse", {})), CassetteEntry(text="ok")))
    await agent(model, tool("refuse", refuse)).turn("go")
    assert results_of(model.requests[1]) == [("refuse", "no", True)]


async def test_a_long_result_is_shortened():
    async def flood():
        return ToolOutput("x" * 1_000_000)

    model = RecordingModel(cassette_model(call_entry(1, ("flood", {})), CassetteEntry(text="ok")))
    await agent(model, tool("flood", flood)).turn("go")
    [(_, content, _)] = results_of(model.requests[1])
    assert len(content) < RESULT_LIMIT + 100
    assert "characters omitted" in content


async def test_a_result_with_undecodable_file_names_can_be_encoded():
    async def odd():
        return ToolOutput("caf\udce9")

    model = RecordingModel(cassette_model(call_entry(1, ("odd", {})), CassetteEntry(text="ok")))
    await agent(model, tool("odd", odd)).turn("go")
    assert results_of(model.requests[1]) == [("odd", "caf\\udce9", False)]


async def test_a_tool_that_raises_becomes_a_failed_result_and_the_turn_continues():
    """RA-4."""

    async def burst():
        raise KeyError("no such thing")

    model = RecordingModel(
        cassette_model(call_entry(1, ("burst", {}), ("echo", {"text": "b"})), CassetteEntry(text="ok"))
    )
    await agent(model, tool("burst", burst), ECHO).turn("go")
    broke, fine = results_of(model.requests[1])
    assert broke == snapshot(("burst", "burst crashed: KeyError: 'no such thing'", True))
    assert fine == ("echo", "<b>", False)


async def test_invalid_json_arguments_come_back_with_the_parse_error():
    call = ToolCall("1", "echo", parse_arguments('{"text": '))
    model = RecordingModel(ScriptedModel(text_reply(call, stop="tool_calls"), text_reply(Text("ok"))))
    await agent(model, ECHO).turn("go")
    [(_, content, failed)] = results_of(model.requests[1])
    assert content.startswith("Not run: the arguments are not a JSON object (")
    assert content.endswith('{"text": ')
    assert failed


class Track:
    """Tools that record when they begin and end."""

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


async def test_reads_run_concurrently_and_everything_else_in_order():
    track = Track()
    tools = (
        track.tool("slow", "file_read", 5),
        track.tool("quick", "file_read", 1),
        track.tool("write", "file_write", 3),
        track.tool("sh", "shell", 1),
    )
    calls = [(name, {}) for name in ("slow", "quick", "write", "sh", "quick")]
    model = RecordingModel(cassette_model(call_entry(1, *calls), CassetteEntry(text="ok")))
    await agent(model, *tools).turn("go")
    assert track.steps == [
        *("slow begins", "quick begins", "quick ends", "slow ends"),
        *("write begins", "write ends", "sh begins", "sh ends", "quick begins", "quick ends"),
    ]
    assert [content for _, content, _ in results_of(model.requests[1])] == ["slow", "quick", "write", "sh", "quick"]


@pytest.mark.parametrize("category", ["file_read", "shell"])
async def test_cancelling_a_turn_cancels_the_running_tool(category):
    ended = asyncio.Event()

    async def hang():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    turn = asyncio.create_task(
        agent(cassette_model(call_entry(1, ("hang", {}))), tool("hang", hang, category=category)).turn("go")
    )
    for _ in range(10):
        await asyncio.sleep(0)
    assert not ended.is_set()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ended.is_set()
