"""What requests are for, and which of their tokens count."""

from scaffold.core.model import Usage
from scaffold.core.spending import purpose_of


def test_each_role_serves_one_purpose():
    """AL-21: proof is counted beside work."""
    purposes = {
        "implementation": "work",
        "learner": "work",
        "planner": "planning",
        "supervisor": "planning",
        "critic": "proof",
        "drafter": "proof",
        "reviewer": "proof",
        "auditor": "proof",
        "security_review": "proof",
        "merger": "landing",
    }
    assert {role: purpose_of(role) for role in purposes} == purposes


def test_input_that_a_cache_had_does_not_count():
    used = Usage(input_tokens=1_000, cached_input_tokens=900, output_tokens=50, requests=1)
    assert (used.counted_tokens, used.tokens) == (150, 1_050)
    guessed = used.as_estimate
    assert (used + guessed).estimated_tokens == 150
    assert (used + guessed).counted_tokens == 300
