"""The results a model gets for its tool calls, valid or not."""

import asyncio

from inline_snapshot import snapshot

from fakes import ECHO, RecordingModel, ScriptedModel, agent, call_entry, cassette_model, text_reply, tool
from scaffold.agent.toolbox import RESULT_LIMIT
from scaffold.core.conversation import Text, ToolCall
from scaffold.core.tool import ToolOutput
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.llm.wire.format import parse_arguments


def results_of(request):
    """Return the tool results a request carries in its last message."""
    return [(part.name, part.content, part.failed) for part in request.messages[-1].parts]


async def test_unknown_tools_and_wrong_arguments_come_back_as_failed_results():
    calls = (("ecko", {}), ("echo", {"txt": "a"}), ("echo", {"text": "fine"}))
    model = RecordingModel(cassette_model(call_entry(1, *calls), CassetteEntry(text="ok")))
    await agent(model, ECHO).turn("go")
    unknown, wrong, right = results_of(model.requests[1])
    assert unknown == snapshot(
        ("ecko", "There is no tool `ecko`. Did you mean `echo`? echo needs `text` (string). The tools are: echo.", True)
    )
    assert wrong == snapshot(("echo", "Not run: echo needs `text` (string); echo has no `txt`, it takes `text`.", True))
    assert right == ("echo", "<fine>", False)


async def test_whatever_a_tool_answers_becomes_a_result_and_the_turn_continues():
    """RA-4: a failed output, too much text, names that cannot be decoded, a crash."""

    async def refuse():
        return ToolOutput("no", failed=True)

    async def flood():
        return ToolOutput("x" * 1_000_000)

    async def odd():
        return ToolOutput("caf\udce9")

    async def burst():
        raise KeyError("no such thing")

    made = [tool(work.__name__, work) for work in (refuse, flood, odd, burst)]
    calls = [(each.name, {}) for each in made]
    model = RecordingModel(cassette_model(call_entry(1, *calls, ("echo", {"text": "b"})), CassetteEntry(text="ok")))
    await agent(model, *made, ECHO).turn("go")
    refused, (_, long, _), *others = results_of(model.requests[1])
    assert refused == ("refuse", "no", True)
    assert len(long) < RESULT_LIMIT + 100
    assert "characters omitted" in long
    assert others == snapshot(
        [
            ("odd", "caf\\udce9", False),
            ("burst", "burst crashed: KeyError: 'no such thing'", True),
            ("echo", "<b>", False),
        ]
    )


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
