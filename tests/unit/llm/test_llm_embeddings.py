"""Where embedding models are asked, what they cost, and what their answers must have."""

import json

import pytest

from scaffold.core.errors import ModelError, UsageError
from scaffold.llm.registry.model_name import embedding_model
from scaffold.llm.transport.embeddings_request import find_embedding_endpoint
from scaffold.llm.transport.endpoint import find_endpoint
from scaffold.llm.wire.embeddings import read_vectors
from support.errors import error_of

KEYS = {"OPENAI_API_KEY": "sk-chat", "OPENAI_BASE_URL": "https://chat.example/v1", "LOCAL_API_KEY": "lk-chat"}
OWN = {"EMBEDDING_API_KEY": "sk-own", "EMBEDDING_BASE_URL": "https://vectors.example/v1"}


def test_the_address_and_the_key_are_those_of_the_provider_or_its_own():
    """RA-8."""
    rows = [
        ("openai:text-embedding-3-large", KEYS, "https://chat.example/v1/embeddings", "sk-chat"),
        ("openai:text-embedding-3-large", KEYS | OWN, "https://vectors.example/v1/embeddings", "sk-own"),
        ("openai-chat:x", OWN, "https://vectors.example/v1/embeddings", "sk-own"),
        ("local:x@http://127.0.0.1:8080", KEYS, "http://127.0.0.1:8080/v1/embeddings", "lk-chat"),
        ("local:x@http://127.0.0.1:8080/v1/", KEYS | OWN, "http://127.0.0.1:8080/v1/embeddings", "sk-own"),
        ("local:x@http://127.0.0.1:11434/api", {}, "http://127.0.0.1:11434/api/embed", None),
        ("local:x@http://host/a/api", {}, "http://host/a/api/embed", None),
    ]
    for model, environ, url, key in rows:
        found = find_embedding_endpoint(embedding_model(model), environ).endpoint
        assert (found.url, found.headers.get("Authorization")) == (url, None if key is None else f"Bearer {key}"), model


def test_a_server_that_fails_to_compute_vectors_does_not_make_its_chat_wait():
    """RA-8, RA-21: the limits that all processes share are others."""
    model = embedding_model("openai:text-embedding-3-small")
    assert find_embedding_endpoint(model, KEYS).endpoint.name != find_endpoint(model, KEYS).name


def test_what_is_known_of_a_model():
    """RA-8: a server on this machine costs nothing; elsewhere it is unknown."""
    rows = [
        ("openai:text-embedding-3-small", 1_536, 0.02),
        ("openai:text-embedding-3-large", 3_072, 0.13),
        ("openai:of-mine", 0, None),
        ("local:x@http://127.0.0.1/v1", 0, 0.0),
        ("local:x@http://elsewhere.example/v1", 0, None),
    ]
    for model, dimension, price in rows:
        found = find_embedding_endpoint(embedding_model(model), KEYS)
        assert (found.dimension, found.usd_per_million) == (dimension, price), model


def test_a_model_without_embeddings_is_refused():
    """RA-8."""
    models = ["anthropic:claude", "codex:x", "cassette:x.yaml", "rubbish", "local:x", ""]
    assert [model for model in models if error_of(UsageError, embedding_model, model) is None] == []


def test_a_missing_key_is_named():
    """RA-8."""
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        find_embedding_endpoint(embedding_model("openai:text-embedding-3-small"), {})


def openai(*items):
    return json.dumps({"data": [{"embedding": vector, "index": at} for at, vector in items]}).encode()


def test_vectors_are_in_the_order_of_the_texts():
    """RA-8: whatever the order of the answer; some servers number nothing."""
    assert read_vectors(openai((1, [2.0]), (0, [1])), 2, ollama=False).vectors == [[1.0], [2.0]]
    assert read_vectors(openai((None, [2.0]), (None, [1])), 2, ollama=False).vectors == [[2.0], [1.0]]
    assert read_vectors(b'{"embeddings": [[1, 2]]}', 1, ollama=True).vectors == [[1.0, 2.0]]


def test_an_answer_without_all_vectors_cannot_be_read():
    """RA-8."""
    bodies = [
        *(b"", b"{", b"[]", b"\xff", b'{"data": []}', b'{"error": "no"}', b'{"data": {}}'),
        *(b'{"data": [{"embedding": [NaN]}]}', b'{"data": [{"embedding": [1e999]}]}', b'{"data": [{"embedding": []}]}'),
        *(openai((0, [1.0]), (0, [2.0])), openai((0, [1.0]), (7, [2.0])), openai((0, [1.0]), (None, [2.0]))),
        *(openai((0, [1.0]), (1, [2.0, 3.0])), openai((0, [1.0]))),
        openai((0, [1.0] * 20_000), (1, [1.0] * 20_000)),
    ]
    assert [body[:99] for body in bodies if error_of(ModelError, read_vectors, body, 2, ollama=False) is None] == []
