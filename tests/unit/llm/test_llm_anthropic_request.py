"""Requests on the Anthropic wire; comparison with the official SDK is a property test."""

import json
import re
from typing import Any

from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Message,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
)
from scaffold.core.tool import Tool, ToolOutput
from scaffold.llm.registry.thinking import thinking_support
from scaffold.llm.wire.anthropic import AnthropicCodec
from scaffold.llm.wire.codec import ModelTarget

CODEC = AnthropicCodec()
ME = "anthropic:claude-sonnet-4-6"


def model(name: str, **fields: Any) -> ModelTarget:
    """Return a model as its card describes it."""
    return ModelTarget(name=name, model=f"anthropic:{name}", thinking=thinking_support("anthropic", name), **fields)


TARGET = model("claude-sonnet-4-6")
CACHED = {"type": "ephemeral"}


async def nothing(args: object) -> ToolOutput:
    return ToolOutput("")


def tool(name: str) -> Tool:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
    return Tool(name=name, description=f"Does {name}.", schema=schema, category="file_read", run=nothing)


def asked(*messages: Message, target: ModelTarget = TARGET, **fields: Any) -> dict[str, Any]:
    """Return the body of a request, as an object."""
    given = {"caller": Caller(role="agent"), "system": "Be good."} | fields
    request = Request(messages=messages, **given)
    pieces = [CODEC.message(message, target) for message in messages]
    body: dict[str, Any] = json.loads(CODEC.request(request, pieces, target))
    return body


def words(text: str) -> UserMessage:
    return UserMessage((Text(text),))


def mine(*parts: Text | Thinking | ToolCall) -> AssistantMessage:
    return AssistantMessage(parts, ME)


def sent(message: Message, target: ModelTarget = TARGET) -> list[dict[str, Any]]:
    """Return a message's blocks as sent in the middle of a conversation."""
    piece = CODEC.message(message, target)
    blocks: list[dict[str, Any]] = json.loads(piece)["content"] if piece else []
    return blocks


def test_cache_marks_are_on_the_base_prompt_the_last_tool_and_the_last_two_messages():
    """RA-3."""
    said = [
        words("one"),
        mine(Text("two")),
        UserMessage((Text("three"), Text("four"))),
        mine(Text("five")),
        words("six"),
    ]
    body = asked(*said, context="It is Sunday.", tools=[tool("read"), tool("find")])
    assert body["system"] == [
        {"type": "text", "text": "Be good.", "cache_control": CACHED},
        {"type": "text", "text": "It is Sunday."},
    ]
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, CACHED]
    marks = [block.get("cache_control") for message in body["messages"] for block in message["content"]]
    assert marks == [None, None, None, CACHED, None, CACHED]


def test_a_reminder_comes_behind_everything_that_is_cached():
    """RA-3, RA-5: the next request finds the prefix as it was."""
    said = [words("one"), mine(ToolCall("c1", "read", {})), UserMessage((ToolResult("c1", "read", "x"),))]
    first, second = (asked(*said, reminder=reminder) for reminder in ("", "Open: two."))
    end = second["messages"].pop()["content"]
    assert end == [*first["messages"].pop()["content"], {"type": "text", "text": "Open: two."}]
    assert end[0]["cache_control"] == CACHED
    assert second == first


def test_the_base_prompt_is_the_same_bytes_whatever_the_context():
    """RA-3."""
    requests = [Request(caller=Caller(role="agent"), system="Grüß", context=c, messages=()) for c in ("", "a", "b")]
    base = b'{"type":"text","text":"Gr\xc3\xbc\xc3\x9f","cache_control":{"type":"ephemeral"}}'
    assert all(base in CODEC.request(request, [], TARGET) for request in requests)


def test_pieces_are_sent_as_they_were_encoded_but_for_those_that_are_marked():
    """RA-3: history is append-only; a turn costs what is new."""
    messages = (words("zero"), words("one"), mine(Text("two")), words("three"))
    pieces = [b'{"role":"user","content":"not encoded again"}', b"replaced", b"{}", b"replaced"]
    body = json.loads(CODEC.request(Request(caller=Caller(role="agent"), system="", messages=messages), pieces, TARGET))
    assert body["messages"] == [
        {"role": "user", "content": "not encoded again"},
        {"role": "user", "content": [{"type": "text", "text": "one", "cache_control": CACHED}]},
        {},
        {"role": "user", "content": [{"type": "text", "text": "three", "cache_control": CACHED}]},
    ]


def test_text_that_utf_8_cannot_encode_does_not_break_a_request():
    """RA-1: a folder's name may be any bytes."""
    body = asked(words("half \udcff"), context="Working directory: /tmp/\udcff")
    assert body["system"][1]["text"] == "Working directory: /tmp/?"
    assert body["messages"][0]["content"][0]["text"] == "half ?"


def test_unset_options_are_omitted():
    body = asked(words("hi"), system=" ", target=model("claude-sonnet-4-6", stream=False))
    assert set(body) == {"model", "max_tokens", "messages"}
    assert body["model"] == "claude-sonnet-4-6"
    assert asked(words("hi"))["stream"] is True
    assert asked()["messages"] == []


def test_the_output_limit_is_what_is_wanted_and_possible():
    expected = {
        (None, None): 8192,
        (None, 64_000): 64_000,
        (500, None): 500,
        (500, 64_000): 500,
        (99_000, 64_000): 64_000,
    }
    assert {
        (wanted, possible): asked(
            words("hi"), target=model("claude-sonnet-4-6", max_output_tokens=possible), max_output_tokens=wanted
        )["max_tokens"]
        for wanted, possible in expected
    } == expected


def test_effort_is_expressed_as_the_model_expects_it():
    """RA-2."""
    rows = [
        ("claude-sonnet-4-6", {"type": "adaptive", "display": "summarized"}, "medium"),
        ("claude-opus-4-10", {"type": "adaptive", "display": "summarized"}, "medium"),
        ("claude-fable-5", {"type": "adaptive", "display": "summarized"}, "medium"),
        ("claude-opus-12-5-20290101", {"type": "adaptive", "display": "summarized"}, "medium"),
        ("us.anthropic.claude-opus-4-7", {"type": "adaptive", "display": "summarized"}, "medium"),
        ("house-model", {"type": "enabled", "budget_tokens": 10_000}, None),
        ("claude-opus-4.5", {"type": "enabled", "budget_tokens": 10_000}, None),
        ("claude-haiku-4-5-20251001", {"type": "enabled", "budget_tokens": 10_000}, None),
        ("claude-sonnet-4-20250514", {"type": "enabled", "budget_tokens": 10_000}, None),
        ("claude-3-7-sonnet-20250219", {"type": "enabled", "budget_tokens": 10_000}, None),
        ("claude-3-5-haiku-latest", None, None),
    ]
    for name, thinking, effort in rows:
        target = model(name, max_output_tokens=64_000)
        body = asked(words("hi"), target=target, effort="medium")
        assert body.get("thinking") == thinking, name
        assert body.get("output_config") == (None if effort is None else {"effort": effort}), name
        assert "thinking" not in asked(words("hi"), target=target), name


def test_a_thinking_budget_leaves_room_for_the_reply():
    for max_tokens, budget in [(30_000, 10_000), (8192, 4096), (2048, 1024), (2000, None)]:
        target = model("claude-haiku-4-5", max_output_tokens=max_tokens)
        thinking = asked(words("hi"), target=target, effort="medium").get("thinking")
        assert thinking == (budget and {"type": "enabled", "budget_tokens": budget}), max_tokens


def test_calls_without_their_thinking_blocks_turn_thinking_off():
    target, result = model("claude-haiku-4-5", max_output_tokens=30_000), UserMessage((ToolResult("c1", "read", "x"),))
    for speaker, thinks in [("anthropic:claude-haiku-4-5", True), ("openai:gpt-5", False)]:
        reply = AssistantMessage((Thinking("hm", signature="s"), ToolCall("c1", "read", {})), speaker)
        assert ("thinking" in asked(words("hi"), reply, result, target=target, effort="low")) is thinks


def test_a_turn_thinks_on_although_a_reply_to_results_came_without_thoughts():
    """RA-2: without a beta, models with a budget think only at the start of a turn; the setting must not flip."""
    target = model("claude-haiku-4-5", max_output_tokens=30_000)
    me, result = target.model, UserMessage((ToolResult("c1", "read", "x"),))
    started = AssistantMessage((Thinking("hm", signature="s"), ToolCall("c1", "read", {})), me)
    more = AssistantMessage((ToolCall("c2", "read", {}),), me)
    again = UserMessage((ToolResult("c2", "read", "y"),))
    assert "thinking" in asked(words("hi"), started, result, more, again, target=target, effort="low")
    # The same reply at the start of a turn is refused with thinking.
    assert "thinking" not in asked(words("hi"), more, again, target=target, effort="low")


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def test_thinking_is_turned_off_as_the_model_allows():
    """RA-2: a model that always thinks is asked for the least."""
    rows = [
        ("claude-3-5-haiku-latest", None, None),
        ("claude-haiku-4-5", None, None),
        ("claude-opus-4-8", None, None),
        ("claude-opus-5", {"type": "disabled"}, None),
        ("claude-haiku-5-5", {"type": "disabled"}, None),
        ("claude-sonnet-5-5", {"type": "between_tools"}, None),
        ("claude-opus-5-5", ADAPTIVE, "low"),
        ("claude-fable-5-1", ADAPTIVE, "low"),
        ("claude-opus-9", ADAPTIVE, "low"),
        ("house-model", {"type": "disabled"}, None),
    ]
    for name, thinking, effort in rows:
        body = asked(words("hi"), target=model(name, max_output_tokens=64_000), effort="off")
        assert body.get("thinking") == thinking, name
        assert body.get("output_config") == (None if effort is None else {"effort": effort}), name


def test_thinking_is_on_where_the_model_is_known_to_have_it():
    """RA-2: by default, with the effort that the provider recommends."""
    rows = [
        ("claude-3-5-haiku-latest", None),
        ("claude-haiku-4-5", {"type": "enabled", "budget_tokens": 10_000}),
        ("claude-opus-4-6", ADAPTIVE),
        ("claude-opus-9", ADAPTIVE),
        ("house-model", None),
    ]
    for name, thinking in rows:
        body = asked(words("hi"), target=model(name, max_output_tokens=64_000), effort="auto")
        assert body.get("thinking") == thinking, name
        assert "output_config" not in body, name


def test_no_request_has_what_thinking_forbids():
    """RA-2: with thinking, the API refuses a temperature and a forced tool."""
    body = asked(words("hi"), tools=[tool("read")], effort="high")
    assert not {"temperature", "top_p", "top_k", "tool_choice"} & body.keys()


def test_what_an_error_names_is_left_out():
    """RA-21."""
    rows = [
        ('"thinking.type.disabled" is not supported for this model.', "thinking"),
        ("output_config.effort: Extra inputs are not permitted", "output_config.effort"),
        ("Unexpected value(s) `x` for the `anthropic-beta` header", "anthropic-beta"),
        ("messages: at least one message is required", None),
    ]
    for error, left_out in rows:
        adapted = CODEC.adapted(TARGET, error)
        assert (None if adapted is None else adapted.refused) == (None if left_out is None else {left_out}), error
        assert adapted is None or CODEC.adapted(adapted, error) is None, error


def test_a_reply_without_sendable_blocks_is_skipped():
    """The wire refuses empty messages, empty texts, and replies that end in thoughts."""
    unsendable = [
        (),
        (Text(""),),
        (Text(" \n"),),
        (Thinking("hm", signature="sig"),),
        (Thinking("unsealed"), Text("")),
        (Thinking("", signature="x", redacted=True),),
    ]
    for parts in unsendable:
        assert CODEC.message(mine(*parts), TARGET) == b"", parts
        roles = [message["role"] for message in asked(words("a"), mine(*parts), words("b"))["messages"]]
        assert roles == ["user", "user"], parts


def test_unsigned_thinking_is_sent_back_to_its_own_server_only():
    """RA-1: servers that do not sign thoughts want them back, too; Anthropic's own signs all."""
    assert sent(mine(Thinking("hm"), Text("so"))) == [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "so"},
    ]
    assert sent(AssistantMessage((Thinking("hm"), Text("so")), "anthropic:other")) == [{"type": "text", "text": "so"}]


def test_an_empty_user_message_is_sent_as_such():
    empty = [sent(UserMessage(parts)) for parts in ((), (Text(""),), (Text("\n"), Text(" ")))]
    assert empty == [[{"type": "text", "text": "(no words)"}]] * 3


def test_ids_from_other_wires_are_replaced_consistently_in_call_and_result():
    """RA-1, trap (e)."""
    for call_id in ["call|1", "a" * 65, "", "ü", "fc_1:0", "call 1\n"]:
        [call] = sent(AssistantMessage((ToolCall(call_id, "read", {}),), "openai:gpt-5"))
        [result] = sent(UserMessage((ToolResult(call_id, "read", "x"),)))
        assert call["id"] == result["tool_use_id"] != sent(mine(ToolCall(call_id + "x", "read", {})))[0]["id"], call_id
        assert re.fullmatch(r"[A-Za-z0-9_]{1,64}", call["id"]), call_id
    assert sent(mine(ToolCall("toolu_01-A", "read", {})))[0]["id"] == "toolu_01-A"


def test_invented_tool_names_do_not_make_the_history_invalid():
    expected = {"functions.read": "functions_read", "": "unknown", "ü" * 80: "_" * 64}
    assert {name: sent(mine(ToolCall("c1", name, {"a": [1]})))[0]["name"] for name in expected} == expected
