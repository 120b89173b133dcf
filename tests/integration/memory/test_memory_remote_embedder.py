"""Vectors by a server: OpenAI's wire and Ollama's over real sockets, and all that a server may do wrong."""

import importlib.util
import json
from contextlib import closing
from functools import partial

import pytest

from fakes import FakeBudget
from model_server.embeddings import ollama_answer, openai_answer
from model_server.server import KEY, serve
from model_server.turn import Turn
from scaffold.core.errors import BudgetExceeded, EmbeddingError
from scaffold.core.knowledge import MEMORIES
from scaffold.host.clock import SystemClock
from scaffold.memory.memories import Memories, MemoryDatabases
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("usearch") is None, reason="the extra `memory` is not installed"
)
SMALL = "openai:text-embedding-3-small"
SECRET = "AKIAIOSFODNN7EXAMPLA"
CAT = "The cat sat on the mat"


@pytest.fixture
def user(tmp_path):
    with closing(UserStore.open(tmp_path / "user.db", clock=SystemClock())) as user:
        yield user


@pytest.fixture
def open_memories(user, tmp_path):
    """Return memories whose vectors are computed by this model, and the embedder."""

    def open_memories(model, environ, **given):
        from scaffold.memory.embedders.remote import RemoteEmbedder

        embedder = RemoteEmbedder(model, user, Redactor(), environ=environ, **{"budget": FakeBudget(), **given})
        databases = MemoryDatabases(None, user, tmp_path / "cache", embedder=embedder)
        return Memories(databases, clock=FakeClock(), redactor=Redactor()), embedder

    return open_memories


def variables(server):
    return {"EMBEDDING_API_KEY": KEY, "EMBEDDING_BASE_URL": f"http://127.0.0.1:{server.port}/v1"}


async def best(memories, query):
    found = await memories.find(query, most=3)
    return found[0].memory.chunk.text if found else ""


async def test_openai_is_asked_for_vectors_once_a_search_and_paid(open_memories, user):
    """RA-8: text-embedding-3-small with 1536 numbers, by a URL and a key of its own; secrets do not leave."""
    async with serve("chat", []) as server:
        server.others["/v1/embeddings"] = partial(openai_answer, dimension=1_536)
        memories, embedder = open_memories(SMALL, {"OPENAI_API_KEY": "sk-of-the-chat", **variables(server)})
        memories.remember(CAT, source="user")
        memories.remember("Deployments happen on Fridays", source="user")
        assert server.requests == [], "remembering asks nobody"
        assert await best(memories, "feline resting rug") == CAT
        assert [len(each.json["input"]) for each in server.requests] == [2, 1], "what had no vector, and the query"
        assert await best(memories, f"feline resting rug {SECRET}") == CAT
        assert await best(memories, f"feline resting rug {SECRET}") == CAT
        assert len(server.requests) == 3, "the same query is not asked for again"
        assert all(each.headers["authorization"] == f"Bearer {KEY}" for each in server.requests)
        assert SECRET.encode() not in b"".join(each.body for each in server.requests)
        assert {each.json["model"] for each in server.requests} == {"text-embedding-3-small"}
    stored = user.knowledge.collections.get(MEMORIES)
    assert (stored.model, stored.dimension) == (SMALL, 1_536)
    assert embedder.used.input_tokens == 17
    assert embedder.used.cost_usd == pytest.approx(17 * 0.02 / 1e6)


@pytest.mark.parametrize(("path", "answer"), [("/v1", openai_answer), ("/api", ollama_answer)], ids=["v1", "ollama"])
async def test_a_local_server_computes_vectors_for_nothing(open_memories, path, answer):
    """RA-8: of any dimension; Ollama's own wire behind `/api`."""
    async with serve("chat", []) as server:
        server.others["/v1/embeddings" if path == "/v1" else "/api/embed"] = answer
        memories, embedder = open_memories(f"local:nomic@http://127.0.0.1:{server.port}{path}", {})
        memories.remember(CAT, source="user")
        assert await best(memories, "feline rug") == CAT
        assert embedder.dimension == 64
        assert embedder.used.cost_usd == 0
        assert all("authorization" not in each.headers for each in server.requests)


def changed(received, change):
    """Return an answer that differs from what it should be."""
    body = json.loads(openai_answer(received).body)
    change(body["data"])
    return Turn(body=json.dumps(body), content_type="application/json")


def shorten(items):
    items[0]["embedding"] = items[0]["embedding"][:9]


FAULTS = {
    "error": lambda received: Turn(status=500, error=("server_error", "out of memory")),
    "refused": lambda received: Turn(status=401, error=("invalid_api_key", f"wrong key {KEY}")),
    "missing": lambda received: Turn(status=404, error=("not_found_error", "no such model")),
    "page": lambda received: Turn(body="<html>Welcome</html>", content_type="text/html"),
    "moved": lambda received: Turn(status=302, body="", headers={"Location": "http://127.0.0.1:1/"}),
    "too few": partial(changed, change=lambda items: items.pop()),
    "ragged": partial(changed, change=shorten),
    "zeros": partial(changed, change=lambda items: items[0].update(embedding=[0] * 64)),
    "NaN": partial(changed, change=lambda items: items[0].update(embedding=[float("nan")] * 64)),
    "null": partial(changed, change=lambda items: items[0].update(embedding=[None] * 64)),
    "text": partial(changed, change=lambda items: items[0].update(embedding="AAAA")),
    "same number": partial(changed, change=lambda items: items[0].update(index=0)),
    "silence": lambda received: Turn(text="", stall_at=0),
    "cut": lambda received: Turn(body="{" * 500, content_type="application/json", cut_at=100),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_a_server_does_wrong_texts_are_found_by_their_words(open_memories, fault):
    """RA-8: the error says what to do, and the next searches do not wait."""
    from scaffold.memory.embedders.remote import Waiting

    short = Waiting(limit_s=1.0, pause_s=30.0, texts=16)
    async with serve("chat", []) as server:
        server.others["/v1/embeddings"] = FAULTS[fault]
        memories, _ = open_memories(SMALL.replace("3-small", "of-mine"), variables(server), waiting=short)
        for text in (CAT, "Deployments happen on Fridays"):
            memories.remember(text, source="user")
        assert await best(memories, "cat") == CAT
        asked = len(server.requests)
        assert await best(memories, "deployments") == "Deployments happen on Fridays"
        assert len(server.requests) == asked
        with pytest.raises(EmbeddingError) as error:
            await memories.index()
    assert "models.embedding" in error.value.fix
    assert KEY not in error.value.in_full


async def test_nobody_listens_or_the_key_is_missing(open_memories):
    """RA-8: the error names the variable, or the address."""
    memories, _ = open_memories(SMALL, {})
    memories.remember(CAT, source="user")
    assert await best(memories, "cat") == CAT
    with pytest.raises(EmbeddingError, match="OPENAI_API_KEY"):
        await memories.index()
    memories, _ = open_memories("local:tiny@http://127.0.0.1:9/v1", {})
    with pytest.raises(EmbeddingError, match=r"127\.0\.0\.1:9"):
        await memories.index()


async def test_another_model_makes_all_vectors_anew_and_none_is_compared_with_one_of_another(open_memories, user):
    """RA-8: a collection has vectors of one model; what is not done yet is found by its words."""
    async with serve("chat", []) as server:
        server.others["/v1/embeddings"] = partial(openai_answer, dimension=1_536)
        memories, _ = open_memories(SMALL, variables(server))
        for number in range(40):
            memories.remember(f"{CAT} number {number}", source="user")
        assert await memories.index() == (40, 0)
        server.others["/v1/embeddings"] = partial(openai_answer, dimension=48)
        from scaffold.memory.embedders.remote import INDEXING

        other, _ = open_memories("openai:of-mine", variables(server), waiting=INDEXING)
        counts = []
        assert await other.index(tell=counts.append) == (40, 0)
        assert counts == [40]
        stored = user.knowledge.collections.get(MEMORIES)
        assert (stored.model, stored.dimension) == ("openai:of-mine", 48)
        assert CAT in await best(other, "feline resting")
        server.others["/v1/embeddings"] = partial(openai_answer, dimension=32)
        memories.remember("One more", source="user")
        again, _ = open_memories("openai:of-mine", variables(server))
        with pytest.raises(EmbeddingError, match=r"32 .* 48"):
            await again.index()
        server.others["/v1/embeddings"] = FAULTS["missing"]
        with pytest.raises(EmbeddingError):
            await open_memories("openai:of-mine", variables(server))[0].index(again=True)
        assert user.knowledge.embeddings.count(MEMORIES) == 40, "what there was, is there"
        server.others["/v1/embeddings"] = partial(openai_answer, dimension=32)
        again, _ = open_memories("openai:of-mine", variables(server))
        assert await again.index(again=True) == (41, 0)
        assert user.knowledge.collections.get(MEMORIES).dimension == 32


async def test_texts_that_are_too_long_for_a_server_are_cut(open_memories):
    """RA-8: only as far as necessary, and the others of their batch are not."""

    def strict(received):
        if sum(map(len, received.json["input"])) > 1_000:
            error = ("exceed_context_size_error", "the request exceeds the available context size")
            return Turn(status=400, error=error)
        return openai_answer(received)

    async with serve("chat", []) as server:
        server.others["/v1/embeddings"] = strict
        from scaffold.memory.embedders.remote import INDEXING

        memories, embedder = open_memories(SMALL.replace("3-small", "of-mine"), variables(server), waiting=INDEXING)
        memories.remember(f"Long: {'word ' * 380}", source="user")
        memories.remember(CAT, source="user")
        assert await memories.index() == (2, 0)
        assert embedder.dimension == 64


class Empty:
    async def reserve(self, estimate):
        assert estimate.input_tokens > 0
        raise BudgetExceeded("the budget of the session is used up", "Continue with more.")

    def settle(self, reservation, usage):
        raise AssertionError


async def test_without_money_nothing_is_asked(open_memories):
    """RA-8: the budget of a session counts vectors, too."""
    async with serve("chat", []) as server:
        memories, _ = open_memories(SMALL, variables(server), budget=Empty())
        memories.remember(CAT, source="user")
        assert await best(memories, "cat") == CAT
        assert server.requests == []
        with pytest.raises(EmbeddingError, match="used up"):
            await memories.index()
