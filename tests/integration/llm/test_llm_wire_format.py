"""Valid replies over real sockets, on all three wires."""

import json
from itertools import pairwise

import pytest

from model_server.client import open_client
from model_server.server import KEY, serve
from model_server.turn import Call, Turn, Used
from scaffold.core.conversation import (
    AssistantMessage,
    Caller,
    Request,
    RetryWait,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    UserMessage,
)
from scaffold.core.errors import ModelError
from scaffold.core.tool import Tool, ToolOutput

WIRES = ("anthropic", "chat", "responses")
SAID = Turn(
    thinking="Let me look around first.",
    text="I look at what is there, then I tell.",
    calls=(Call("shell", {"command": "ls -l", "timeout_s": 3}), Call("read_file", {"path": "ä.py"}), Call("todo")),
    usage=Used(input=2_000, cached=1_500, output=30),
)
ARGS = [{"command": "ls -l", "timeout_s": 3}, {"path": "ä.py"}, {}]


async def run(args):
    return ToolOutput("")


SHELL = Tool(
    name="shell", description="Run a command.", schema={"type": "object", "properties": {}}, category="shell", run=run
)


def joined(heard, kind):
    return "".join(delta.text for delta in heard if isinstance(delta, kind))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [True, False])
async def test_thinking_text_calls_and_usage_arrive_complete_and_are_streamed(wire, stream):
    """RA-1, RA-2: with and without streaming."""
    async with serve(wire, [SAID]) as server, open_client(server, stream=stream) as asked:
        reply = await asked.reply(tools=(SHELL,))
    assert [part.text for part in reply.message.parts if isinstance(part, Thinking)] == [SAID.thinking]
    assert reply.message.text == SAID.text
    assert [(call.name, call.args) for call in reply.message.tool_calls] == list(
        zip(["shell", "read_file", "todo"], ARGS, strict=True)
    )
    assert reply.stop == "tool_calls"
    assert reply.message.model == server.model
    assert asked.model.window_tokens == {"anthropic": 200_000, "chat": 1_000_000, "responses": 400_000}[wire]
    used = reply.usage
    assert (used.input_tokens, used.cached_input_tokens, used.output_tokens, used.requests) == (2_000, 1_500, 30, 1)
    assert joined(asked.heard, TextDelta) == SAID.text
    assert joined(asked.heard, ThinkingDelta) == SAID.thinking
    assert [d.name for d in asked.heard if isinstance(d, ToolCallDelta) and d.index == 1 and d.name][:1] == [
        "read_file"
    ]
    assert len([delta for delta in asked.heard if isinstance(delta, TextDelta)]) == (4 if stream else 1)
    assert server.requests[0].json.get("stream", False) is stream
    assert KEY in server.requests[0].headers["x-api-key" if wire == "anthropic" else "authorization"]


@pytest.mark.parametrize(("wire", "usd"), [("anthropic", 2_400e-6), ("chat", 1_990e-6), ("responses", 1_112.5e-6)])
async def test_the_cost_of_a_request_counts_cached_input_at_its_price(wire, usd):
    """RA-1."""
    async with serve(wire, [SAID]) as server, open_client(server) as asked:
        reply = await asked.reply()
    assert reply.usage.cost_usd == pytest.approx(usd)


async def test_a_local_server_has_an_unknown_cost_and_needs_no_key():
    """RA-1."""
    async with (
        serve("chat", [Turn(text="<think>hm</think>hello")]) as server,
        open_client(server, model=server.local_model, environ={}) as asked,
    ):
        reply = await asked.reply()
    assert reply.message.parts == (Thinking("hm"), Text("hello"))
    assert reply.usage.cost_usd is None
    assert reply.usage.tokens == 110
    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].json["model"] == "tiny"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_reuses_its_connection_and_its_prefix_is_stable(wire):
    """RA-3: sent messages are sent the same way again, or no provider could cache them."""
    messages = [UserMessage((Text("look"),))]
    async with serve(wire, [SAID, Turn(text="done")]) as server, open_client(server) as asked:
        first = await asked.reply(*messages, tools=(SHELL,))
        results = tuple(ToolResult(call.id, call.name, "x") for call in first.message.tool_calls)
        await asked.reply(*messages, first.message, UserMessage(results), tools=(SHELL,))
    assert server.connections == 1
    one, two = (request.json for request in server.requests)
    history = {"anthropic": "messages", "chat": "messages", "responses": "input"}[wire]
    assert len(two[history]) > len(one[history])
    if wire != "anthropic":  # whose mark moves to the last message
        assert two[history][: len(one[history])] == one[history]
    for fixed in ("tools", "system", "instructions"):
        assert one.get(fixed) == two.get(fixed)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_truncated_at_the_limit_is_recognised(wire, stream):
    """RA-2: a call cut by the limit never looks whole."""
    cut = Turn(text="so", calls=(Call("shell", {"command": "rm -r build"}),), stop="max_tokens")
    async with serve(wire, [cut]) as server, open_client(server, stream=stream) as asked:
        reply = await asked.reply()
    assert reply.stop == "max_tokens"
    assert all(call.args == {} for call in reply.message.tool_calls)


@pytest.mark.parametrize("wire", WIRES)
async def test_an_estimate_learns_from_the_previous_reply(wire):
    """BX-11."""
    start = UserMessage((Text("word " * 400),))
    async with serve(wire, [SAID]) as server, open_client(server) as asked:
        first = await asked.reply(start)
    again = Request(caller=Caller(role="agent"), system="Be brief.", messages=(start, first.message))
    usage = asked.model.estimate(again)
    # Each new token is taken to weigh what the server counted for the others.
    assert 2_000 < usage.input_tokens < 2_500
    assert (usage.cached_input_tokens, usage.output_tokens) == (1_500, 30)
    assert usage.cost_usd > 0


async def test_a_first_estimate_counts_the_thoughts_that_are_asked_for():
    """BX-11: later ones know how many there were."""
    start = UserMessage((Text("hello"),))
    async with serve("anthropic", [SAID]) as server, open_client(server) as asked:
        requests = [
            Request(caller=Caller(role="agent"), system="Be brief.", messages=(start,), effort=effort)
            for effort in ("off", "low", "high")
        ]
        assert [asked.model.estimate(each).output_tokens for each in requests] == [1_000, 1_500, 7_000]
        await asked.reply(start)
        assert asked.model.estimate(requests[-1]).output_tokens == 30


@pytest.mark.parametrize("wire", WIRES)
async def test_thinking_goes_back_only_to_the_model_that_wrote_it(wire):
    foreign = AssistantMessage((Thinking("secret thought", signature="s"), ToolCall("a", "shell", {})), model="other:m")
    after = UserMessage((ToolResult("a", "shell", "x"),))
    async with serve(wire, [Turn(text="ok")]) as server, open_client(server) as asked:
        await asked.reply(UserMessage((Text("go"),)), foreign, after)
    assert b"secret thought" not in server.requests[0].body


SENT_BACK = {
    "anthropic": ("messages", {"type": "thinking", "thinking": SAID.thinking, "signature": "c2VhbA=="}),
    "chat": ("messages", SAID.thinking),
    "responses": ("input", "c2VhbA=="),
}
"""Where each wire has the history, and what has to be in it."""


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [True, False])
async def test_thoughts_go_back_unchanged_with_the_calls_they_led_to(wire, stream):
    """RA-2, RA-21: signed, encrypted or plain, as the wire has them; without them a tool loop is refused."""
    go = UserMessage((Text("go"),))
    async with serve(wire, [SAID, Turn(text="done")]) as server, open_client(server, stream=stream) as asked:
        first = await asked.reply(go, tools=(SHELL,), effort="auto")
        results = UserMessage(tuple(ToolResult(call.id, call.name, "x") for call in first.message.tool_calls))
        await asked.reply(go, first.message, results, tools=(SHELL,), effort="auto")
    history, thought = SENT_BACK[wire]
    reply = server.requests[1].json[history][2 if wire == "chat" else 1]
    found = {"anthropic": lambda: reply["content"][0], "chat": lambda: reply["reasoning_content"]}
    assert found.get(wire, lambda: reply["encrypted_content"])() == thought


NAMED = {
    "anthropic": ("thinking", "thinking.type.enabled: Extra inputs are not permitted"),
    "chat": ("reasoning_effort", "Unrecognized request argument supplied: reasoning_effort"),
    "responses": ("reasoning", "Unsupported parameter: 'reasoning.effort' is not supported with this model."),
}
ALL_NAMED = [
    *((wire, *named) for wire, named in NAMED.items()),
    ("chat", "stream_options", "body.stream_options: Extra inputs are not permitted"),
    ("responses", "prompt_cache_key", "Unknown parameter: 'prompt_cache_key'."),
    ("chat", "max_tokens", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    ("responses", "max_output_tokens", "Unsupported parameter: max_output_tokens"),
]


@pytest.mark.parametrize(("wire", "field", "message"), ALL_NAMED)
async def test_an_endpoint_that_refuses_a_parameter_is_asked_without_it_from_then_on(wire, field, message):
    """RA-21: the request that failed is asked again once, and the user is told."""

    def strict(received):
        if field in received.json:
            return Turn(status=400, error=("invalid_request_error", message))
        return Turn(text="ok")

    model = {"chat": lambda server: server.local_model}.get(wire, lambda server: server.model)
    async with serve(wire, strict) as server, open_client(server, model=model(server)) as asked:
        assert (await asked.reply(effort="low")).message.text == "ok"
        assert (await asked.reply(effort="low")).message.text == "ok"
    assert [field in received.json for received in server.requests] == [True, False, False]
    assert [heard.reason.endswith(message.rstrip(".")) for heard in asked.heard if isinstance(heard, RetryWait)] == [
        True
    ]


@pytest.mark.parametrize("wire", WIRES)
async def test_what_did_not_help_is_not_remembered(wire):
    """RA-21: the error may be about something else; the next request has everything again."""
    field, message = NAMED[wire]
    refusal = Turn(status=400, error=("invalid_request_error", message))
    other = Turn(status=400, error=("invalid_request_error", "the moon is full"))
    others = 2 if wire == "chat" else 1
    model = {"chat": lambda server: server.local_model}.get(wire, lambda server: server.model)
    async with (
        # A local server is asked without a system message before that is the end.
        serve(wire, [refusal, *[other] * others, Turn(text="ok")]) as server,
        open_client(server, model=model(server)) as asked,
    ):
        with pytest.raises(ModelError, match="moon"):
            await asked.reply(effort="low")
        await asked.reply(effort="low")
    assert [field in received.json for received in server.requests] == [True, *[False] * others, True]


async def test_an_error_that_names_what_was_not_sent_is_not_asked_again():
    """RA-21."""
    named = Turn(status=400, error=("invalid_request_error", "thinking blocks are not valid here"))
    async with serve("anthropic", [named]) as server, open_client(server) as asked:
        with pytest.raises(ModelError, match="not valid"):
            await asked.reply()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("model", "header"),
    [("anthropic:claude-sonnet-4-5", "interleaved-thinking-2025-05-14"), ("anthropic:claude-opus-4-6", None)],
)
async def test_models_with_a_budget_think_between_calls(model, header):
    """RA-2."""
    async with serve("anthropic", [Turn(text="ok")]) as server, open_client(server, model=model) as asked:
        await asked.reply(effort="auto")
    assert server.requests[0].headers.get("anthropic-beta") == header


async def test_a_server_that_does_not_stream_is_supported():
    whole = '{"choices":[{"message":{"role":"assistant","content":"all at once"},"finish_reason":"stop"}]}'
    async with (
        serve("chat", [Turn(body=whole, content_type="application/json")]) as server,
        open_client(server) as asked,
    ):
        reply = await asked.reply()
    assert reply.message.text == "all at once"
    assert asked.heard == [TextDelta("all at once")]


IN_BAND = json.dumps({"error": "Error rendering prompt with jinja template"})


@pytest.mark.parametrize("provider", ["local", "openai-chat"])
@pytest.mark.parametrize(
    ("most", "refusal"),
    [
        (1, Turn(status=500, error=("server_error", "Jinja: System message must be at the start."))),
        (1, Turn(status=418, error=("oops", "Nur eine Anweisung."))),
        (0, Turn(status=500, error=("server_error", "Jinja Exception: Only user roles are supported, got system."))),
        (0, Turn(status=400, error=("", "Le modèle n'accepte pas ce message."))),
        (0, Turn(body=f"event: error\ndata: {IN_BAND}\n\n")),
        (0, Turn(status=500, error=("", "?"))),
    ],
    ids=["one, 500", "one, 418", "none, 500", "none, 400", "none, in the stream", "none, twice"],
)
async def test_a_server_that_refuses_system_messages_gets_fewer_from_then_on(provider, most, refusal):
    """RA-1, RA-3, BX-30: whatever it says. A local server has one at once: it may drop the second without a word.

    After an error that may have passed by itself the next request has everything again, to be sure.
    """

    def strict(received):
        systems = [message for message in received.json["messages"] if message["role"] == "system"]
        return refusal if len(systems) > most else Turn(text="ok")

    request = Request(
        caller=Caller(role="agent"), system="Base.", context="Today.", messages=(UserMessage((Text("hi"),)),)
    )
    async with serve("chat", strict) as server, open_client(server, provider=provider) as asked:
        assert (await asked.model.reply(request)).message.text == "ok"
        assert (await asked.model.reply(request)).message.text == "ok"
    sent = [[m["content"] for m in r.json["messages"]] for r in server.requests]
    forms = [["Base.", "Today.", "hi"], ["Base.\n\nToday.", "hi"], ["Base.\n\nToday.\n\nhi"]]
    first = [forms[provider == "local"]] * (refusal.error == ("", "?"))  # what may pass is asked once more
    assert sent == [*first, *forms[provider == "local" : 3 - most], *first, forms[2 - most]]


@pytest.mark.parametrize("provider", ["local", "openai-chat"])
@pytest.mark.parametrize("status", [400, 500])
async def test_a_server_that_refuses_several_calls_in_a_reply_gets_one_in_each(provider, status):
    """RA-1, BX-30: each call with its result; templates that take no user behind a result get the words within."""

    def strict(received):
        messages = received.json["messages"]
        several = any(len(each.get("tool_calls", ())) > 1 for each in messages)
        late = any(before["role"] == "tool" and each["role"] == "user" for before, each in pairwise(messages))
        refusal = Turn(status=status, error=("server_error", "This model only supports single tool-calls at once!"))
        return refusal if several or late else Turn(text="ok")

    calls = (Text("I look."), ToolCall("one", "look", {"at": 1}), ToolCall("two", "look", {"at": 2}))
    results = (ToolResult("two", "look", "a tree"), ToolResult("one", "look", "a bush"), Text("Hurry up."))
    begun = UserMessage((Text("hi"),))
    async with serve("chat", strict) as server, open_client(server, provider=provider) as asked:
        await asked.reply(begun)
        for _ in range(2):
            await asked.reply(begun, AssistantMessage(calls), UserMessage(results))
    asked_twice = status == 500  # which may pass
    bodies = [[m for m in received.json["messages"] if m["role"] != "system"] for received in server.requests[1:]]
    if asked_twice:
        assert bodies.pop(3) == bodies[0], "to be sure that it was no outage"
    refused, plainer = bodies[: 1 + asked_twice], bodies[1 + asked_twice :]
    for body in refused:
        assert [each["role"] for each in body] == ["user", "assistant", "tool", "tool", "user"]
    said = [
        (m["role"], [c["function"]["arguments"] for c in m.get("tool_calls", ())] or m["content"]) for m in plainer[0]
    ]
    ids = [m.get("tool_call_id") or m["tool_calls"][0]["id"] for m in plainer[0][1:]]
    assert said == [
        ("user", "hi"),
        ("assistant", ['{"at":1}']),
        ("tool", "a bush"),
        ("assistant", ['{"at":2}']),
        ("tool", "a tree\n\nHurry up."),
    ]
    assert (ids[0], ids[2]) == (ids[1], ids[3])
    assert [len(each) for each in ids if each.isalnum()] == [9] * 4
    assert plainer == [plainer[0], plainer[0]]


@pytest.mark.parametrize("provider", ["local", "openai-chat"])
@pytest.mark.parametrize("after", [Turn(status=503), Turn(text="ok", times=9)], ids=["still away", "back"])
async def test_an_outage_before_the_first_reply_changes_no_spelling(provider, after):
    """RA-21, BX-30: two errors 500, whatever form was tried as it ended; tools as text least of all."""
    down = Turn(status=500, error=("", "?"), times=2)
    answers = [down, after, Turn(text="ok", times=9)]
    async with serve("chat", answers) as server, open_client(server, provider=provider) as asked:
        for _ in range(3):
            await asked.reply(UserMessage((Text("go"),)), tools=(SHELL,))
    *_, last = bodies = [received.body for received in server.requests]
    assert last == bodies[-2] == bodies[0]


@pytest.mark.parametrize("provider", ["local", "openai-chat"])
async def test_a_refusal_that_no_form_changes_costs_two_more_requests_at_most(provider):
    """RA-21: the first plainer form and the plainest of all; numbers in an answer do not make it another one."""

    def refuse(received):
        return Turn(status=400, error=("", f"the moon is full (request {len(server.requests)})"))

    async with serve("chat", refuse) as server, open_client(server, provider=provider) as asked:
        with pytest.raises(ModelError, match="moon"):
            await asked.model.reply(
                Request(
                    caller=Caller(role="agent"),
                    system="Base.",
                    context="Today.",
                    messages=(UserMessage((Text("hi"),)),),
                    tools=(SHELL,),
                )
            )
    assert len(server.requests) == 3


async def test_an_error_that_names_the_template_is_no_outage():
    """RA-21, BX-30: no form of the request helped, and the same answer would come each time."""
    refusal = Turn(status=500, error=("server_error", "Jinja Exception: no roles at all"), times=9)
    async with serve("chat", [refusal]) as server, open_client(server, model=server.local_model) as asked:
        with pytest.raises(ModelError, match="no roles at all") as caught:
            await asked.reply()
        assert not caught.value.transient
        assert (len(server.requests), asked.clock.slept_s) == (2, 0)


@pytest.mark.parametrize("wire", WIRES)
async def test_an_outage_takes_nothing_from_a_conversation(wire):
    """RA-3, RA-21: errors that pass say nothing about the request, so its thoughts and its cached prefix stay."""
    down = Turn(status=500, error=("api_error", "Internal server error"), times=3)
    go = UserMessage((Text("go"),))
    async with (
        serve(wire, [Turn(thinking="Hm.", calls=(Call("look"),)), down, Turn(text="ok")]) as server,
        open_client(server) as asked,
    ):
        first = await asked.reply(go)
        (call,) = first.message.tool_calls
        await asked.reply(go, first.message, UserMessage((ToolResult(call.id, "look", "x"),)))
    assert [received.body for received in server.requests[1:]] == [server.requests[1].body] * 4


async def test_a_provider_that_was_down_before_the_first_reply_keeps_its_tools():
    """RA-21: tools as text are for servers that have none."""
    down = Turn(status=500, error=("server_error", "The server had an error while processing your request."), times=4)
    async with serve("chat", [down, Turn(text="ok", times=2)]) as server, open_client(server) as asked:
        for _ in range(2):
            await asked.reply(UserMessage((Text("go"),)), tools=(SHELL,))
    assert all("tools" in received.json for received in server.requests)


async def test_a_base_prompt_that_a_template_drops_behind_results_moves_to_the_first_message():
    """BX-30: as Mistral's do; a longer conversation has fewer tokens, which nothing else explains."""
    script = [Turn(calls=(Call("look"),), usage=Used(input=1_000)), *[Turn(text="so", usage=Used(input=100), times=2)]]
    go = UserMessage((Text("go"),))
    async with serve("chat", script) as server, open_client(server, model=server.local_model) as asked:
        first = await asked.reply(go, tools=(SHELL,))
        results = UserMessage(tuple(ToolResult(call.id, call.name, "x") for call in first.message.tool_calls))
        for _ in range(2):
            await asked.reply(go, first.message, results, tools=(SHELL,))
    assert [received.json["messages"][0]["role"] for received in server.requests] == ["system", "system", "user"]


@pytest.mark.parametrize("fewer", ["thoughts", "tools"])
async def test_what_else_may_make_a_longer_request_smaller_leaves_the_base_prompt_alone(fewer):
    """BX-30: Qwen's templates drop thoughts at the user's next words; a window told late makes a model a small one."""
    used = [Used(input=1_000 - 50 * number) for number in range(3)]
    script = [Turn(thinking="hm", calls=(Call("look"),), usage=each) for each in used]
    messages = [UserMessage((Text("go"),))]
    async with serve("chat", script) as server, open_client(server, model=server.local_model) as asked:
        for tools in ((SHELL, SHELL), (SHELL,), ()):
            reply = await asked.reply(*messages, tools=tools if fewer == "tools" else (SHELL,))
            results = [ToolResult(call.id, call.name, "x") for call in reply.message.tool_calls]
            more = Text("on") if fewer == "thoughts" else None
            messages += [reply.message, UserMessage((*results, *([more] if more else [])))]
    assert [received.json["messages"][0]["role"] for received in server.requests] == ["system"] * 3
