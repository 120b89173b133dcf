"""Conversations that repeat themselves."""

import pytest

from fakes import ScriptedModel, text_reply
from scaffold.core.conversation import AssistantMessage, Caller, Request, Text, ToolCall, ToolResult, UserMessage
from scaffold.orchestrator.planning.loop_guard import LoopDetected, LoopGuardModel, find_repeated_tool


def conversation(*exchanges):
    """Return the messages of exchanges: texts, or (tool, argument, answer)s of one reply."""
    messages = []
    for at, exchange in enumerate(exchanges):
        if isinstance(exchange, str):
            messages.append(UserMessage((Text(exchange),)))
            continue
        result = exchange if isinstance(exchange, list) else [exchange]
        ids = [f"call-{at}-{index}" for index in range(len(result))]
        calls = [ToolCall(each, name, {"of": of}) for each, (name, of, _) in zip(ids, result, strict=True)]
        answers = [ToolResult(each, name, answer) for each, (name, _, answer) in zip(ids, result, strict=True)]
        messages += [AssistantMessage(tuple(calls)), UserMessage(tuple(answers))]
    return messages


A, B, C = ("look", "a", "1"), ("look", "b", "2"), ("look", "c", "3")


def test_the_same_call_with_the_same_answer_three_times_in_a_row_is_a_loop():
    """SC-14: equal calls of one reply count once; a different answer or new text resets the count."""
    rows = [
        ((), None),
        (("go", A, A), None),
        (("go", A, A, A), "look"),
        (("go", A, B, A, B, A), "look"),
        (("go", [A, B], [A, B], [A, B]), "look"),
        (("go", A, ("look", "a", "2"), ("look", "a", "3")), None),
        (("go", A, A, B, A, C, A), None),
        (("go", [A, A, A], B), None),
        (("go", A, A, "mend it", A), None),
        (("go", A, "mend it", A, A, A), "look"),
    ]
    assert [(exchanges, find_repeated_tool(conversation(*exchanges))) for exchanges, _ in rows] == rows


async def test_a_model_in_a_loop_is_not_asked_again():
    model = LoopGuardModel(ScriptedModel(text_reply(Text("fine")), text_reply(Text("never"))))
    caller = Caller(role="supervisor")
    reply = await model.reply(Request(caller=caller, system="", messages=conversation("go", A, A)))
    assert reply.message.text == "fine"
    with pytest.raises(LoopDetected, match="`look`"):
        await model.reply(Request(caller=caller, system="", messages=conversation("go", A, A, A)))
