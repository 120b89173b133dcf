"""A project may tighten the user's settings, and never loosen them."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.config.schema.setting import NO_ADDRESSES, ONLY_YOURS
from scaffold.config.settings import default_values, merge_local_settings, merge_project_settings
from scaffold.config.settings_file import SettingValue
from scaffold.core.run_settings import NetworkMode, SandboxMode
from scaffold.policy.rule.ruleset import CATEGORIES, DECISIONS, DEFAULT_DECISIONS

HELD = "it is `{}` already, and a project cannot loosen it"
MOST = "a project cannot raise it beyond {}"
SANDBOX_MODES = get_args(SandboxMode)
NETWORKS = get_args(NetworkMode)
"""From strict to loose."""


def user(**own):
    return default_values() | {name.replace("__", "."): SettingValue(value, "user") for name, value in own.items()}


def asked(**own):
    return {name.replace("__", "."): SettingValue(value, "file:1") for name, value in own.items()}


def becomes(merge, held, wanted):
    """Return the resulting value of the one setting that is requested, and why it differs from the request."""
    (name,) = wanted
    values, ignored = merge(held, wanted)
    return values[name].value, [each.reason for each in ignored]


def test_a_stricter_value_takes_effect():
    """RA-13."""
    rows = [
        ({}, {"approvals__shell": "deny"}, "deny"),
        ({}, {"approvals__python": "ask"}, "ask"),
        ({"approvals__shell": "allow"}, {"approvals__shell": "ask"}, "ask"),
        ({}, {"budget_usd": 3}, 3),
        ({"budget_usd": 5}, {"budget_usd": 3}, 3),
        ({}, {"agents": 2}, 2),
        ({}, {"max_workers_per_goal": 2}, 2),
        ({"sandbox__mode": "off"}, {"sandbox__mode": "require"}, "require"),
        ({"areas__words": ("invoice",)}, {"areas__words": ("tariff",)}, ("invoice", "tariff")),
        ({"quality_gates__tags": ("a @x",)}, {"quality_gates__tags": ("b @y",)}, ("a @x", "b @y")),
        ({"sandbox__network": "hosts"}, {"sandbox__network": "none"}, "none"),
        ({}, {"sandbox__memory_gb": 2}, 2),
        ({"permissions__deny": ("a:b",)}, {"permissions__deny": ("c:d", "a:b")}, ("a:b", "c:d")),
        ({}, {"model": "anthropic:claude"}, "anthropic:claude"),
        ({}, {"model": "small"}, "small"),
        ({}, {"tier": "architect"}, "architect"),
        ({"tier": "quick"}, {"tier": "architect"}, "architect"),
        ({"collisions": "off"}, {"collisions": "on"}, "on"),
        ({}, {"tiers__scout__agents": 1}, 1),
        ({}, {"inbox__wait_s": 60}, 60),
    ]
    found = [(held, wanted, becomes(merge_project_settings, user(**held), asked(**wanted))) for held, wanted, _ in rows]
    assert found == [(held, wanted, (value, [])) for held, wanted, value in rows]


def test_a_looser_value_is_ignored_with_the_reason():
    """RA-13."""
    rows = [
        ({}, {"approvals__shell": "allow"}, HELD.format("ask")),
        ({"approvals__mcp": "deny"}, {"approvals__mcp": "ask"}, HELD.format("deny")),
        ({"budget_usd": 2}, {"budget_usd": 3}, MOST.format(2)),
        ({}, {"agents": 4}, MOST.format(3)),
        ({"agents": 2}, {"agents": 3}, MOST.format(2)),
        ({}, {"collisions": "off"}, HELD.format("on")),
        ({}, {"max_subagents": 6}, MOST.format(5)),
        ({}, {"sandbox__mode": "off"}, HELD.format("auto")),
        ({}, {"sandbox__network": "hosts"}, HELD.format("loopback")),
        ({}, {"sandbox__memory_gb": 64}, MOST.format(16)),
        ({}, {"permissions__allow": ("shell:rm",)}, ONLY_YOURS),
        ({}, {"environment": ("ANTHROPIC_API_KEY",)}, ONLY_YOURS),
        ({}, {"models__embedding": "local:x@http://evil.example/v1"}, ONLY_YOURS),
        ({}, {"model": "local:x@http://evil.example/v1"}, NO_ADDRESSES),
        ({}, {"models__small": "local:x@http://evil.example/v1"}, NO_ADDRESSES),
    ]
    found = [(held, wanted, becomes(merge_project_settings, user(**held), asked(**wanted))) for held, wanted, _ in rows]
    kept = [user(**held)[next(iter(asked(**wanted)))].value for held, wanted, _ in rows]
    assert found == [
        (held, wanted, (value, [reason])) for (held, wanted, reason), value in zip(rows, kept, strict=True)
    ]


def test_only_hosts_that_the_user_allows_are_kept():
    held = user(sandbox__hosts=("a.example", "b.example"))
    wanted = asked(sandbox__hosts=("b.example", "evil.example"))
    assert becomes(merge_project_settings, held, wanted) == snapshot(
        (("b.example",), ["your own configuration does not have evil.example"])
    )


def test_the_number_of_agents_is_limited_by_the_current_tier():
    values, ignored = merge_project_settings(user(), asked(agents=5, tier="architect"))
    assert (values["agents"].value, values["tier"].value, ignored) == (5, "architect", ())


def test_the_users_file_for_one_checkout_may_loosen_but_cannot_redirect_credentials():
    wanted = asked(sandbox__mode="off", permissions__allow=("shell:make",), environment=("X",), budget_usd=9)
    wanted |= asked(model="local:x@http://evil.example/v1")
    values, ignored = merge_local_settings(user(budget_usd=1, permissions__allow=("shell:ls",)), wanted)
    assert (values["sandbox.mode"].value, values["budget_usd"].value) == ("off", 9)
    assert values["permissions.allow"] == SettingValue(("shell:ls", "shell:make"), "user, file:1")
    assert {each.setting: each.reason for each in ignored} == {"environment": ONLY_YOURS, "model": NO_ADDRESSES}


WORDS = {
    **{f"approvals.{category}": st.sampled_from(DECISIONS) for category in CATEGORIES},
    "sandbox.mode": st.sampled_from(SANDBOX_MODES),
    "sandbox.network": st.sampled_from(NETWORKS),
    "budget_usd": st.integers(0, 9),
    "agents": st.integers(1, 20),
    "sandbox.memory_gb": st.integers(1, 64),
    "sandbox.hosts": st.lists(st.sampled_from("abc"), unique=True).map(tuple),
    "permissions.allow": st.lists(st.sampled_from(["a:1", "b:2"]), unique=True).map(tuple),
    "permissions.deny": st.lists(st.sampled_from(["a:1", "b:2"]), unique=True).map(tuple),
    "environment": st.lists(st.sampled_from("XY"), unique=True).map(tuple),
}
LAYERS = st.fixed_dictionaries({}, optional=WORDS)


def freedom(values):
    """Return how much the settings allow: part by part, none may be greater in a project."""
    plain = {name: each.value for name, each in values.items()}
    grants = [len(plain[name]) for name in ("permissions.allow", "environment", "sandbox.hosts")]
    return [
        *(-DECISIONS.index(plain[f"approvals.{each}"] or DEFAULT_DECISIONS[each]) for each in CATEGORIES),
        SANDBOX_MODES.index(plain["sandbox.mode"]),
        NETWORKS.index(plain["sandbox.network"]),
        plain["budget_usd"] if plain["budget_usd"] is not None else float("inf"),
        plain["agents"] or plain["tiers.builder.agents"],
        plain["sandbox.memory_gb"],
        -len(plain["permissions.deny"]),
        *grants,
    ]


@given(own=LAYERS, project=LAYERS)
def test_no_project_allows_more_than_its_user(own, project):
    """AL-28."""
    before = user() | {name: SettingValue(value, "user") for name, value in own.items()}
    after, _ = merge_project_settings(before, {name: SettingValue(value, "file:1") for name, value in project.items()})
    assert all(left <= had for left, had in zip(freedom(after), freedom(before), strict=True))


def test_only_the_user_sets_a_notification_command():
    """RA-13: a project starts no command; the user's file for one checkout may, once it is agreed to."""
    assert becomes(merge_project_settings, user(), asked(notify="touch owned")) == (None, [ONLY_YOURS])
    assert becomes(merge_project_settings, user(notify="beep"), asked(notify="touch owned")) == ("beep", [ONLY_YOURS])
    assert becomes(merge_local_settings, user(notify="beep"), asked(notify="ring")) == ("ring", [])
