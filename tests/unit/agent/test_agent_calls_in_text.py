import json

from fakes import ECHO, RecordingModel, ScriptedModel, agent, text_reply
from scaffold.agent.reply_problems import CALL_IN_TEXT, call_in_text
from scaffold.core.conversation import Text, ToolCall, UserMessage

CALL = {"name": "echo", "arguments": {"text": "a"}}
WRITTEN = json.dumps(CALL)


def test_a_call_of_a_tool_is_found_in_a_text_and_no_other():
    calls = [
        WRITTEN,
        f"I will do it.\n```json\n{json.dumps(CALL, indent=2)}\n```",
        f"<tool_call>\n{WRITTEN}\n</tool_call>",
        f"[{WRITTEN}]",
        json.dumps({"type": "function", "function": CALL}),
        json.dumps({"tool_calls": [CALL]}),
        json.dumps({"tool": "echo", "args": {}}),
        json.dumps({"name": "echo", "arguments": json.dumps({"text": "a"})}),
        f"First {{this}}, then [that]: {WRITTEN}",
    ]
    others = [
        "",
        "done",
        "{" * 100_000,
        json.dumps({"name": "other", "arguments": {}}),
        json.dumps({"name": "echo"}),
        json.dumps({"name": "echo", "version": "1.0"}),
        json.dumps({"name": ["echo"], "arguments": {}}),
        f"{WRITTEN[:-3]}",
    ]
    assert [text for text in calls if call_in_text(text, {"echo"}) != "echo"] == []
    assert [text for text in others if call_in_text(text, {"echo"})] == []


async def test_a_model_that_writes_a_call_into_its_text_is_told_and_may_call():
    """RA-2: the text of the call is not the answer, and it is never run."""
    call = ToolCall("1", "echo", {"text": "a"})
    model = RecordingModel(ScriptedModel(text_reply(Text(WRITTEN)), text_reply(call), text_reply(Text("done"))))
    finish = await agent(model, ECHO).turn("go")
    assert (finish.text, finish.requests) == ("done", 3)
    assert model.requests[1].messages[-1] == UserMessage((Text(CALL_IN_TEXT, "note"),))


async def test_a_text_that_is_the_answer_is_taken_the_second_time():
    """RA-2: an answer may show how a call looks."""
    finish = await agent(ScriptedModel(text_reply(Text(WRITTEN)), text_reply(Text(WRITTEN))), ECHO).turn("go")
    assert (finish.text, finish.requests) == (WRITTEN, 2)
