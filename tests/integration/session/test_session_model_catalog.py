"""The models that keys and servers offer, asked of real servers on this machine."""

import json

import pytest

from model_server.server import serve
from model_server.turn import Turn
from scaffold.host.user_dirs import user_dirs
from scaffold.session.model_catalog import ModelCatalog

LISTED = json.dumps({"data": [{"id": "text-embedding-3-small"}, {"id": "own-model"}, {"id": "gpt-4.1"}]})
LOCAL = json.dumps({"data": [{"id": "tiny", "max_model_len": 8192}, {"id": "nomic"}]})
STUDIO = json.dumps({"data": [{"id": "tiny", "type": "llm"}, {"id": "nomic", "type": "embeddings"}, {"id": "other"}]})
GONE = "local:gone@http://127.0.0.1:9/v1"


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    """A catalog for a user without any key."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_ACCESS_TOKEN", "SCAFFOLD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SCAFFOLD_HOME", str(tmp_path))
    user_dirs().config.mkdir(parents=True)
    (user_dirs().config / "config.yaml").write_text(f"models:\n  small: {GONE}\n")
    return ModelCatalog(tmp_path)


async def test_what_a_key_and_a_server_offer_is_listed_and_asked_for_once(catalog, monkeypatch):
    """RA-1, RA-18: with window and price as far as known; what answers nothing says so, and comes last."""
    async with serve("chat", []) as provider, serve("chat", []) as local:
        provider.pages["/v1/models"], local.pages["/v1/models"] = LISTED, LOCAL
        local.pages["/api/v0/models"] = STUDIO
        for name, value in provider.environ.items():
            monkeypatch.setenv(name, value)
        answers = []
        for _ in range(2):
            await catalog.ask(local.local_model, lambda: answers.append(catalog.waiting))
        offers = catalog.offers(local.local_model)
        assert (provider.looked, local.looked) == (["/v1/models"], ["/v1/models", "/api/v0/models"])
        assert answers[:6] == [5, 4, 3, 2, 1, 0], "each answer is told of"
        place = local.base_url
    assert [(each.model, each.about) for each in offers if not each.why_not] == [
        (f"local:tiny@{place}", "window 8,192, free"),
        ("openai:gpt-4.1", "window 1,000,000, $2.00 / $8.00 per M"),
        ("openai:own-model", "price unknown"),
    ]
    assert [(each.model, each.why_not) for each in offers if each.why_not] == [
        (GONE, "http://127.0.0.1:9/v1/models cannot be reached: Connection refused"),
        (f"local:nomic@{place}", "makes embeddings, and answers nothing"),
        ("openai:text-embedding-3-small", "makes embeddings, and answers nothing"),
        ("anthropic:NAME", "ANTHROPIC_API_KEY is not set"),
        ("codex:NAME", "`codex:NAME` needs a login with your subscription"),
    ]


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (Turn(status=401, body="{}"), "the key is refused"),
        pytest.param(Turn(body="{}", stall_at=-1), "no answer within 3 s", marks=pytest.mark.slow),
    ],
)
async def test_an_endpoint_that_refuses_or_is_silent_is_named_with_the_reason(catalog, monkeypatch, page, problem):
    """RA-18: it does not hold up the others."""
    async with serve("anthropic", []) as provider:
        provider.pages["/v1/models?limit=1000"] = provider.pages["/v1/models"] = page
        for name, value in provider.environ.items():
            monkeypatch.setenv(name, value)
        await catalog.ask("")
    found = {each.model: each.why_not for each in catalog.offers("")}
    assert found["anthropic:NAME"] == problem
    assert found["openai:NAME"] == "OPENAI_API_KEY is not set"


@pytest.mark.parametrize(
    "page", [None, Turn(body="<html>"), Turn(body='{"data": [1, {"id": ""}, {"id": {}}, {"name": "x"}]}')]
)
async def test_a_provider_without_a_list_offers_what_is_known_of_it(catalog, monkeypatch, page):
    """RA-1: a gateway need not list anything, and any body may come."""
    async with serve("anthropic", []) as provider:
        if page is not None:
            provider.pages["/v1/models?limit=1000"] = provider.pages["/v1/models"] = page
        for name, value in provider.environ.items():
            monkeypatch.setenv(name, value)
        await catalog.ask("")
    usable = [each.model for each in catalog.offers("") if not each.why_not]
    assert usable
    assert all(each.startswith("anthropic:claude-") for each in usable)
