import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.core.errors import UsageError
from scaffold.policy.rule.ruleset import (
    FREE_DENIALS,
    MAX_PAUSE_S,
    DenialBackoff,
    parse_category,
    parse_decision,
    tighten_categories,
)


def test_each_denial_from_the_third_on_adds_a_doubling_backoff():
    """RA-14."""
    denials, pauses = DenialBackoff(), []
    for _ in range(11):
        denials = denials.another(now_s=100.0)
        pauses.append(denials.pause_s(100.0))
    assert pauses == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert denials.pause_s(130.0) == 30
    assert denials.pause_s(161.0) == 0


def test_the_backoff_never_exceeds_a_minute():
    assert DenialBackoff(count=5_000).another(0.0).pause_s(0.0) == 60


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=40))
def test_a_backoff_grows_with_each_denial_and_expires(times):
    """RA-14: none for the first two, then never shorter than the one before, never longer than a minute."""
    denials, before = DenialBackoff(), 0.0
    for at, now_s in enumerate(sorted(times), start=1):
        denials = denials.another(now_s)
        pause_s = denials.pause_s(now_s)
        assert pause_s == pytest.approx(0.0 if at < FREE_DENIALS else min(2.0 ** (at - FREE_DENIALS), MAX_PAUSE_S))
        assert pause_s >= before - 1e-6
        assert denials.pause_s(now_s + MAX_PAUSE_S + 1e-6) == 0.0
        before = pause_s


def test_a_project_may_tighten_and_never_loosen_rules():
    """RA-13: project configuration can tighten, never loosen."""
    rows = [
        ({}, {}, {}),
        ({"shell": "allow"}, {"shell": "ask"}, {"shell": "ask"}),
        ({"shell": "allow"}, {"shell": "deny"}, {"shell": "deny"}),
        ({"shell": "deny"}, {"shell": "allow"}, {"shell": "deny"}),
        ({"shell": "ask"}, {"shell": "allow"}, {"shell": "ask"}),
        ({}, {"shell": "allow"}, {}),
        ({}, {"python": "ask"}, {"python": "ask"}),
        ({}, {"file_read": "deny"}, {"file_read": "deny"}),
        ({}, {"file_write": "deny"}, {"file_write": "deny"}),
        ({"network": "allow"}, {"file_read": "ask"}, {"network": "allow", "file_read": "ask"}),
    ]
    assert [(user, project, tighten_categories(user, project)) for user, project, _ in rows] == rows


def test_unknown_categories_and_decisions_are_refused():
    assert parse_category("shell") == "shell"
    assert [parse_decision(word) for word in ("allow", "ask", "gate", "deny")] == ["allow", "ask", "ask", "deny"]
    with pytest.raises(UsageError, match="`shel`") as caught:
        parse_category("shel")
    assert "file_write" in caught.value.fix
    with pytest.raises(UsageError, match="`maybe`"):
        parse_decision("maybe")
