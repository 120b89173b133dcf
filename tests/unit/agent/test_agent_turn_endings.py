"""How a turn goes on after a pause, and after an empty reply."""

import pytest

from fakes import ECHO, RecordingModel, ScriptedModel, agent, text_reply
from scaffold.agent.reply_problems import EMPTY
from scaffold.agent.turn_loop import GO_ON
from scaffold.core.conversation import AssistantMessage, Text, ToolCall, ToolResult, UserMessage
from scaffold.core.errors import ModelError


async def test_a_paused_reply_goes_on():
    """RA-21: `pause_turn` is no end."""
    model = RecordingModel(
        ScriptedModel(text_reply(Text("so far"), stop="paused"), text_reply(Text("and done"), stop="end"))
    )
    finish = await agent(model, ECHO).turn("go")
    assert (finish.text, finish.requests) == ("and done", 2)
    assert model.requests[1].messages[-1] == UserMessage((Text(GO_ON, "note"),))


async def test_a_reply_that_pauses_after_calls_runs_them():
    call = ToolCall("1", "echo", {"text": "a"})
    model = RecordingModel(ScriptedModel(text_reply(call, stop="paused"), text_reply(Text("done"))))
    assert (await agent(model, ECHO).turn("go")).text == "done"
    assert model.requests[1].messages[-1] == UserMessage((ToolResult("1", "echo", "<a>"),))


def empty_after_tools(*later):
    return ScriptedModel(
        text_reply(ToolCall("1", "echo", {"text": "a"}), stop="tool_calls"), text_reply(Text(" \n")), *later
    )


async def test_an_empty_reply_after_tools_is_nudged_once_where_an_answer_is_wanted():
    """RA-2: then it is an error, and the conversation is kept."""
    model = RecordingModel(empty_after_tools(text_reply(Text("done"))))
    finish = await agent(model, ECHO, must_answer=True).turn("go")
    assert (finish.text, finish.requests) == ("done", 3)
    assert model.requests[2].messages[-1] == UserMessage((Text(EMPTY, "note"),))
    worker = agent(empty_after_tools(text_reply()), ECHO, must_answer=True)
    with pytest.raises(ModelError, match="without an answer"):
        await worker.turn("go")
    assert isinstance(worker.conversation.kept[-1], AssistantMessage)


async def test_an_empty_reply_to_the_message_of_a_subagent_is_nudged_too():
    """RA-2: the message is the result of a call of an earlier turn."""
    model = RecordingModel(ScriptedModel(text_reply(), text_reply(Text("it found nothing"))))
    worker = agent(model, ECHO, must_answer=True)
    worker.add_note(Text("your subagent has ended", "agent"))
    assert (await worker.turn(())).text == "it found nothing"
    assert model.requests[1].messages[-1] == UserMessage((Text(EMPTY, "note"),))


async def test_an_empty_reply_is_an_end_without_tools_or_where_no_answer_is_wanted():
    assert (await agent(ScriptedModel(text_reply()), ECHO, must_answer=True).turn("go")).text == ""
    assert (await agent(empty_after_tools(), ECHO).turn("go")).text.strip() == ""
