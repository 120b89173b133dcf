import json

from msgspec import structs

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
from scaffold.llm.wire.chat_completions import ChatCodec
from scaffold.llm.wire.codec import ModelTarget

TARGET = ModelTarget(name="gpt-5", model="openai-chat:gpt-5", thinking=thinking_support("openai", "gpt-5"))
STRICT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


async def nothing(arguments):
    return ToolOutput("")


LOOK = Tool(name="look", description="Look.", schema={"type": "object"}, category="file_read", run=nothing)


def asked(*messages: Message, codec: ChatCodec | None = None, target: ModelTarget = TARGET, **fields: object) -> dict:
    codec = codec or ChatCodec()
    given: dict = {"caller": Caller(role="agent"), "system": "Base.", "messages": messages} | fields
    pieces = [codec.message(message, target) for message in messages]
    return json.loads(codec.request(Request(**given), pieces, target))


def user(*parts):
    return UserMessage(tuple(Text(part) if isinstance(part, str) else part for part in parts))


def replied(*parts, model=TARGET.model):
    return AssistantMessage(tuple(Text(part) if isinstance(part, str) else part for part in parts), model)


def test_requests_share_a_prefix_whatever_the_context_and_history():
    """RA-3: the prefix providers cache is byte-identical over a session."""
    codec, first = ChatCodec(), user("Hello")
    pieces = [codec.message(first, TARGET), codec.message(replied("Hi"), TARGET)]
    bodies = [
        codec.request(
            Request(caller=Caller(role="agent"), system="Base.", context=context, messages=(), tools=(LOOK,)),
            pieces[:count],
            TARGET,
        )
        for context, count in (("one", 1), ("another", 2), ("", 2))
    ]
    shared = bodies[0][: bodies[0].index(b"Base.") + len(b'Base."}')]
    assert all(body.startswith(shared) for body in bodies)


def test_without_a_context_there_is_one_system_message_and_without_a_prompt_none():
    assert [said["role"] for said in asked(user("Hello"))["messages"]] == ["system", "user"]
    assert [said["role"] for said in asked(user("Hello"), system="")["messages"]] == ["user"]


def test_without_streaming_no_stream_options_are_sent():
    """RA-2: `--no-stream`."""
    target = ModelTarget(name="gpt-5", model="openai-chat:gpt-5", stream=False)
    assert asked(user("Hello"), target=target).keys() == {"model", "messages"}


def test_a_schema_is_strict_if_the_provider_can_enforce_it():
    rows = [
        (STRICT, True),
        (STRICT | {"required": []}, False),
        ({"type": "object", "properties": {}}, False),
        (STRICT | {"properties": {"n": {"type": "object"}}}, False),
        (STRICT | {"properties": {"n": {"type": ["object", "null"]}}}, False),
        (STRICT | {"properties": {"n": {"type": "array", "items": STRICT}}}, True),
        (STRICT | {"properties": {"n": {"type": "array", "items": {"type": "object"}}}}, False),
        (STRICT | {"properties": {"n": {"anyOf": [STRICT, {"type": "null"}]}}}, True),
        (STRICT | {"properties": {"n": {}}}, False),
        (STRICT | {"properties": {"n": {"type": "array", "items": True}}}, False),
        (STRICT | {"properties": {"n": {"type": "string", "minLength": 1}}}, False),
        (STRICT | {"properties": {"n": {"$ref": "#/$defs/m"}}, "$defs": {"m": {"type": "object"}}}, False),
        ({"anyOf": [STRICT]}, False),
    ]
    for schema, strict in rows:
        wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}
        assert asked(user("Hello"), answer_schema=schema)["response_format"] == wanted, schema


def test_the_length_limit_has_another_name_on_local_servers():
    for local, name in [(False, "max_completion_tokens"), (True, "max_tokens")]:
        assert asked(user("Hello"), codec=ChatCodec(local=local), max_output_tokens=100)[name] == 100


def test_the_output_limit_does_not_exceed_the_models():
    for wanted, most, sent in [(100, 50, 50), (50, 100, 50), (50, None, 50), (None, 100, None)]:
        body = asked(user("Hello"), target=structs.replace(TARGET, max_output_tokens=most), max_output_tokens=wanted)
        assert body.get("max_completion_tokens") == sent, (wanted, most)


def test_effort_is_expressed_as_the_model_expects_it():
    """RA-2: from GPT-5.2 on, models refuse tools on this wire while they think."""
    rows = [
        ("gpt-5", (), {"auto": "medium", "low": "low", "off": "minimal"}),
        ("gpt-5", (LOOK,), {"auto": "medium", "low": "low", "off": "minimal"}),
        ("gpt-5.6-sol", (), {"auto": "medium", "low": "low", "off": "none"}),
        ("gpt-5.6-sol", (LOOK,), {"auto": "none", "low": "none", "off": "none"}),
        ("gpt-4.1", (), {"auto": None, "low": None, "off": None}),
        ("some-model", (LOOK,), {"auto": None, "low": "low", "off": "none"}),
    ]
    for name, tools, efforts in rows:
        target = ModelTarget(name=name, model=f"openai-chat:{name}", thinking=thinking_support("openai", name))
        bodies = {effort: asked(user("Hello"), target=target, tools=tools, effort=effort) for effort in efforts}
        assert {effort: body.get("reasoning_effort") for effort, body in bodies.items()} == efforts, name


def test_a_local_server_is_told_to_turn_thinking_off_in_its_models_template():
    """RA-2."""
    given = {"codec": ChatCodec(local=True), "target": ModelTarget(name="qwen", model="local:qwen@http://h/v1")}
    assert asked(user("Hello"), effort="off", **given)["chat_template_kwargs"] == {"enable_thinking": False}
    assert "chat_template_kwargs" not in asked(user("Hello"), effort="low", **given)


def test_thoughts_go_back_in_the_field_they_came_in():
    """RA-2: servers such as DeepSeek's refuse a history of calls without them."""
    for field in ["reasoning_content", "reasoning"]:
        thoughts = Thinking("Let me", field=field), Thinking(" look.", field=field)
        reply = replied(*thoughts, ToolCall("call_1", "look", {}))
        assert asked(reply)["messages"][1][field] == "Let me look."
        assert field not in asked(AssistantMessage(reply.parts, "local:other@http://h/v1"))["messages"][1]


def test_what_an_error_names_is_left_out():
    """RA-21."""
    for error, thoughts, effort in [
        ("Extra inputs are not permitted: messages.1.reasoning_content", None, "low"),
        ("Unsupported parameter: 'reasoning_effort'", "Hm.", None),
    ]:
        reply = replied(Thinking("Hm.", field="reasoning_content"), "Yes.")
        body = asked(reply, target=ChatCodec().adapted(TARGET, error), effort="low")
        found = (body["messages"][1].get("reasoning_content"), body.get("reasoning_effort"))
        assert found == (thoughts, effort), error
    assert ChatCodec().adapted(TARGET, "messages: too many") is None


def test_a_server_that_misses_thoughts_gets_the_field_with_every_reply():
    """RA-21: a conversation begun with another model goes on."""
    error = "The `reasoning_content` in the thinking mode must be passed back to the API."
    target = ChatCodec().adapted(TARGET, error)
    body = asked(AssistantMessage((Text("Yes."),), "other:m"), target=target)
    assert body["messages"][1] == {"role": "assistant", "content": "Yes.", "reasoning_content": ""}


def test_a_server_that_misses_signatures_gets_a_stand_in_with_the_calls_of_others():
    """RA-21: a conversation begun with another model goes on; Gemini names this text for it."""
    error = "Function call is missing a thought_signature in functionCall parts. This is required for tools"
    target = ChatCodec().adapted(TARGET, error)
    signed = {"extra_content": {"google": {"thought_signature": "SIG"}}}
    calls = (ToolCall("c1", "look", {}),)
    body = asked(
        AssistantMessage(calls, "other:m", opaque={"c1": signed}),
        AssistantMessage(calls, TARGET.model, opaque={"c1": signed}),
        target=target,
    )
    ((other,), (own,)) = (message["tool_calls"] for message in body["messages"][1:])
    assert other["extra_content"] == {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert own["extra_content"] == signed["extra_content"]


def test_a_reminder_is_at_the_end_of_the_last_message():
    """RA-3, RA-5: behind the cached prefix; one more message would be refused by some models' templates."""
    for message, end in [
        (user("Hello"), {"role": "user", "content": "Hello\n\nOpen: two."}),
        (
            user(ToolResult("call_1", "look", "seen")),
            {"role": "tool", "tool_call_id": "call_1", "content": "seen\n\nOpen: two."},
        ),
    ]:
        without = asked(user("Go"), message)["messages"][:-1]
        assert asked(user("Go"), message, reminder="Open: two.")["messages"] == [*without, end]


def test_thinking_of_another_wire_is_not_sent_back():
    said = asked(replied(Thinking("Hm.", signature="s"), "Yes.", Thinking("So."), "No."))["messages"][1]
    assert said == {"role": "assistant", "content": "Yes.\nNo."}


def test_ids_from_another_wire_are_replaced_consistently_in_calls_and_results():
    for foreign in ["call_" + "x" * 60, "with space", "ä", "", "line\n"]:
        body = asked(replied(ToolCall(foreign, "look", {})), user(ToolResult(foreign, "look", "seen")))
        called, result = body["messages"][1]["tool_calls"][0]["id"], body["messages"][2]["tool_call_id"]
        assert called == result != foreign
        assert called.startswith("call_"), foreign
        assert len(called) <= 64, foreign


def test_valid_ids_are_not_changed():
    for own in ["toolu_01A", "functions.look:0", "x" * 64]:
        assert asked(replied(ToolCall(own, "look", {})))["messages"][1]["tool_calls"][0]["id"] == own


def test_invented_tool_names_are_sent_in_a_valid_form():
    for made_up, sent in [("a.b c", "a_b_c"), ("", "unknown"), ("x" * 80, "x" * 64)]:
        said = asked(replied(ToolCall("call_1", made_up, {})))["messages"][1]
        assert said["tool_calls"][0]["function"]["name"] == sent, made_up


def test_an_unpaired_surrogate_does_not_break_the_request():
    assert asked(user("name-\udcff.txt"))["messages"][1]["content"] == "name-?.txt"
