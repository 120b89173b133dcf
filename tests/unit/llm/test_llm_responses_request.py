import json

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
from scaffold.llm.wire.codec import ModelTarget
from scaffold.llm.wire.responses import ResponsesCodec


def model(name, **fields):
    """Return a model as its card describes it."""
    return ModelTarget(name=name, model=f"openai:{name}", thinking=thinking_support("openai", name), **fields)


TARGET = model("gpt-5")


async def nothing(arguments):
    return ToolOutput("")


LOOK = Tool(name="look", description="Look.", schema={"type": "object"}, category="file_read", run=nothing)


def body_of(
    *messages: Message, codec: ResponsesCodec | None = None, target: ModelTarget = TARGET, **fields: object
) -> bytes:
    codec = codec or ResponsesCodec()
    given: dict = {"caller": Caller(role="agent"), "system": "Base.", "messages": messages} | fields
    return codec.request(Request(**given), [codec.message(message, target) for message in messages], target)


def asked(
    *messages: Message, codec: ResponsesCodec | None = None, target: ModelTarget = TARGET, **fields: object
) -> dict:
    return json.loads(body_of(*messages, codec=codec, target=target, **fields))


def user(*parts):
    return UserMessage(tuple(Text(part) if isinstance(part, str) else part for part in parts))


def replied(*parts, model=TARGET.model):
    return AssistantMessage(tuple(Text(part) if isinstance(part, str) else part for part in parts), model)


def said(role, text):
    content = text if role == "assistant" else [{"type": "input_text", "text": text}]
    return {"type": "message", "role": role, "content": content}


def test_the_instructions_are_only_the_base_prompt_and_the_context_comes_last():
    """RA-3: Responses joins everything dynamic into one prefix, which would then never be cached."""
    body = asked(user("Hello"), replied("Hi"), user("Go on"), context="Todos: none.")
    assert body["instructions"] == "Base."
    assert body["input"] == [
        said("user", "Hello"),
        said("assistant", "Hi"),
        said("user", "Go on"),
        said("developer", "Todos: none."),
    ]


def test_a_longer_conversation_with_another_context_begins_with_the_same_bytes():
    """RA-3: all that was sent before is byte-identical in the next request, up to the context."""
    before = body_of(user("Hello"), replied("Hi"), context="one", tools=(LOOK,))
    after = body_of(user("Hello"), replied("Hi"), user("Go on"), context="two", tools=(LOOK,))
    shared = before.index(b',{"type":"message","role":"developer"')
    assert before[:shared] == after[:shared]


def test_each_conversation_has_a_stable_cache_key():
    """RA-3."""
    first, later, other = asked(user("A")), asked(user("A"), replied("B"), context="c"), asked(user("Z"))
    assert first["prompt_cache_key"] == later["prompt_cache_key"] != other["prompt_cache_key"]
    assert asked()["prompt_cache_key"]


def test_models_without_reasoning_are_not_asked_for_it():
    names = ["gpt-4.1-mini", "gpt-4o", "chatgpt-4o-latest", "ft:gpt-4o:us"]
    assert [
        name
        for name in names
        if "include" in asked(user("Hello"), target=model(name), effort="high")
        or "reasoning" in asked(user("Hello"), target=model(name), effort="high")
    ] == []


def test_without_streaming_no_stream_options_are_sent():
    """RA-2: `--no-stream`."""
    target = ModelTarget(name="gpt-5", model="openai:gpt-5", stream=False)
    assert "stream" not in asked(user("Hello"), target=target)


def test_codex_always_streams_and_takes_no_length_limit():
    """RA-1: instructions, input and flat tools."""
    target = ModelTarget(name="gpt-5-codex", model="codex:gpt-5-codex", stream=False)
    body = asked(user("Hello"), codec=ResponsesCodec(codex=True), target=target, max_output_tokens=100, tools=(LOOK,))
    assert body["stream"] is True
    assert body["instructions"] == "Base."
    assert body["tools"][0]["name"] == "look"
    assert "max_output_tokens" not in body


def test_codex_gets_its_own_items_back_unchanged():
    content = [{"type": "output_text", "text": "Yes."}]
    assert asked(replied("Yes."), codec=ResponsesCodec(codex=True))["input"][0]["content"] == content


def test_effort_is_expressed_as_the_model_expects_it():
    """RA-2."""
    rows = [
        ("gpt-5", {"auto": "medium", "low": "low", "high": "high", "off": "minimal"}),
        ("gpt-5.1-codex-mini", {"auto": "medium", "low": "low", "high": "high", "off": "low"}),
        ("gpt-5.1", {"auto": "medium", "low": "low", "high": "high", "off": "none"}),
        ("gpt-6.1-sol", {"auto": "medium", "low": "low", "high": "high", "off": "none"}),
        ("gpt-5-pro", {"auto": "high", "low": "high", "high": "high", "off": "high"}),
        ("gpt-5.4-pro", {"auto": "medium", "low": "medium", "high": "high", "off": "medium"}),
        ("o4-mini", {"auto": "medium", "low": "low", "high": "high", "off": "low"}),
        ("gpt-4.1", {"auto": None, "low": None, "high": None, "off": None}),
        ("gpt-5.2-chat-latest", {"auto": None, "low": None, "high": None, "off": None}),
        ("o1-mini", {"auto": None, "low": None, "high": None, "off": None}),
        ("house-model", {"auto": None, "low": "low", "high": "high", "off": "none"}),
    ]
    for name, efforts in rows:
        bodies = {effort: asked(user("Hello"), target=model(name), effort=effort) for effort in efforts}
        assert {effort: body.get("reasoning", {}).get("effort") for effort, body in bodies.items()} == efforts, name
        assert "reasoning" not in asked(user("Hello"), target=model(name)), name


def test_what_an_error_names_is_left_out():
    """RA-21."""
    whole = {"effort": "high", "summary": "auto"}
    for error, reasoning, included in [
        ("Your organization must be verified to generate reasoning summaries.", {"effort": "high"}, True),
        ("Encrypted content is not supported: include 'reasoning.encrypted_content'", whole, False),
        ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", None, True),
    ]:
        body = asked(user("Hello"), target=ResponsesCodec().adapted(TARGET, error), effort="high")
        assert (body.get("reasoning"), "include" in body) == (reasoning, included), error
    assert ResponsesCodec().adapted(TARGET, "input: too many") is None


def test_a_reminder_follows_the_context():
    """RA-3, RA-5: both come after the history."""
    end = asked(user("Hello"), context="It is Sunday.", reminder="Open: two.")["input"][-1]
    assert [part["text"] for part in end["content"]] == ["It is Sunday.", "Open: two."]
    assert asked(user("Hello"), reminder="Open: two.")["input"][-1]["content"] == [
        {"type": "input_text", "text": "Open: two."}
    ]


def test_encrypted_reasoning_goes_back_to_its_model_before_the_items_that_followed():
    """RA-1."""
    reply = replied(
        Thinking("Hm.", signature="s1", id="rs_1"), "So.", Thinking("", signature="s2"), ToolCall("call_1", "look", {})
    )
    assert asked(reply)["input"] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "s1",
        },
        said("assistant", "So."),
        {"type": "reasoning", "summary": [], "encrypted_content": "s2"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
    ]


def test_reasoning_of_other_models_unencrypted_or_at_the_end_is_not_sent():
    """RA-1: the provider refuses reasoning that is not encrypted, or that no item follows."""
    replies = [
        replied(Thinking("Hm.", signature="s", id="rs_1"), "So.", model="openai:gpt-5.1"),
        replied(Thinking("Hm.", signature="s", id="rs_1"), "So.", model=""),
        replied(Thinking("Hm.", id="rs_1"), "So."),
        replied("So.", Thinking("Hm.", signature="s", id="rs_1")),
        replied("So.", Thinking("Hm.", signature="s", id="rs_1"), ""),
    ]
    assert [reply for reply in replies if asked(reply)["input"] != [said("assistant", "So.")]] == []


def test_ids_from_another_wire_are_replaced_consistently_in_calls_and_results():
    for foreign in ["x" * 65, "functions.look:0", "ä", "", "line\n"]:
        call, result = asked(replied(ToolCall(foreign, "look", {})), user(ToolResult(foreign, "look", "seen")))["input"]
        assert call["call_id"] == result["call_id"] != foreign, foreign
        assert len(call["call_id"]) <= 64, foreign


def test_an_unpaired_surrogate_does_not_break_the_request():
    assert asked(user("name-\udcff.txt"), system="\udcff")["input"] == [said("user", "name-?.txt")]
