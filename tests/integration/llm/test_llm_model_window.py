"""Windows of local models, asked of a server over a real connection."""

import json

import pytest

from model_server.client import open_client
from model_server.server import serve
from model_server.turn import Turn, Used
from scaffold.core.conversation import AssistantMessage, Image, RetryWait, Text, ToolCall, ToolResult, UserMessage
from scaffold.core.errors import ContextOverflow, ModelError
from scaffold.core.tool import Tool, ToolOutput
from scaffold.llm.transport.live_context import LearnedWindows, ServerFacts

FINE = Turn(text="Fine.", times=9)
SLOT = json.dumps({"default_generation_settings": {"n_ctx": 8192}})
LOADED = json.dumps({"models": [{"name": "tiny", "context_length": 4096}]})
PLACES = ["/props?model=tiny", "/v1/models", "/api/v0/models", "/api/ps"]


async def test_a_server_is_asked_once_before_the_first_request_of_a_process():
    """RA-1, RA-10: the next conversation knows without asking."""
    learned = LearnedWindows()
    async with serve("chat", [FINE]) as server:
        server.pages["/props"] = SLOT
        for _ in range(2):
            async with open_client(server, model=server.local_model, learned=learned) as client:
                await client.reply()
                await client.reply()
                assert client.model.window_tokens == 8192
        assert server.looked == PLACES[:1]
        assert len(server.requests) == 4


async def test_a_window_is_asked_for_again_when_the_first_reply_has_loaded_the_model():
    """RA-1: Ollama and LM Studio load models on demand."""
    async with serve("chat", [FINE]) as server:
        async with open_client(server, model=server.local_model) as client:
            assert client.model.window_tokens is None
            server.on_request = lambda: server.pages.update({"/api/ps": LOADED})
            await client.reply()
            assert client.model.window_tokens == 4096
            await client.reply()
        assert server.looked == PLACES * 2


async def test_a_server_that_tells_nothing_is_used_and_not_asked_for_ever():
    async with serve("chat", [FINE]) as server, open_client(server, model=server.local_model) as client:
        for _ in range(4):
            assert (await client.reply()).message.text == "Fine."
        assert client.model.window_tokens is None
        assert server.looked == PLACES * 2


@pytest.mark.parametrize(
    "page",
    [
        Turn(stall_at=-1),
        Turn(body="{", stall_at=1),
        Turn(cut_at=-1),
        Turn(status=500, error=("api_error", "no")),
        Turn(body="<html>", content_type="text/html"),
    ],
    ids=["silent", "stalls", "cut", "error", "a page"],
)
async def test_a_server_that_cannot_tell_delays_and_fails_no_request(page):
    """RA-1, AL-31: asking has its own short limit, and a server that is slow is not asked again."""
    async with serve("chat", [FINE]) as server, open_client(server, model=server.local_model) as client:
        server.pages["/props"] = page
        assert (await client.reply()).message.text == "Fine."
        assert (await client.reply()).message.text == "Fine."
        assert client.model.window_tokens is None
        assert len(server.looked) <= 2 * len(PLACES)


async def test_a_server_that_was_not_there_is_asked_when_it_is():
    """RA-1, AL-31: a local server that is started after `ralph`."""
    learned = LearnedWindows()
    async with serve("chat", [FINE]) as server:
        model = server.local_model
        async with open_client(server, model="local:tiny@http://127.0.0.1:1/v1", learned=learned) as client:
            with pytest.raises(ModelError):
                await client.reply()
        assert learned.looks == {}
        server.pages["/props"] = SLOT
        async with open_client(server, model=model, learned=learned) as client:
            await client.reply()
            assert client.model.window_tokens == 8192


async def test_tools_are_offered_as_text_where_a_server_drops_them_and_the_user_is_told_once():
    """BX-30: llama.cpp says so of a chat template; the model would answer as if there were none."""

    async def run(args):
        return ToolOutput("")

    tool = Tool(name="look", description="", schema={"type": "object"}, category="file_read", run=run)
    async with serve("chat", [FINE]) as server, open_client(server, model=server.local_model) as client:
        caps = {"chat_template_caps": {"supports_tools": False}}
        server.pages["/props"] = json.dumps({**json.loads(SLOT), **caps})
        await client.reply()
        await client.reply(tools=(tool,))
        await client.reply(tools=(tool,))
    told = [delta.reason for delta in client.heard if isinstance(delta, RetryWait)]
    assert len(told) == 1
    assert "offered as text" in told[0]
    assert [b"<tool_call>" in request.body for request in server.requests] == [False, True, True]
    assert not any("tools" in request.json for request in server.requests)


@pytest.mark.parametrize("status", [400, 500])
async def test_tools_are_offered_as_text_where_a_server_refuses_them_in_any_words(status):
    """BX-30: for the rest of the conversation; a request without tools is not repeated for their sake.

    Two errors 500 may have been an outage: the next request has everything once more.
    """

    async def run(args):
        return ToolOutput("")

    def strict(received):
        refused = "tools" in received.json or "impossible" in received.body.decode()
        return Turn(status=status, error=("api_error", "Das geht hier nicht.")) if refused else Turn(text="Fine.")

    tool = Tool(name="look", description="", schema={"type": "object"}, category="file_read", run=run)
    async with serve("chat", strict) as server:
        async with open_client(server, model=server.local_model) as client:
            await client.reply(tools=(tool,))
            tried = len(server.requests)
            for _ in range(2):
                await client.reply(tools=(tool,))
            assert len(server.requests) == tried + 2 + (status == 500)
            assert all(b"<tool_call>" in each.body for each in server.requests[-2:])
        server.requests.clear()
        async with open_client(server, model=server.local_model) as client:
            with pytest.raises(ModelError):
                await client.reply(UserMessage((Text("impossible"),)))
        assert not any(b"<tool_call>" in request.body for request in server.requests)


async def test_a_configured_window_wins_over_the_one_that_a_server_tells():
    """RA-10: by the model's name, or by its whole model string; a smaller one in a refusal still counts."""
    async with serve("chat", [FINE]) as server:
        server.pages["/props"] = SLOT
        for name in ("tiny", server.local_model):
            async with open_client(server, model=server.local_model, windows={name: 16_000}) as client:
                await client.reply()
                assert client.model.window_tokens == 16_000


async def test_a_conversation_is_spelled_as_the_server_says_that_its_model_takes_it():
    """RA-1, BX-30: without a refusal, which llama.cpp would not send for what its template drops."""
    caps = {"supports_tools": True, "supports_system_role": False, "supports_parallel_tool_calls": False}
    calls = (ToolCall("one", "look", {}), ToolCall("two", "look", {}))
    results = (ToolResult("one", "look", "1"), ToolResult("two", "look", "2"))
    begun = UserMessage((Text("hi"), Image("image/png", b"png")))
    async with serve("chat", [FINE]) as server, open_client(server, provider="local") as client:
        server.pages["/props"] = json.dumps(
            {**json.loads(SLOT), "chat_template_caps": caps, "modalities": {"vision": False}}
        )
        for _ in range(2):
            await client.reply(begun, AssistantMessage(calls), UserMessage(results))
    sent = [(m["role"], len(m.get("tool_calls", ())), m["content"]) for m in server.requests[1].json["messages"]]
    assert sent == [
        ("user", 0, "Be brief.\n\nhi\n[an image was here]"),
        ("assistant", 1, None),
        ("tool", 0, "1"),
        ("assistant", 1, None),
        ("tool", 0, "2"),
    ]
    assert server.requests[0].json["messages"] == server.requests[1].json["messages"]
    assert [delta.reason for delta in client.heard if isinstance(delta, RetryWait)] == [
        f"{server.local_model} takes no images, so it is only told that there are some"
    ]


async def test_a_base_prompt_that_the_server_drops_gets_a_place_where_it_stays():
    """BX-30: the server's own count shows it; Mistral's templates keep it only if the last message is the user's."""
    few = Turn(text="Fine.", usage=Used(input=40))
    script = [Turn(text="Fine.", usage=Used(input=900)), few, few]
    begun, call = UserMessage((Text("hi"),)), ToolCall("one", "look", {})
    history = (begun, AssistantMessage((call,)), UserMessage((ToolResult("one", "look", "1"),)))
    async with serve("chat", script) as server, open_client(server, provider="local") as client:
        await client.reply(begun)
        await client.reply(*history)
        await client.reply(*history, AssistantMessage((Text("Fine."),)), begun)
    roles = [[m["role"] for m in received.json["messages"]] for received in server.requests]
    assert [each[:2] for each in roles] == [["system", "user"], ["system", "user"], ["user", "assistant"]]
    assert server.requests[2].json["messages"][0]["content"] == "Be brief.\n\nhi"


async def test_ollama_is_asked_what_the_model_can_do():
    """RA-1, BX-30: where it tells that, which is not where it lists the loaded models."""
    learned = LearnedWindows()
    async with serve("chat", [FINE]) as server:
        server.pages["/api/ps"] = LOADED
        server.others["/api/show"] = lambda _: Turn(body=json.dumps({"capabilities": ["completion", "vision"]}))
        async with open_client(server, provider="local", learned=learned) as client:
            await client.reply()
        assert [*learned.facts.values()] == [ServerFacts(window=4096, tools=False, images=True)]
        assert server.requests[0].json == {"model": "tiny"}


async def test_a_request_beyond_a_window_just_told_is_not_sent():
    """RA-10: some servers would cut it without a word."""
    async with serve("chat", [FINE]) as server, open_client(server, model=server.local_model) as client:
        server.pages["/api/ps"] = LOADED
        with pytest.raises(ContextOverflow, match="4,096") as caught:
            await client.reply(UserMessage((Text("word " * 5_000),)))
        assert "(Ollama: `OLLAMA_CONTEXT_LENGTH=16384`)" in caught.value.fix
        assert [received.path for received in server.requests] == ["/api/show"]
        assert client.model.window_tokens == 4096


@pytest.mark.parametrize(
    ("place", "told", "option"),
    [
        ("/props", SLOT, "llama.cpp: `-c 16384` for each slot"),
        (
            "/api/v0/models",
            json.dumps({"data": [{"id": "tiny", "loaded_context_length": 4096}]}),
            "LM Studio: `lms load ",
        ),
        ("/v1/models", json.dumps({"data": [{"id": "tiny", "max_model_len": 4096}]}), "vLLM: `--max-model-len 16384`"),
        ("/nowhere", "{}", "llama.cpp: `-c 16384`, Ollama: "),
    ],
)
async def test_where_a_request_does_not_fit_the_servers_own_option_is_named(place, told, option):
    """BX-30: also where the server itself refuses; a larger one for a larger request."""
    full = Turn(
        status=400, error=("exceed_context_size_error", "the request exceeds the available context size"), times=9
    )
    async with serve("chat", [full]) as server, open_client(server, model=server.local_model) as client:
        server.pages[place] = told
        with pytest.raises(ContextOverflow) as caught:
            await client.reply(UserMessage((Text("word " * 6_000),)))
        assert option in caught.value.fix
        with pytest.raises(ContextOverflow) as caught:
            await client.reply(UserMessage((Text("word " * 30_000),)))
        assert "65536" in caught.value.fix


async def test_a_refusal_teaches_the_window():
    """RA-10, RA-21: for any model, known or not; a larger one that was known is given up."""
    refusal = Turn(status=400, error=("context_length_exceeded", "This model's maximum context length is 5000 tokens."))
    async with serve("chat", [refusal, FINE]) as server, open_client(server) as client:
        assert client.model.window_tokens > 5000
        with pytest.raises(ContextOverflow):
            await client.reply()
        assert client.model.window_tokens == 5000
