"""What a local server's answers and refusals say about a model's context window."""

from datetime import UTC, datetime

import msgspec

from scaffold.llm.model_window import served_facts
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.llm.transport.endpoint import find_endpoint
from scaffold.llm.transport.live_context import ServerFacts
from scaffold.llm.wire.provider_errors import http_error, reported_error

NOW = datetime(2026, 11, 1, tzinfo=UTC)

LLAMA = {"default_generation_settings": {"id": 0, "n_ctx": 8192, "params": {}}, "total_slots": 2}
LLAMA_MODELS = {"object": "list", "data": [{"id": "qwen3", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]}
VLLM = {"object": "list", "data": [{"id": "other", "max_model_len": 9}, {"id": "qwen3", "max_model_len": 40960}]}
LM_STUDIO = {
    "data": [
        {"id": "qwen2", "state": "loaded", "loaded_context_length": 2048},
        {"id": "qwen3", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 4096},
    ]
}
NOT_LOADED = {"data": [{"id": "qwen3", "state": "not-loaded", "max_context_length": 131072}]}
OLLAMA = {"models": [{"name": "qwen3:latest", "model": "qwen3:latest", "context_length": 16384}]}


def test_the_window_is_the_one_the_server_uses_not_the_trained_one():
    """RA-1, RA-10: llama.cpp, vLLM, LM Studio, Ollama; and what tells nothing."""
    rows = [
        (LLAMA, 8192),
        (LLAMA_MODELS, None),
        (VLLM, 40960),
        (LM_STUDIO, 4096),
        (NOT_LOADED, None),
        (OLLAMA, 16384),
        ({"default_generation_settings": {"n_ctx": 0}, "role": "router"}, None),
        ({"data": [{"id": "qwen3", "max_model_len": "many"}]}, None),
        ({"data": {"id": "qwen3"}, "models": [None, "qwen3"]}, None),
        ([LLAMA], None),
        (None, None),
    ]
    assert [(answer, served_facts(msgspec.json.encode(answer), "qwen3").window) for answer, _ in rows] == rows


def test_what_a_server_says_of_a_model_is_read_in_the_form_of_each():
    """RA-1, BX-30: slots, tools, several calls, the system role and images; nothing where it says nothing."""
    caps = {
        "supports_tools": True,
        "supports_tool_calls": True,
        "supports_parallel_tool_calls": False,
        "supports_system_role": False,
    }
    every = ServerFacts(window=8192, slots=2, tools=True, several_calls=False, system_role=False, images=True)
    openrouter = {"id": "qwen3", "context_length": 40960, "supported_parameters": ["temperature", "tools"]}
    mistral = {"id": "qwen3", "max_context_length": 32768, "capabilities": {"function_calling": False, "vision": True}}
    rows = [
        (LLAMA, ServerFacts(window=8192, slots=2)),
        ({**LLAMA, "chat_template_caps": caps, "modalities": {"vision": True}}, every),
        (
            {"chat_template_caps": {**caps, "supports_tool_calls": False}},
            ServerFacts(tools=False, several_calls=False, system_role=False),
        ),
        ({"chat_template_caps": ["supports_tools"], "total_slots": "many", "modalities": 3}, ServerFacts()),
        ({"capabilities": ["completion", "vision"]}, ServerFacts(tools=False, images=True)),
        ({"capabilities": ["completion", "tools"]}, ServerFacts(tools=True, images=False)),
        ({"data": [openrouter]}, ServerFacts(window=40960, tools=True)),
        (
            {"data": [{**openrouter, "supported_parameters": ["n"], "architecture": {"input_modalities": ["image"]}}]},
            ServerFacts(window=40960, tools=False, images=True),
        ),
        ({"data": [mistral]}, ServerFacts(window=32768, tools=False, images=True)),
        ({"data": [{"id": "qwen3", "type": "vlm", "state": "not-loaded"}]}, ServerFacts(images=True)),
    ]
    assert [(answer, served_facts(msgspec.json.encode(answer), "qwen3")) for answer, _ in rows] == rows


def test_an_answer_that_is_no_json_tells_no_window():
    bodies = [b"", b"<html>", b"\xff", b"[" * 100_000]
    assert [body for body in bodies if served_facts(body, "qwen3") != ServerFacts()] == []


def test_only_local_servers_are_asked():
    """RA-1: beside the chat endpoint, with the model's name for a server of several."""
    asked = find_endpoint(parse_model("local:a model@http://h:1/v1"), {}).window_urls
    assert asked == (
        "http://h:1/props?model=a%20model",
        "http://h:1/v1/models",
        "http://h:1/api/v0/models",
        "http://h:1/api/ps",
    )
    assert find_endpoint(parse_model("openai-chat:q"), {"OPENAI_API_KEY": "k"}).window_urls == ()
    assert model_card(parse_model("local:q@http://h/v1")).window_tokens is None


def test_an_overflow_names_the_window_in_any_wording():
    """RA-10, RA-21."""
    expected = {
        "request (14429 tokens) exceeds the available context size (8192 tokens), try it": 8192,
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens": 4096,
        "This model's maximum context length is 128,000 tokens.": 128_000,
        "prompt is too long: 207791 tokens > 200000 maximum": 200_000,
        "`max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length": 200_000,
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length": 32_768,
        "context the overflows. The model is loaded with context length of only 4096 tokens": 4096,
        "Requested tokens (600) exceed context window of 512": 512,
        "longer than the maximum model length of 4096.": 4096,
        "the input length exceeds the context length": None,
        "Your input exceeds the context window of this model. 4096 is a number.": None,
    }
    assert {said: refused(message=said).window_tokens for said in expected} == expected
    told = {said: reported_error("context_length_exceeded", said) for said in expected}
    assert {said: error.window_tokens for said, error in told.items()} == expected
    numbered = refused(message="the request exceeds the available context size", n_ctx=8192)
    assert numbered.window_tokens == 8192


def refused(**error):
    body = msgspec.json.encode({"error": error})
    return http_error(400, body, who="local:q@http://h/v1", retry_after=None, now=NOW)
