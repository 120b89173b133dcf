"""Which questions of agents reach a human."""

from builders import built_in_tiers
from scaffold.plan.question_budget import AskingAgent, why_not_asked

BY_NAME = built_in_tiers()


def agent(tier, asked=0, **situation):
    return AskingAgent(tier=BY_NAME[tier], asked=asked, **situation)


def test_each_tier_has_a_budget_and_scout_has_gates():
    """AL-17."""
    agents = (
        (agent("quick"), False),
        (agent("quick", failed=9, protected="auth/login.py"), False),
        (agent("scout"), False),
        (agent("scout", failed=4), False),
        (agent("scout", failed=5), True),
        (agent("scout", failed=5, asked=1), True),
        (agent("scout", failed=5, asked=2), False),
        (agent("scout", protected="auth/login.py"), True),
        (agent("builder", asked=1), True),
        (agent("builder", asked=2), False),
        (agent("builder", asked=2, failed=9, protected="auth/login.py"), False),
        (agent("architect", asked=1_000), True),
    )
    for kind in ("clarifying", "confirming"):
        assert [(asking, why_not_asked(asking, kind) == "") for asking, _ in agents] == list(agents)


def test_only_in_architect_a_human_is_asked_why_something_is_as_it_is():
    """AL-17."""
    reasons = {tier: why_not_asked(agent(tier, failed=5), "discovering") for tier in BY_NAME}
    assert [tier for tier, why in reasons.items() if why == ""] == ["architect"]
