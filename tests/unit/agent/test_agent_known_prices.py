"""Whether the cost of a model will be known."""

from scaffold.agent.model_access import has_known_price


def test_the_price_of_a_model_is_known_or_not():
    """RA-18: the status line says `cost unknown` as soon as such a model works."""
    table = {
        "anthropic:claude-sonnet-4-5": True,
        "openai:gpt-5": True,
        "openai:of-tomorrow": False,
        "codex:gpt-5": False,
        "local:qwen@http://127.0.0.1:1/v1": False,
        "cassette:talk.yaml": True,
    }
    assert {model: has_known_price(model) for model in table} == table
