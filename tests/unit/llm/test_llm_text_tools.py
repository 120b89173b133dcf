"""Tools as text: which texts are calls, and what a request says of tools."""

import json

import pytest

from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Request,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    UserMessage,
)
from scaffold.core.tool import Tool, ToolOutput
from scaffold.llm.wire.chat_completions import ChatCodec
from scaffold.llm.wire.codec import ModelTarget, ServerSentEvent
from scaffold.llm.wire.text_tools import TextToolsCodec

CODEC = TextToolsCodec(ChatCodec(local=True))
TARGET = ModelTarget(name="tiny", model="local:tiny", thinking_tags=True)


def call(name="look", **args):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': args})}\n</tool_call>"


CALL = call(path="a.txt")
FENCED = f"```\n{CALL}\n```"


def read(text, size=None, finish="stop"):
    """Return the reply to a stream in pieces of `size` characters, and its deltas."""
    reader, deltas = CODEC.reader(TARGET), []
    for at in range(0, len(text), size or max(1, len(text))):
        piece = {"choices": [{"delta": {"content": text[at : at + (size or len(text))]}}]}
        deltas += reader.feed(ServerSentEvent("", json.dumps(piece)))
    deltas += reader.feed(ServerSentEvent("", json.dumps({"choices": [{"delta": {}, "finish_reason": finish}]})))
    return reader.end(), deltas


def called(reply):
    return [(each.name, each.args) for each in reply.message.tool_calls]


@pytest.mark.parametrize(
    ("text", "calls", "rest"),
    [
        (CALL, [("look", {"path": "a.txt"})], ""),
        (f"I look.\n{CALL}\n", [("look", {"path": "a.txt"})], "I look."),
        (f" {CALL}", [("look", {"path": "a.txt"})], ""),
        (f"{CALL}\n{call('list')}", [("look", {"path": "a.txt"}), ("list", {})], ""),
        (f"{CALL}{call('list')}", [("look", {"path": "a.txt"}), ("list", {})], ""),
        ('<tool_call>{"name": "look", "arguments": {}}</tool_call>', [("look", {})], ""),
        (call("write", content=f"Write:\n{CALL}\n"), [("write", {"content": f"Write:\n{CALL}\n"})], ""),
        (f"Not this:\n{FENCED}\n{CALL}", [("look", {"path": "a.txt"})], f"Not this:\n{FENCED}"),
        (f"<think>Shall I?\n{call('list')}</think>{CALL}", [("look", {"path": "a.txt"})], ""),
    ],
)
def test_calls_at_the_end_of_a_reply_are_calls_however_the_stream_is_cut(text, calls, rest):
    """BX-30: parallel calls, calls in one line, a call whose argument quotes the format, a block before the call."""
    for size in (None, 1, 3, 7):
        reply, deltas = read(text, size)
        assert (called(reply), reply.message.text.strip(), reply.stop) == (calls, rest, "tool_calls")
        shown = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
        assert shown.strip() == rest
        assert "".join(delta.arguments for delta in deltas if isinstance(delta, ToolCallDelta))
    body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    assert called(CODEC.reader(TARGET).whole(json.dumps(body).encode())) == calls


@pytest.mark.parametrize(
    "text",
    [
        FENCED,
        f"It is:\n{FENCED}\nThat is all.",
        f"~~~~xml\n~~~\n{CALL}\n~~~~",
        f"```\n{CALL}",
        "".join(f"    {line}\n" for line in CALL.splitlines()),
        "Write `<tool_call>` and then JSON.",
        f"> {CALL}",
        f"<think>{CALL}</think>I did nothing.",
        "<tool",
    ],
)
def test_a_text_that_quotes_the_format_is_not_a_call(text):
    """BX-30: in a code block, in a line, in a thought."""
    for size in (None, 1, 5):
        reply, _ = read(text, size)
        assert (called(reply), reply.stop) == ([], "end")


@pytest.mark.parametrize(
    "text",
    [
        f"{CALL}\nThe file says that all is well.",
        "<tool_call>\n{'name': 'look'}\n</tool_call>",
        '<tool_call>\n{"name": "look", "arguments": {"path": "a\n',
        '<tool_call>\n{"name": "look", "arguments": {}}',
        '<tool_call>\n{"name": "look", "args": {}}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": "all", "id": 1}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": {"n": NaN}}\n</tool_call>',
        '<tool_call>\n{"name": "look", "arguments": {"n": ' + "[" * 200 + "]" * 200 + "}}\n</tool_call>",
        f"{CALL}\n<tool_call>\nlook\n</tool_call>",
        "<tool_call>look</tool_call>",
    ],
)
def test_a_call_that_cannot_be_read_is_malformed_and_none_of_its_reply_runs(text):
    """BX-30: parsed strictly; the text is kept as it came."""
    reply, _ = read(text, 4)
    assert (called(reply), reply.stop, reply.message.text) == ([], "malformed", text)


def test_a_reply_that_was_cut_has_no_calls():
    reply, _ = read(CALL, finish="length")
    assert (called(reply), reply.stop) == ([], "max_tokens")


async def nothing(args):
    return ToolOutput("")


def test_a_request_describes_the_tools_and_has_calls_and_results_as_text():
    """BX-30: a history of native calls goes on as well; the wire has no tools and no roles of theirs."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
    tool = Tool(name="look", description="Look.", schema=schema, category="file_read", run=nothing)
    calls = (ToolCall("c1", "look", {"path": "a.txt"}), ToolCall("c2", "look", {"path": "b.txt"}))
    messages = (
        UserMessage((Text("Look."),)),
        AssistantMessage((Thinking("Hm."), Text("I look."), *calls)),
        UserMessage((ToolResult("c1", "look", "one"), ToolResult("c2", "look", "two"), Text("And?"))),
    )
    request = Request(
        caller=Caller(role="agent"),
        system="Be good.",
        context="Here.",
        reminder="Todo.",
        messages=messages,
        tools=(tool,),
    )
    body = json.loads(CODEC.request(request, [CODEC.message(each, TARGET) for each in messages], TARGET))
    assert "tools" not in body
    base, here, *talk = body["messages"]
    assert base["content"].startswith("Be good.\n\n# Tools\n")
    about = {"name": "look", "description": "Look.", "properties": schema["properties"]}
    assert json.loads(base["content"].splitlines()[-1]) == about
    assert here["content"] == "Here."
    assert [each["role"] for each in talk] == ["user", "assistant", "user"]
    again = {"choices": [{"message": {"content": talk[1]["content"]}, "finish_reason": "stop"}]}
    assert called(CODEC.reader(TARGET).whole(json.dumps(again).encode())) == [(each.name, each.args) for each in calls]
    response = "<tool_response>\n{}\n</tool_response>"
    assert talk[2]["content"] == "\n".join([response.format("one"), response.format("two"), "And?", "\nTodo."])
