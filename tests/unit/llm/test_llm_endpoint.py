from scaffold.core.errors import UsageError
from scaffold.llm.registry.model_name import parse_model
from scaffold.llm.transport.endpoint import find_endpoint
from support.errors import error_of

KEY = "sk-secret-0123456789"
KEYS = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "CODEX_ACCESS_TOKEN": KEY, "CODEX_ACCOUNT_ID": "acc"}


def find(model, **environ):
    return find_endpoint(parse_model(model), environ)


def test_each_provider_has_its_own_address_and_key():
    """RA-1."""
    rows = [
        (
            "anthropic:claude-sonnet-4-5",
            "https://api.anthropic.com/v1/messages",
            {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
        ),
        ("openai:gpt-5", "https://api.openai.com/v1/responses", {"Authorization": f"Bearer {KEY}"}),
        ("openai-chat:gpt-4.1", "https://api.openai.com/v1/chat/completions", {"Authorization": f"Bearer {KEY}"}),
        (
            "codex:gpt-5",
            "https://chatgpt.com/backend-api/codex/responses",
            {"Authorization": f"Bearer {KEY}", "chatgpt-account-id": "acc"},
        ),
        ("local:q@http://localhost:8000/v1/", "http://localhost:8000/v1/chat/completions", {}),
    ]
    for model, url, headers in rows:
        endpoint = find(model, **KEYS)
        assert endpoint.url == url, model
        assert {name: endpoint.headers[name] for name in headers} == headers, model
        assert ("Authorization" in endpoint.headers) is ("Authorization" in headers), model


def test_a_configured_base_url_wins():
    assert find("anthropic:c", **KEYS, ANTHROPIC_BASE_URL="http://h:1/").url == "http://h:1/v1/messages"
    assert find("anthropic:c", **KEYS, ANTHROPIC_BASE_URL="http://h:1/v1").url == "http://h:1/v1/messages"
    assert find("openai:g", **KEYS, OPENAI_BASE_URL="http://h:1/x/v1").url == "http://h:1/x/v1/responses"


def test_only_other_servers_of_openais_wire_are_asked_again_in_plainer_forms():
    """RA-21: OpenAI's own refusals and outages cost no further requests."""
    assert not find("openai-chat:g", **KEYS).fallback_codecs
    assert find("openai-chat:g", **KEYS, OPENAI_BASE_URL="http://h:1/v1").fallback_codecs
    assert find("local:q@http://h:1/v1").fallback_codecs


def test_a_base_url_without_a_path_gets_the_usual_path():
    for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"]:
        assert find("openai:g", **KEYS, OPENAI_BASE_URL=base).url == "http://h:1/v1/responses"
        assert find("openai-chat:g", **KEYS, OPENAI_BASE_URL=base).url == "http://h:1/v1/chat/completions"
        assert find(f"local:q@{base}").url == "http://h:1/v1/chat/completions"


def test_a_whole_address_and_azures_versions_are_accepted():
    """RA-1, BX-30: a dated version of Azure has the deployment and the version in its URL, and its own field."""
    azure = "https://r.openai.azure.com/openai/deployments/gpt"
    url = f"{azure}/chat/completions?api-version=2024-10-21"
    for base in (url, f"{azure}/?api-version=2024-10-21"):
        endpoints = find("openai-chat:gpt", **KEYS, OPENAI_BASE_URL=base), find(f"local:g@{base}", LOCAL_API_KEY=KEY)
        for endpoint in endpoints:
            assert (endpoint.url, endpoint.headers["api-key"]) == (url, KEY)
            assert KEY not in endpoint.without_key(f"{endpoint.name} Key: {KEY}")
    assert find("local:q@http://h:1/v1/chat/completions").url == "http://h:1/v1/chat/completions"
    assert "api-key" not in find("local:q@http://h/v1", LOCAL_API_KEY=KEY).headers


def test_a_local_server_may_need_a_key():
    assert find("local:q@http://h/v1", LOCAL_API_KEY=KEY).headers["Authorization"] == f"Bearer {KEY}"


def test_a_missing_key_error_names_the_variable_and_the_alternatives():
    for model, variable, alternative in [
        ("anthropic:claude", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
        ("openai:gpt", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        ("openai-chat:gpt", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
    ]:
        for environ in ({}, {variable: ""}):
            error = error_of(UsageError, find, model, **environ)
            assert error.what == f"{variable} is not set"
            assert [name for name in (alternative, "local:", "scaffold demo") if name not in error.fix] == []


def test_an_unavailable_login_is_reported_clearly():
    assert "OPENAI_API_KEY" in error_of(UsageError, find, "codex:gpt-5", OPENAI_API_KEY=KEY).fix


def test_a_key_that_would_break_the_header_is_refused_and_not_shown():
    for model, variable in [
        ("anthropic:c", "ANTHROPIC_API_KEY"),
        ("openai:g", "OPENAI_API_KEY"),
        ("local:q@http://h/v1", "LOCAL_API_KEY"),
        ("codex:g", "CODEX_ACCESS_TOKEN"),
        ("codex:g", "CODEX_ACCOUNT_ID"),
    ]:
        for key in ["sk-1\n", "sk-1\r\nx-evil: 1", "sk 1", "sk-ü", '"sk-1"\x00', "\t"]:
            error = error_of(UsageError, find, model, **(KEYS | {variable: key}))
            assert error is not None, (variable, key)
            assert variable in error.what, (variable, key)
            assert "sk" not in error.what + error.fix, (variable, key)


def test_an_invalid_base_url_or_one_with_credentials_is_refused():
    for url in [
        *("h:1", "ftp://h", "http://", "http://u:p@h/v1"),
        *("http://h/v1?k=1", "http://h/#a", "http://h\n/", "http://h:99999"),
    ]:
        error = error_of(UsageError, find, "openai:g", **KEYS, OPENAI_BASE_URL=url)
        assert error is not None, url
        assert ("OPENAI_BASE_URL" in error.what, "u:p" in error.what) == (True, False), url
        assert "http://HOST:PORT/PATH" in error.fix, url


def test_a_local_url_is_validated_likewise():
    assert error_of(UsageError, find, "local:q@http:///v1") is not None


def test_no_representation_of_an_endpoint_contains_the_key():
    endpoint = find("anthropic:claude", **KEYS)
    assert KEY not in f"{endpoint!r} {endpoint} {endpoint.name}"


def test_models_of_one_provider_at_one_address_share_their_limits():
    """AL-31."""
    assert find("openai:gpt-5", **KEYS).name == find("openai:gpt-5.1", **KEYS).name
    assert find("local:a@http://h:1/v1").name != find("local:a@http://h:2/v1").name
